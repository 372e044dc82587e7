"""Answers from synthetic rows, whose errors follow from the law by which they were drawn."""
