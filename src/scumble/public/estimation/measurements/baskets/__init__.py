"""Answers from counts of sets of items: questions, the most frequent sets, association rules."""
