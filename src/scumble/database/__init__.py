"""The statistical database: boxes, popularity, relaxation, and the ledger of what was answered."""
