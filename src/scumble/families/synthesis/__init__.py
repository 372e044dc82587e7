"""Tables and questions chosen in private, from which synthetic rows are drawn."""

from scumble.model.family import Family

FAMILY = Family(
    order=16,
    use="synthetic",
    mechanisms={"synthesis": "Synthesis", "mwem": "Mwem"},
    publishes={
        "synthesis": "tables chosen in private, and rows drawn from them",
        "mwem": "a model of all combinations, made for given questions",
    },
    designs={"chosen": ("ChosenTables", "ChosenReader"), "rounds": ("QueryRounds", "RoundsReader")},
)
