"""Rows of one person: the limit on their number, and rows of single items as lists."""
