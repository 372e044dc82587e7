"""Marginal tables."""

from scumble.model.family import Family

FAMILY = Family(
    order=9,
    use="counts",
    mechanisms={"marginals": "Marginals", "fourier": "Fourier", "datacube": "Datacube"},
    publishes={
        "marginals": "many tables of few columns that agree with each other",
        "fourier": "tables of columns with two values, by coefficients",
        "datacube": "some cuboids of a data cube, all others follow",
    },
    views={"marginals": ("marginals", "fourier", "datacube")},
)
