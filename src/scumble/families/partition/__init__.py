"""Rows in sub-tables with small domains of their own, each perturbed by itself."""

from scumble.model.family import Family

FAMILY = Family(
    order=3,
    mechanisms={"partition": "Partition"},
    channels=("split",),
)
