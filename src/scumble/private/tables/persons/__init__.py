"""Persons: which rows belong to one, and the limit on their number."""
