"""Rows in sub-tables with small domains of their own, each perturbed by itself."""

from scumble.model.family import Family

FAMILY = Family(
    order=3,
    use="classic",
    mechanisms={"partition": "Partition"},
    publishes={
        "partition": "every row, perturbed within sub-tables; not DP",
    },
    channels=("split",),
)
