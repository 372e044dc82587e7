"""Marginal tables."""

from scumble.model.family import Family

FAMILY = Family(
    place=9,
    mechanisms={"marginals": "Marginals", "fourier": "Fourier", "datacube": "Datacube"},
)
