"""Whole rows hidden among false ones, or replaced by others."""

from scumble.model.family import Family

FAMILY = Family(
    order=2,
    mechanisms={"frapp": "Frapp", "alphabeta": "AlphaBeta"},
    evidence={"tuples": "Tuples"},
)
