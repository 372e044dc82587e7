"""Checks and attacks on what releases, methods, tables and databases claim."""
