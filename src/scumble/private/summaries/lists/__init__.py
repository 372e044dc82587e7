"""Releases of sets and sequences."""
