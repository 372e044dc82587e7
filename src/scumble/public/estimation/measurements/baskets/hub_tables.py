"""Reader of noisy tables over a few frequent items and one other item (Baskets).

A question about binary columns is a sum over tables: with the weight w of the cells without an
other item j and v with it, it is w on the table of all baskets and v - w on that of j. Questions
that tie two other items together were not measured.

Long baskets kept some of their other items only, so that counts of these are too low. The published
numbers of items beyond the limit tell by which factor on average. Values are raised by it, as if
all items were left out equally often, if they stand out of the noise; intervals hold without this
assumption, by the number of baskets that were clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.hub_tables import HubTables, cells_of, supersets, walsh
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.baskets.itemsets import (
    conjunction,
    measured_counts,
    refusal,
    steps,
    tied,
)
from scumble.public.estimation.measurements.readings import Reading, Weights
from scumble.public.sandbox import Sandbox

Tensor = npt.NDArray[np.float64]

_SEEN = 2  # standard errors of the number of items left out, above which counts are raised
CLIPPED = (
    "counted from at most {most} of the rarer items of a basket, and raised by {more:.1%} for "
    "those left out; the interval allows for all baskets with more, about {beyond:,.0f}"
)


@dataclass(frozen=True, eq=False)
class _Functional:
    """The weights of the cells of some tables, by the number of the table. `up` and `down` are the
    most that further other items of a basket can add to and take from its weight.
    """

    weights: dict[int, Tensor]
    up: float
    down: float


class HubReader:
    """The noisy tables of one release."""

    method = "sum of noisy cells of baskets with an item"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design: Any = evidence.design
        if not isinstance(design, HubTables):
            raise TypeError("tables over frequent items have a design of their own")
        if design.attributes != evidence.columns:
            raise ValueError("the items do not fit the manifest")
        numbers = measured_counts(engine, design.count)
        size = design.tables * design.cells
        if len(numbers) != size + design.most:
            raise ValueError("the number of cells does not fit the design")
        self.design = design
        measured = numbers[:size].reshape(design.tables, design.cells)
        self.cells = measured if design.by_cells else cells_of(measured)
        self._beyond = numbers[size:]
        self._rows = evidence.rows
        laws = [design.laws(True), design.laws(False)]
        self._variances = np.array([[each.variance for each in row] for row in laws])
        self._fourths = np.array([[each.fourth for each in row] for row in laws])

    @cached_property
    def raised(self) -> float:
        """The estimated share of other items that was left out, of those that were kept; 0 if noise
        alone may be what was counted.
        """
        more = np.arange(1, self.design.most + 1)
        left_out = float(more @ self._beyond)
        if left_out <= _SEEN * (self.design.beyond.variance * float(more @ more)) ** 0.5:
            return 0.0
        return left_out / max(float(self.cells[1:].sum()), 1.0, left_out)

    def read(self, weights: Weights) -> Reading:
        found = self._functional(weights)
        if self._rows is not None and not weights.names:
            return Reading(self._rows * weights.factor, 0.0)
        parts = {table: float(w @ self.cells[table]) for table, w in found.weights.items()}
        raw = sum(parts.values())
        squares, powers, largest = self._moments(found)
        beyond, law, bins = float(self._beyond.sum()), self.design.beyond, self.design.most

        def moved(by: float) -> Reading:
            return Reading(
                raw + by * beyond,
                squares + by**2 * bins * law.variance,
                powers + by**4 * bins * law.fourth,
                max(largest, abs(by)),
            )

        if not found.up and not found.down:
            return Reading(raw, squares, powers, largest)
        others = raw - parts.get(0, 0.0)
        value = raw + self._raise(others, found.up, found.down)
        note = CLIPPED.format(most=self.design.most, more=self.raised, beyond=max(beyond, 0.0))
        low, high = moved(-found.down), moved(found.up)
        return Reading(value, squares, powers, largest, (note,), low, high)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = self._functional(first), self._functional(second)
        if self._rows is not None and not (first.names and second.names):  # one has no error
            return self.read(first), self.read(second), 0.0
        covariance = sum(
            float(
                (self._coefficients(own) * self._coefficients(other.weights[table]))
                @ self._variances[min(table, 1)]
            )
            for table, own in one.weights.items()
            if table in other.weights
        )
        return self.read(first), self.read(second), covariance

    def sets(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield every measured set but the empty one, by the places of its items, and its count."""
        hubs, sums = self.design.hubs, supersets(self.cells)
        beyond = max(float(self._beyond.sum()), 0.0)
        sums[1:] += (sums[1:] * self.raised).clip(0, beyond)
        chosen = [tuple(h for h in range(hubs) if cell >> h & 1) for cell in range(sums.shape[1])]
        for table, row in enumerate(sums.tolist()):
            other = (hubs + table - 1,) if table else ()
            for places, value in zip(chosen, row, strict=True):
                if table or places:
                    yield places + other, value

    def variance(self, places: Sequence[int]) -> float:
        """Return the variance of the noise of the count of a measured set."""
        others = [place for place in places if place >= self.design.hubs]
        wanted = sum(1 << place for place in places if place < self.design.hubs)
        cells = np.arange(self.design.cells)
        weights = (cells & wanted == wanted).astype(np.float64)
        return float(self._coefficients(weights) ** 2 @ self._variances[len(others)])

    def _raise(self, others: float, up: float, down: float) -> float:
        """Return what is added for items that were left out, within the limits of the answer."""
        beyond = max(float(self._beyond.sum()), 0.0)
        return float(np.clip(others * self.raised, -down * beyond, up * beyond))

    def _moments(self, found: _Functional) -> tuple[float, float, float]:
        """Return the variance, the fourth cumulant and the largest coefficient of the noise."""
        squares = powers = largest = 0.0
        for table, weights in found.weights.items():
            own = self._coefficients(weights)
            squares += float(own**2 @ self._variances[min(table, 1)])
            powers += float(own**4 @ self._fourths[min(table, 1)])
            largest = max(largest, float(np.abs(own).max()))
        return squares, powers, largest

    def _coefficients(self, weights: Tensor) -> Tensor:
        """Return the coefficients of the measured numbers of a table, from those of its cells."""
        return weights if self.design.by_cells else walsh(weights) / self.design.cells

    def _functional(self, weights: Weights) -> _Functional:
        names, whole = tied(weights)
        places = [self.design.attributes.index(name) for name in names]
        others = [axis for axis, place in enumerate(places) if place >= self.design.hubs]
        ordered = np.moveaxis(whole, others, range(len(others)))
        up, down = steps(ordered, len(others))
        coefficients = ordered.copy()
        for axis in range(len(others)):
            lead = np.moveaxis(coefficients, axis, 0)
            lead[1] -= lead[0]
        hubs = [place for place in places if place < self.design.hubs]
        found: dict[int, Tensor] = {}
        for index in np.ndindex(*(2,) * len(others)):
            if not coefficients[index].any():
                continue
            if sum(index) > 1:
                raise QueryError(refusal(self.read, conjunction(weights), self._measured))
            table = 0
            if any(index):
                table = places[others[index.index(1)]] - self.design.hubs + 1
            found[table] = self._expanded(coefficients[index], hubs)
        return _Functional(found, up, down)

    def _expanded(self, values: Tensor, hubs: Sequence[int]) -> Tensor:
        """Return the weights of all cells, given those of the values of some hubs."""
        cells = np.arange(self.design.cells)
        spread: Tensor = np.broadcast_to(
            values[tuple(cells >> hub & 1 for hub in hubs)], cells.shape
        ).astype(np.float64)
        return spread

    def _measured(self, names: Sequence[str]) -> bool:
        places = [self.design.attributes.index(name) for name in names]
        return sum(place >= self.design.hubs for place in places) <= 1
