"""Reader of noisy counts of whole baskets (DiffPart).

An answer is the sum of the published baskets. Those that were left out may have any items: their
number is that of all baskets less the published ones, and each weighs between the least and the
largest weight that the question gives to a basket.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from typing import cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.whole_baskets import COUNT, ITEMS, LAW, WholeBaskets
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import Reading, Weights
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]

LONGEST = 3  # items of the sets that are ranked
LEFT_OUT = (
    "baskets that few people have were left out, about {rest:,.0f} of all; the interval allows for "
    "them"
)


class WholeBasketReader:
    """The published baskets of one release."""

    method = "sum of noisy counts of whole baskets"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.design = cast(WholeBaskets, evidence.design)
        table = engine.rows(f"SELECT {ITEMS}, {LAW}, {COUNT} FROM view")
        laws = table[LAW].to_numpy()
        if len(laws) and not 0 <= laws.min() <= laws.max() < len(self.design.laws):
            raise ValueError("a basket has noise of an unknown law")
        self.counts = table[COUNT].to_numpy().astype(np.float64)
        known = [(law.variance, law.fourth) for law in self.design.laws]
        variances, fourths = np.array(known, np.float64).reshape(-1, 2)[laws].T
        noise = self.design.total_noise
        # The last number is that of all baskets.
        self._numbers = np.append(self.counts, self.design.total)
        self._variances = np.append(variances, noise.variance if noise else 0.0)
        self._fourths = np.append(fourths, noise.fourth if noise else 0.0)
        self.baskets: list[list[int]] = table[ITEMS].to_pylist()

    @cached_property
    def members(self) -> npt.NDArray[np.bool_]:
        """Which items (columns) each published basket (row) has."""
        found = np.zeros((len(self.baskets), len(self.design.attributes)), bool)
        for row, items in enumerate(self.baskets):
            found[row, items] = True
        return found

    def read(self, weights: Weights) -> Reading:
        own, least, most = self._weighed(weights)
        low = self._reading(_coefficients(own, least))
        if least == most:
            return low
        high = self._reading(_coefficients(own, most))
        rest = max(self.design.total - self.counts.sum(), 0.0)
        notes = (LEFT_OUT.format(rest=rest),)
        return Reading(low.value, low.variance, low.fourth, low.largest, notes, low, high)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = (_coefficients(*self._weighed(each)[:2]) for each in (first, second))
        covariance = float((one * other) @ self._variances)
        return self.read(first), self.read(second), covariance

    def sets(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield the sets of one to three items of published baskets, with their counts."""
        found: dict[tuple[int, ...], float] = {}
        for items, count in zip(self.baskets, self.counts.tolist(), strict=True):
            for size in range(1, LONGEST + 1):
                for each in combinations(sorted(items), size):
                    found[each] = found.get(each, 0.0) + count
        yield from found.items()

    def _weighed(self, weights: Weights) -> tuple[Floats, float, float]:
        """Return the weights of published baskets, and the limits of the weight of any basket."""
        own, least, most = np.ones(len(self.baskets)), 1.0, 1.0
        for part in weights.parts:
            places = [self.design.attributes.index(name) for name in part.names]
            own = own * part.values[tuple(self.members[:, place].astype(int) for place in places)]
            ends = (float(part.values.min()), float(part.values.max()))
            products = [one * other for one in (least, most) for other in ends]
            least, most = min(products), max(products)
        return own, least, most

    def _reading(self, coefficients: Floats) -> Reading:
        noisy = coefficients[self._variances > 0]
        return Reading(
            float(coefficients @ self._numbers),
            float(coefficients**2 @ self._variances),
            float(coefficients**4 @ self._fourths),
            float(np.abs(noisy).max(initial=0.0)),
        )


def _coefficients(own: Floats, rest: float) -> Floats:
    """Return the coefficients of the counts of published baskets and of the number of all, if every
    other basket weighs `rest`: Σ own · count + rest · (all - Σ count).
    """
    return np.append(own - rest, rest)
