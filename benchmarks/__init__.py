"""Benchmarks of scumble: ratios measured in one run, each beside its target."""
