"""Releases that synthetic rows are drawn from."""
