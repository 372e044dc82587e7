"""Comparison of methods on the data of an owner."""
