"""The experiments of the paper on Aroma."""
