"""A toy family: a record and one role. Tests put the folder above into the path of families."""

from scumble.model.family import Family

FAMILY = Family(
    order=99,
    use="counts",
    mechanisms={"frugal": "Frugal"},
    publishes={
        "frugal": "a noisy count of every cell, for less",
    },
)
