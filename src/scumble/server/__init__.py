"""The server: databases and releases for browsers, programs, notebooks and PostgreSQL clients.

It adds no privacy logic: it calls `Database`, `Release` and `Ledger`, and their rules hold.
"""
