"""Evidence to a number: one file per kind of evidence, and the laws of their errors."""
