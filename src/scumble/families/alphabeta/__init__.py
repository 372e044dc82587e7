"""Whole rows hidden among false ones, or replaced by others."""

from scumble.model.family import Family

FAMILY = Family(
    order=2,
    use="classic",
    mechanisms={"frapp": "Frapp", "alphabeta": "AlphaBeta"},
    publishes={
        "frapp": "as many rows, each kept or replaced as a whole",
        "alphabeta": "true rows hidden among false ones, once or in several views",
    },
    evidence={"tuples": "Tuples"},
)
