"""k-anonymity and its relatives: the risk of a table as it is, and of generalised rows."""
