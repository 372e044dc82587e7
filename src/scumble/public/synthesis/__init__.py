"""Synthetic rows from noisy tables of counts: post-processing, which costs no privacy."""
