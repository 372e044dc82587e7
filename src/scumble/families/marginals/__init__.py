"""Marginal tables."""

from scumble.model.family import Family

FAMILY = Family(
    order=9,
    mechanisms={"marginals": "Marginals", "fourier": "Fourier", "datacube": "Datacube"},
)
