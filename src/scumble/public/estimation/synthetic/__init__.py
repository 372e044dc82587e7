"""Answers from what was drawn: synthetic rows, counts chosen in rounds, samples of people."""
