"""Rows that show several values, the true one among them."""

from scumble.model.family import Family

FAMILY = Family(
    order=6,
    use="classic",
    mechanisms={"aroma": "Aroma"},
    publishes={
        "aroma": "every row; the true value among k values; not DP",
    },
    channels=("pool",),
)
