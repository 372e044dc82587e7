"""Answers from Anatomy's two tables."""
