"""Tables and questions chosen in private, from which synthetic rows are drawn."""

from scumble.model.family import Family

FAMILY = Family(
    order=15,
    mechanisms={"synthesis": "Synthesis", "mwem": "Mwem"},
    designs={"chosen": ("ChosenTables", "ChosenReader"), "rounds": ("QueryRounds", "RoundsReader")},
)
