"""Synthetic rows drawn from urns, one for each stratum."""

from scumble.model.family import Family

FAMILY = Family(
    order=16,
    mechanisms={"dirichlet": "Dirichlet"},
    evidence={"synthetic": "Synthetic"},
)
