"""Rows that show several values, the true one among them."""

from scumble.model.family import Family

FAMILY = Family(
    order=6,
    mechanisms={"aroma": "Aroma"},
    channels=("pool",),
)
