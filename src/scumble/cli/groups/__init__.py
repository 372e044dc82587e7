"""Groups of commands: `scumble ledger ...` and `scumble server ...`."""
