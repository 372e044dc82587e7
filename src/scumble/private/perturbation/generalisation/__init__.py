"""Generalisation: k-anonymity, l-diversity and t-closeness by coarser values."""
