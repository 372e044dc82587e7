"""The strategy that suits a list of questions."""

from scumble.model.family import Family

FAMILY = Family(
    order=10,
    use="counts",
    mechanisms={"workload": "Workload"},
    publishes={
        "workload": "sums that answer given questions best",
    },
)
