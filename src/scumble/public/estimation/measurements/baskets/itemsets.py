"""Readers of noisy counts of small sets of items (Baskets with many items), and of whole baskets
(DiffPart).

Of sets: a question about binary columns is a sum of counts of sets: x for "has a", (1 - x) for "has
it not", so that the product of such factors has one coefficient for every set of columns. Of whole
baskets: an answer is the sum of the published ones. Those that were left out may have any items:
their number is that of all baskets less the published ones, and each weighs between the least and
the largest weight that the question gives to a basket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model import arrow_compute as pc
from scumble.model.designs.lists.itemsets import Itemsets, set_places
from scumble.model.designs.lists.whole_baskets import COUNT, ITEMS, LAW, WholeBaskets
from scumble.model.errors import QueryError, ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import quoted
from scumble.model.schema.lists import DerivedName
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, counts, indices
from scumble.public.estimation.measurements.readings import Part, Reading, Weights
from scumble.public.sandbox import Sandbox

Tensor = npt.NDArray[np.float64]

CLIPPED = (
    "counted from at most {most} items of a basket; the interval allows for baskets with more, of "
    "which there are about {beyond:,.0f}"
)
LEFT_OUT = (
    "baskets that few people have were left out, about {rest:,.0f} of all; the interval allows for "
    "them"
)
LONGEST = 3  # items of the sets of whole baskets that are ranked
_MOST_COLUMNS = 20  # of one question
_MOST_TRIED = 12  # items of which all subsets are tried for an upper bound; of more, pairs
_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class _Functional:
    """A sum of counts of sets: the places of their numbers, and their coefficients.

    `up` and `down` are the most that further items of a basket can add to and take from its weight.
    """

    places: npt.NDArray[np.int64]
    coefficients: Tensor
    up: float
    down: float


class ItemsetReader:
    """The noisy counts of all small sets of one release."""

    method = "sum of noisy counts of sets of items"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design: Any = evidence.design
        if not isinstance(design, Itemsets):
            raise TypeError("sets of items have a design of their own")
        numbers = measured_counts(engine, design.count)
        if len(numbers) != design.numbers + 1:
            raise ValueError("the number of sets does not fit the design")
        self.design = design
        self.numbers = numbers[:-1]
        self._beyond = float(numbers[-1])
        self._known = evidence.rows is not None
        if evidence.rows is not None:
            self.numbers[0] = evidence.rows

    def read(self, weights: Weights) -> Reading:
        found = self._functional(weights)
        value = float(found.coefficients @ self.numbers[found.places])
        noisy = self._noisy(found)
        squares = noisy**2
        law, beyond = self.design.noise, self.design.beyond
        variance, fourth = law.variance * squares.sum(), law.fourth * (squares @ squares)
        largest = float(np.abs(noisy).max(initial=0.0))

        def moved(by: float) -> Reading:
            return Reading(
                value + by * self._beyond,
                float(variance + by**2 * beyond.variance),
                float(fourth + by**4 * beyond.fourth),
                max(largest, abs(by)),
            )

        if not found.up and not found.down:
            return Reading(value, float(variance), float(fourth), largest)
        note = CLIPPED.format(most=self.design.most, beyond=max(self._beyond, 0.0))
        return Reading(
            value,
            float(variance),
            float(fourth),
            largest,
            (note,),
            moved(-found.down),
            moved(found.up),
        )

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = self._functional(first), self._functional(second)
        _, mine, yours = np.intersect1d(one.places, other.places, return_indices=True)
        shared = float(self._noisy(one)[mine] @ self._noisy(other)[yours])
        return self.read(first), self.read(second), self.design.noise.variance * shared

    def _noisy(self, found: _Functional) -> Tensor:
        """Return the coefficients of noisy numbers; that of a known number of baskets is 0."""
        return found.coefficients * (found.places > 0) if self._known else found.coefficients

    def _functional(self, weights: Weights) -> _Functional:
        names, whole = tied(weights)
        coefficients = whole.copy()
        for axis in range(len(names)):
            lead = np.moveaxis(coefficients, axis, 0)
            lead[1] -= lead[0]
        sets = np.argwhere(coefficients)
        if len(sets) and sets.sum(axis=1).max() > self.design.longest:
            raise QueryError(refusal(self.read, conjunction(weights), self._measured))
        return _Functional(
            self._places(names, sets), coefficients[coefficients != 0], *steps(whole, whole.ndim)
        )

    def _places(self, names: Sequence[str], sets: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        columns = np.array([self.design.attributes.index(name) for name in names], np.int64)
        found = np.empty(len(sets), np.int64)
        sizes = sets.sum(axis=1)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            members = np.nonzero(sets[rows])[1].reshape(len(rows), size)
            found[rows] = set_places(self.design, np.sort(columns[members], axis=1))
        return found

    def _measured(self, names: Sequence[str]) -> bool:
        return len(names) <= self.design.longest


def measured_counts(engine: Sandbox, column: str) -> Tensor:
    """Return the column of noisy counts of a release; raise `ReleaseError` if there is none."""
    try:
        return counts(engine.rows(f"SELECT {quoted(column)} FROM view").column(0))
    except QueryError:
        raise ReleaseError(DAMAGED) from None


def tied(weights: Weights) -> tuple[list[str], Tensor]:
    """Return the columns that a question depends on, and the weight of all their combinations."""
    factor, parts = 1.0, []
    for part in weights.parts:
        first = float(part.values.flat[0])
        if bool((part.values == first).all()):
            factor *= first
        else:
            parts.append(part)
    names = [name for part in parts for name in part.names]
    if len(names) > _MOST_COLUMNS:
        raise QueryError(
            f"The question ties {len(names)} items together; at most {_MOST_COLUMNS} are "
            "possible. Ask about fewer at once."
        )
    return names, factor * reduce(np.multiply.outer, [part.values for part in parts], np.ones(()))


def steps(whole: Tensor, axes: int) -> tuple[float, float]:
    """Return the most that a superset of a set of items weighs more, and less, than the set, if it
    has more of the items of the first `axes` axes.
    """
    most, least = whole.copy(), whole.copy()
    for axis in range(axes):
        for found, choose in ((most, np.maximum), (least, np.minimum)):
            lead = np.moveaxis(found, axis, 0)
            choose(lead[:1], lead[1:], out=lead[:1])
    return float((most - whole).max()), float((whole - least).max())


# --- questions about more items than were counted together ---------------------------------------


def conjunction(weights: Weights) -> tuple[str, ...] | None:
    """Return the columns of a count of rows that have all of some items; None for others."""
    names: list[str] = []
    for part in weights.parts:
        wanted = np.zeros(part.values.shape)
        wanted[(-1,) * part.values.ndim] = 1
        derived = all((read := DerivedName.read(name)) and read.function == "contains"
                      for name in part.names)  # fmt: skip
        if not derived or not np.array_equal(part.values, wanted):
            return None
        names += part.names
    return tuple(names) or None


def refusal(
    read: Callable[[Weights], Reading],
    names: tuple[str, ...] | None,
    measured: Callable[[Sequence[str]], bool],
) -> str:
    """Return why a question about so many items is refused; for a count of baskets with all of
    them, the message has an upper bound by what was measured of fewer.
    """
    why = "The question ties more items together than were counted together."
    if names is None:
        return f"{why} Ask about fewer items."
    high = min(_upper_limits(read, names, measured), default=None)
    if high is None:
        return f"{why} Ask about fewer items."
    return (
        f"No number of baskets with all of these {len(names)} items was published. By smaller "
        f"sets of them there are at most {max(high, 0):,.0f} ({100 * _LEVEL:.0f} %)."
    )


def _upper_limits(
    read: Callable[[Weights], Reading],
    names: tuple[str, ...],
    measured: Callable[[Sequence[str]], bool],
) -> Iterator[float]:
    """Yield the upper limits of the counts of the largest measured subsets; all of them hold at
    the level together.
    """
    most = len(names) - 1 if len(names) <= _MOST_TRIED else 2
    for size in range(most, 0, -1):
        sets = [each for each in combinations(names, size) if measured(each)]
        if sets:
            level = 1 - 2 * (1 - _LEVEL) / len(sets)  # one-sided, for all of them
            for each in sets:
                high = read(having(each)).limits[1]
                yield high.upper(max(level, 0.0))
            return


def having(names: Sequence[str]) -> Weights:
    """Return the weights of the count of baskets with all of some items."""
    return Weights(tuple(Part((name,), np.array([0.0, 1.0])) for name in names))


# --- whole baskets -------------------------------------------------------------------------------


class WholeBasketReader:
    """The published baskets of one release."""

    method = "sum of noisy counts of whole baskets"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.design = cast(WholeBaskets, evidence.design)
        table = engine.rows(f"SELECT {ITEMS}, {LAW}, {COUNT} FROM view")
        laws = indices(table[LAW].to_numpy(), len(self.design.laws))
        if table[ITEMS].null_count:
            raise ValueError("a basket is missing")
        indices(pc.list_flatten(table[ITEMS]).to_numpy(), len(self.design.attributes))
        self.counts = counts(table[COUNT])
        known = [(law.variance, law.fourth) for law in self.design.laws]
        variances, fourths = np.array(known, np.float64).reshape(-1, 2)[laws].T
        noise = self.design.total_noise
        # The last number is that of all baskets.
        self._numbers = np.append(self.counts, self.design.total)
        self._variances = np.append(variances, noise.variance if noise else 0.0)
        self._fourths = np.append(fourths, noise.fourth if noise else 0.0)
        self.baskets: list[list[int]] = table[ITEMS].to_pylist()
        if any(len(set(items)) < len(items) for items in self.baskets):
            raise ValueError("a basket has an item twice")

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

    def _weighed(self, weights: Weights) -> tuple[Tensor, float, float]:
        """Return the weights of published baskets, and the limits of the weight of any basket."""
        own, least, most = np.ones(len(self.baskets)), 1.0, 1.0
        for part in weights.parts:
            places = [self.design.attributes.index(name) for name in part.names]
            own = own * part.values[tuple(self.members[:, place].astype(int) for place in places)]
            ends = (float(part.values.min()), float(part.values.max()))
            products = [one * other for one in (least, most) for other in ends]
            least, most = min(products), max(products)
        return own, least, most

    def _reading(self, coefficients: Tensor) -> Reading:
        noisy = coefficients[self._variances > 0]
        return Reading(
            float(coefficients @ self._numbers),
            float(coefficients**2 @ self._variances),
            float(coefficients**4 @ self._fourths),
            float(np.abs(noisy).max(initial=0.0)),
        )


def _coefficients(own: Tensor, rest: float) -> Tensor:
    """Return the coefficients of the counts of published baskets and of the number of all, if every
    other basket weighs `rest`: Σ own · count + rest · (all - Σ count).
    """
    return np.append(own - rest, rest)
