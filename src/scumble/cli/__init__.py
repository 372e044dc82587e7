"""The command line: the program `scumble`, its commands and what they print."""
