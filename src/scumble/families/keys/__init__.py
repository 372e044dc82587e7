"""Keys of an open domain that many people have."""

from scumble.model.family import Family

FAMILY = Family(
    order=13,
    mechanisms={"keys": "Keys"},
    designs={"open": ("OpenKeys", "OpenKeysReader")},
)
