"""Designs of noisy counts of sets and sequences."""
