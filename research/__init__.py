"""Experiments of the papers and benchmarks of the field: `python -m research --help`."""
