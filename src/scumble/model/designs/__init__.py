"""Measurement designs: linear maps from cells to measured sums, and their least squares."""
