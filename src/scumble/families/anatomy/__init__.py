"""True rows, and the sensitive values of groups of them."""

from scumble.model.family import Family

FAMILY = Family(
    order=4,
    mechanisms={"anatomy": "Anatomy"},
    evidence={"groups": "Groups"},
)
