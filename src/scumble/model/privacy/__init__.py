"""Stated guarantees and the accounting of privacy loss."""
