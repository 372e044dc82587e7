"""The database in Gaussian mode: a base, and counts that are measured as far as is needed."""
