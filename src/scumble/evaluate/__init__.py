"""Experiments: the papers' own, run by the owner of a table on what this project built of them."""
