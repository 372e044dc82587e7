"""The owner's ledger: what all releases of a table cost together."""
