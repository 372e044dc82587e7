"""Answers from rows whose sensitive values were randomised."""
