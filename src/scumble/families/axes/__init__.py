"""Products of one strategy for each attribute: trees of ranges, and wavelets."""

from scumble.model.family import Family

FAMILY = Family(
    order=8,
    use="counts",
    mechanisms={"hierarchy": "Hierarchy", "wavelet": "Wavelet", "dyadic": "Dyadic"},
    publishes={
        "hierarchy": "counts of blocks of several sizes, for ranges",
        "wavelet": "differences of blocks, for ranges and many columns",
        "dyadic": "differences of blocks, for any few of up to six columns",
    },
)
