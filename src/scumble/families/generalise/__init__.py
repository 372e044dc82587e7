"""True rows with coarser values."""

from scumble.model.family import Family

FAMILY = Family(
    order=5,
    use="classic",
    mechanisms={"generalise": "Generalise"},
    publishes={
        "generalise": "true rows with coarser values (k-anonymity); not DP",
    },
    evidence={"generalised": "Generalised"},
    verbs={"generalised": "GeneralisedRows"},
    views={"generalised": ("generalise",)},
)
