"""The experiments of the paper on query relaxation."""
