"""Releases of synthetic rows, and of models from which rows can be drawn."""
