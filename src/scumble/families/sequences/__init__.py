"""Sequences of values, and trips."""

from scumble.model.family import Family

FAMILY = Family(
    order=13,
    use="lists",
    mechanisms={"sequences": "Sequences", "trajectories": "Trajectories"},
    publishes={
        "sequences": "what follows what in sequences, such as visits",
        "trajectories": "trips over a grid: from where to where, and how",
    },
    designs={"strings": ("Strings", "StringsReader"), "parts": ("Parts", "PartsReader")},
    views={"sequences": ("sequences", "trajectories")},
)
