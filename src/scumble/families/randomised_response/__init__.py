"""Rows whose sensitive values are kept or replaced by chance, each by itself."""

from scumble.model.family import Family

FAMILY = Family(
    order=1,
    mechanisms={"uniform": "Uniform", "subset": "Subset"},
    channels=("uniform", "subset"),
)
