"""Exact samplers over a cryptographic keystream."""
