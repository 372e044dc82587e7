"""A demonstration on fictitious people."""
