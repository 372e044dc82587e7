"""The strategy that suits a list of questions."""

from scumble.model.family import Family

FAMILY = Family(
    order=10,
    mechanisms={"workload": "Workload"},
)
