"""Rows whose sensitive values are kept or replaced by chance, each by itself."""

from scumble.model.family import Family

FAMILY = Family(
    order=1,
    use="rows",
    mechanisms={"uniform": "Uniform", "subset": "Subset"},
    publishes={
        "uniform": "every row; sensitive values kept, or drawn anew",
        "subset": "every row; the sensitive value hidden in a set",
    },
    channels=("uniform", "subset"),
)
