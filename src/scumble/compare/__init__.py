"""Comparison of methods on the data of an owner, and advice from a schema."""
