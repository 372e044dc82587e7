"""The public description of a table: its attributes, their domains, and codes of values."""
