"""Noisy counts of cells: of all of them, or of those that are large."""

from scumble.model.family import Family

FAMILY = Family(
    order=7,
    mechanisms={"histogram": "Histogram", "sparse": "Sparse"},
    designs={"cells": ("Cells", "CellsReader"), "sparse": ("Sparse", "SparseReader")},
)
