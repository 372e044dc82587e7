"""Answers from published sets of true and false tuples."""
