"""True rows, and the sensitive values of groups of them."""

from scumble.model.family import Family

FAMILY = Family(
    order=4,
    use="classic",
    mechanisms={"anatomy": "Anatomy"},
    publishes={
        "anatomy": "true rows, their sensitive values apart (l-diversity); not DP",
    },
    evidence={"groups": "Groups"},
)
