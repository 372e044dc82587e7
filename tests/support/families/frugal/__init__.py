"""A toy family: a record and one role. Tests put the folder above into the path of families."""

from scumble.model.family import Family

FAMILY = Family(
    order=99,
    mechanisms={"frugal": "Frugal"},
)
