"""Synthetic rows drawn from urns, one for each stratum."""

from scumble.model.family import Family

FAMILY = Family(
    order=17,
    use="synthetic",
    mechanisms={"dirichlet": "Dirichlet"},
    publishes={
        "dirichlet": "rows drawn within strata",
    },
    evidence={"synthetic": "Synthetic"},
)
