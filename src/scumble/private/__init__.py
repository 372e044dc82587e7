"""Private rows and randomness: sources, samplers, mechanisms, ledgers, databases."""
