"""Noisy counts of cells: of all of them, or of those that are large."""

from scumble.model.family import Family

FAMILY = Family(
    order=7,
    use="counts",
    mechanisms={"histogram": "Histogram", "sparse": "Sparse"},
    publishes={
        "histogram": "the count of every combination of a few columns",
        "sparse": "the large counts among very many combinations",
    },
    designs={"cells": ("Cells", "CellsReader"), "sparse": ("Sparse", "SparseReader")},
    views={"histogram": ("histogram",)},
)
