"""Questions: SQL to boxes, amounts and groups."""
