"""Answers from noisy sums of cells."""
