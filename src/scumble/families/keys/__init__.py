"""Keys of an open domain that many people have."""

from scumble.model.family import Family

FAMILY = Family(
    order=14,
    use="lists",
    mechanisms={"keys": "Keys"},
    publishes={
        "keys": "values of an unlisted category that enough people have",
    },
    designs={"open": ("OpenKeys", "OpenKeysReader")},
    views={"keys": ("keys",)},
)
