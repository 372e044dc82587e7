"""An append-only, hash-chained journal on disk."""
