"""Answers from generalised rows."""
