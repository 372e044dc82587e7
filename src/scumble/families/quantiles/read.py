"""Reader of quantiles: the boxes are those of a tree with leaves only."""

from __future__ import annotations

from scumble.families.boxes.read import BoxTreeReader


class QuantileReader(BoxTreeReader):
    """Adds up intervals; quantiles are found by inverting these sums, as for every release."""

    method = "sum of intervals of a number that was cut near its quantiles"
