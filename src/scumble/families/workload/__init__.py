"""The strategy that suits a list of questions."""

from scumble.model.family import Family

FAMILY = Family(
    place=10,
    mechanisms={"workload": "Workload"},
)
