"""Products of one strategy for each attribute: trees of ranges, and wavelets."""

from scumble.model.family import Family

FAMILY = Family(
    order=8,
    mechanisms={"hierarchy": "Hierarchy", "wavelet": "Wavelet"},
)
