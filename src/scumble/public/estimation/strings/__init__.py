"""Answers from trees of strings: counts, what comes next, and the most frequent strings."""
