"""Sequences of values, and trips."""

from scumble.model.family import Family

FAMILY = Family(
    order=12,
    mechanisms={"sequences": "Sequences", "trajectories": "Trajectories"},
    designs={"strings": ("Strings", "StringsReader"), "parts": ("Parts", "PartsReader")},
)
