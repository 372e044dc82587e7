"""Differentially private summaries, one mechanism a file."""
