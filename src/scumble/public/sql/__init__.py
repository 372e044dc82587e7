"""From SQL text to a Query."""
