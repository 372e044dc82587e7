"""Groups of commands that belong together: ledgers, servers, lists, rows."""
