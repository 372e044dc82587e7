"""The public description of a table: attributes, their domains, and codes of values."""
