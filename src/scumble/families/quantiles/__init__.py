"""Quantiles of amounts, with intervals."""

from scumble.model.family import Family

FAMILY = Family(
    order=12,
    use="counts",
    mechanisms={"quantiles": "Quantiles"},
    publishes={"quantiles": "quantiles of one number, such as medians, by groups"},
    designs={"quantiles": ("QuantileBoxes", "QuantileReader")},
)
