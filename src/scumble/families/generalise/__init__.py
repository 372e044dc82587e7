"""True rows with coarser values."""

from scumble.model.family import Family

FAMILY = Family(
    order=5,
    mechanisms={"generalise": "Generalise"},
    evidence={"generalised": "Generalised"},
    verbs={"generalised": "GeneralisedRows"},
)
