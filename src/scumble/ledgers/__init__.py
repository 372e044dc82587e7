"""The owner's ledger: what several releases of one table cost together."""
