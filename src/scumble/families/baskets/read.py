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
from math import sqrt
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.families.baskets.design import (
    COUNT,
    ITEMS,
    LAW,
    HubTables,
    Itemsets,
    WholeBaskets,
    cells_of,
    set_number,
    set_places,
    sets_at,
    supersets,
    walsh,
)
from scumble.model.errors import ParameterError, QueryError, ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.parameters import whole
from scumble.model.query import Query, quoted
from scumble.model.schema.lists import DerivedName
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, counts, indices
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import OTHERS, EstimateTable, SelectedEstimates
from scumble.public.estimation.measurements.answer import MeasuredQuestion
from scumble.public.estimation.measurements.joint_items import conjunction, having, refusal
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.readers import reader_of
from scumble.public.estimation.measurements.readings import LinearReading, Weights, WeightTensor
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.noisy_tables import NoisyTable
from scumble.public.synthesis.quality import Quality, quality
from scumble.public.synthesis.release_rows import MOST_LISTS, list_table, row_model
from scumble.public.synthesis.row_model import RowModel
from scumble.public.synthesis.tree_model import Codes

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


@dataclass(frozen=True, eq=False)
class _SetSum:
    """A sum of counts of sets: the places of their numbers, and their coefficients.

    `up` and `down` are the most that further items of a basket can add to and take from its weight.
    """

    places: npt.NDArray[np.int64]
    coefficients: Tensor
    up: float
    down: float


@dataclass(frozen=True, eq=False)
class _SetCounts:
    """Noisy counts of all items and of measured pairs, and the variance of the noise of a set."""

    total: float
    singles: Tensor
    pairs: npt.NDArray[np.int64]
    counts: Tensor
    variance: Callable[[Sequence[int]], float]


class ItemsetReader:
    """The noisy counts of all small sets of one release."""

    method = "sum of noisy counts of sets of items"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design = cast(Itemsets, evidence.design)
        numbers = read_counts(engine, design.count)
        if len(numbers) != design.numbers + 1:
            raise ValueError("the number of sets does not fit the design")
        self.design = design
        self.numbers = numbers[:-1]
        self._beyond = float(numbers[-1])
        self._known = evidence.rows is not None
        if evidence.rows is not None:
            self.numbers[0] = evidence.rows

    def read(self, weights: Weights) -> LinearReading:
        set_sum = self._expand_question(weights)
        value = float(set_sum.coefficients @ self.numbers[set_sum.places])
        noisy = self._select_noisy(set_sum)
        squares = noisy**2
        law, beyond = self.design.noise, self.design.beyond
        variance, fourth = law.variance * squares.sum(), law.fourth * (squares @ squares)
        largest = float(np.abs(noisy).max(initial=0.0))

        def move(by: float) -> LinearReading:
            return LinearReading(
                value + by * self._beyond,
                float(variance + by**2 * beyond.variance),
                float(fourth + by**4 * beyond.fourth),
                max(largest, abs(by)),
            )

        if not set_sum.up and not set_sum.down:
            return LinearReading(value, float(variance), float(fourth), largest)
        note = CLIPPED.format(most=self.design.most, beyond=max(self._beyond, 0.0))
        return LinearReading(
            value,
            float(variance),
            float(fourth),
            largest,
            (note,),
            move(-set_sum.down),
            move(set_sum.up),
        )

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        one, other = self._expand_question(first), self._expand_question(second)
        _, mine, yours = np.intersect1d(one.places, other.places, return_indices=True)
        shared = float(self._select_noisy(one)[mine] @ self._select_noisy(other)[yours])
        return self.read(first), self.read(second), self.design.noise.variance * shared

    def sets(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield the estimated count of every measured set but the empty one."""
        items, begin = len(self.design.attributes), 1
        for size in range(1, self.design.longest + 1):
            end = set_number(items, size)
            sets = sets_at(items, size, np.arange(end - begin)).tolist()
            yield from zip(map(tuple, sets), self.numbers[begin:end].tolist(), strict=True)
            begin = end

    def set_counts(self) -> _SetCounts:
        """Return the counts from which baskets are drawn."""
        design, number = self.design, len(self.design.attributes)
        singles = self.numbers[set_places(design, np.arange(number)[:, None])]
        every = list(combinations(range(number), 2)) if design.longest > 1 else []
        pairs = np.array(every, np.int64).reshape(-1, 2)
        counts = self.numbers[set_places(design, pairs)]
        total = max(float(self.numbers[0]), 1.0)
        return _SetCounts(total, singles, pairs, counts, lambda _: design.noise.variance)

    def _select_noisy(self, set_sum: _SetSum) -> Tensor:
        """Return the coefficients of noisy numbers; that of a known number of baskets is 0."""
        return set_sum.coefficients * (set_sum.places > 0) if self._known else set_sum.coefficients

    def _expand_question(self, weights: Weights) -> _SetSum:
        names, whole = tie_columns(weights)
        coefficients = whole.copy()
        for axis in range(len(names)):
            lead = np.moveaxis(coefficients, axis, 0)
            lead[1] -= lead[0]
        sets = np.argwhere(coefficients)
        if len(sets) and sets.sum(axis=1).max() > self.design.longest:
            raise QueryError(refusal(self.read, conjunction(weights), self._is_measured))
        return _SetSum(
            self._find_places(names, sets),
            coefficients[coefficients != 0],
            *steps(whole, whole.ndim),
        )

    def _find_places(
        self, names: Sequence[str], sets: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int64]:
        columns = np.array([self.design.attributes.index(name) for name in names], np.int64)
        places = np.empty(len(sets), np.int64)
        sizes = sets.sum(axis=1)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            members = np.nonzero(sets[rows])[1].reshape(len(rows), size)
            places[rows] = set_places(self.design, np.sort(columns[members], axis=1))
        return places

    def _is_measured(self, names: Sequence[str]) -> bool:
        return len(names) <= self.design.longest


def read_counts(engine: Sandbox, column: str) -> Tensor:
    """Return the column of noisy counts of a release; raise `ReleaseError` if there is none."""
    try:
        return counts(engine.rows(f"SELECT {quoted(column)} FROM view").column(0))
    except QueryError:
        raise ReleaseError(DAMAGED) from None


def tie_columns(weights: Weights) -> tuple[list[str], Tensor]:
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
        for bound, choose in ((most, np.maximum), (least, np.minimum)):
            lead = np.moveaxis(bound, axis, 0)
            choose(lead[:1], lead[1:], out=lead[:1])
    return float((most - whole).max()), float((whole - least).max())


# --- questions about more items than were counted together ---------------------------------------


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
        members = np.zeros((len(self.baskets), len(self.design.attributes)), bool)
        for row, items in enumerate(self.baskets):
            members[row, items] = True
        return members

    def read(self, weights: Weights) -> LinearReading:
        own, least, most = self._weigh_baskets(weights)
        low = self._read_coefficients(_make_coefficients(own, least))
        if least == most:
            return low
        high = self._read_coefficients(_make_coefficients(own, most))
        rest = max(self.design.total - self.counts.sum(), 0.0)
        notes = (LEFT_OUT.format(rest=rest),)
        return LinearReading(low.value, low.variance, low.fourth, low.largest, notes, low, high)

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        one, other = (
            _make_coefficients(*self._weigh_baskets(weights)[:2]) for weights in (first, second)
        )
        covariance = float((one * other) @ self._variances)
        return self.read(first), self.read(second), covariance

    def sets(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield the sets of one to three items of published baskets, with their counts."""
        totals: dict[tuple[int, ...], float] = {}
        for items, count in zip(self.baskets, self.counts.tolist(), strict=True):
            for size in range(1, LONGEST + 1):
                for subset in combinations(sorted(items), size):
                    totals[subset] = totals.get(subset, 0.0) + count
        yield from totals.items()

    def _weigh_baskets(self, weights: Weights) -> tuple[Tensor, float, float]:
        """Return the weights of published baskets, and the limits of the weight of any basket."""
        own, least, most = np.ones(len(self.baskets)), 1.0, 1.0
        for part in weights.parts:
            places = [self.design.attributes.index(name) for name in part.names]
            own = own * part.values[tuple(self.members[:, item].astype(int) for item in places)]
            ends = (float(part.values.min()), float(part.values.max()))
            products = [one * other for one in (least, most) for other in ends]
            least, most = min(products), max(products)
        return own, least, most

    def _read_coefficients(self, coefficients: Tensor) -> LinearReading:
        noisy = coefficients[self._variances > 0]
        return LinearReading(
            float(coefficients @ self._numbers),
            float(coefficients**2 @ self._variances),
            float(coefficients**4 @ self._fourths),
            float(np.abs(noisy).max(initial=0.0)),
        )


def _make_coefficients(own: Tensor, rest: float) -> Tensor:
    """Return the coefficients of the counts of published baskets and of the number of all, if every
    other basket weighs `rest`: Σ own · count + rest · (all - Σ count).
    """
    return np.append(own - rest, rest)


# --- hub tables -----------------------------------------------------------------------------------
#
# Reader of noisy tables over a few frequent items and one other item (Baskets).
#
# A question about binary columns is a sum over tables: with the weight w of the cells without an
# other item j and v with it, it is w on the table of all baskets and v - w on that of j. Questions
# that tie two other items together were not measured.
#
# Long baskets kept some of their other items only, so that counts of these are too low. The
# published numbers of items beyond the limit tell by which factor on average. Values are raised by
# it, as if all items were left out equally often, if they stand out of the noise; intervals hold
# without this assumption, by the number of baskets that were clipped.

_SEEN = 2  # standard errors of the number of items left out, above which counts are raised
CLIPPED_OTHERS = (
    "counted from at most {most} of the rarer items of a basket, and raised by {more:.1%} for "
    "those left out; the interval allows for all baskets with more, about {beyond:,.0f}"
)


@dataclass(frozen=True, eq=False)
class _TableSum:
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
        design = cast(HubTables, evidence.design)
        if design.attributes != evidence.columns:
            raise ValueError("the items do not fit the manifest")
        numbers = read_counts(engine, design.count)
        size = design.tables * design.cells
        if len(numbers) != size + design.most:
            raise ValueError("the number of cells does not fit the design")
        self.design = design
        measured = numbers[:size].reshape(design.tables, design.cells)
        self.cells = measured if design.by_cells else cells_of(measured)
        self._beyond = numbers[size:]
        self._rows = evidence.rows
        laws = [design.laws(True), design.laws(False)]
        self._variances = np.array([[law.variance for law in row] for row in laws])
        self._fourths = np.array([[law.fourth for law in row] for row in laws])

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

    def read(self, weights: Weights) -> LinearReading:
        table_sum = self._expand_question(weights)
        if self._rows is not None and not weights.names:
            return LinearReading(self._rows * weights.factor, 0.0)
        parts = {table: float(w @ self.cells[table]) for table, w in table_sum.weights.items()}
        raw = sum(parts.values())
        squares, powers, largest = self._compute_moments(table_sum)
        beyond, law, bins = float(self._beyond.sum()), self.design.beyond, self.design.most

        def move(by: float) -> LinearReading:
            return LinearReading(
                raw + by * beyond,
                squares + by**2 * bins * law.variance,
                powers + by**4 * bins * law.fourth,
                max(largest, abs(by)),
            )

        if not table_sum.up and not table_sum.down:
            return LinearReading(raw, squares, powers, largest)
        others = raw - parts.get(0, 0.0)
        value = raw + self._raise(others, table_sum.up, table_sum.down)
        note = CLIPPED_OTHERS.format(
            most=self.design.most, more=self.raised, beyond=max(beyond, 0.0)
        )
        low, high = move(-table_sum.down), move(table_sum.up)
        return LinearReading(value, squares, powers, largest, (note,), low, high)

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        one, other = self._expand_question(first), self._expand_question(second)
        if self._rows is not None and not (first.names and second.names):  # one has no error
            return self.read(first), self.read(second), 0.0
        covariance = sum(
            float(
                (self._convert_weights(own) * self._convert_weights(other.weights[table]))
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
        others = [item for item in places if item >= self.design.hubs]
        wanted = sum(1 << item for item in places if item < self.design.hubs)
        cells = np.arange(self.design.cells)
        weights = (cells & wanted == wanted).astype(np.float64)
        return float(self._convert_weights(weights) ** 2 @ self._variances[len(others)])

    def set_counts(self) -> _SetCounts:
        """Return the counts from which baskets are drawn."""
        values = dict(self.sets())
        singles = np.array([values[item,] for item in range(len(self.design.attributes))])
        pairs = [places for places in values if len(places) == 2]
        counts = np.array([values[places] for places in pairs])
        total = max(float(self.cells[0].sum()), 1.0)
        array = np.array(pairs, np.int64).reshape(-1, 2)
        return _SetCounts(total, singles, array, counts, self.variance)

    def _raise(self, others: float, up: float, down: float) -> float:
        """Return what to add for items that were left out, within the limits of the answer."""
        beyond = max(float(self._beyond.sum()), 0.0)
        return float(np.clip(others * self.raised, -down * beyond, up * beyond))

    def _compute_moments(self, table_sum: _TableSum) -> tuple[float, float, float]:
        """Return the variance, the fourth cumulant and the largest coefficient of the noise."""
        squares = powers = largest = 0.0
        for table, weights in table_sum.weights.items():
            own = self._convert_weights(weights)
            squares += float(own**2 @ self._variances[min(table, 1)])
            powers += float(own**4 @ self._fourths[min(table, 1)])
            largest = max(largest, float(np.abs(own).max()))
        return squares, powers, largest

    def _convert_weights(self, weights: Tensor) -> Tensor:
        """Return the coefficients of the measured numbers of a table, from those of its cells."""
        return weights if self.design.by_cells else walsh(weights) / self.design.cells

    def _expand_question(self, weights: Weights) -> _TableSum:
        names, whole = tie_columns(weights)
        places = [self.design.attributes.index(name) for name in names]
        others = [axis for axis, item in enumerate(places) if item >= self.design.hubs]
        ordered = np.moveaxis(whole, others, range(len(others)))
        up, down = steps(ordered, len(others))
        coefficients = ordered.copy()
        for axis in range(len(others)):
            lead = np.moveaxis(coefficients, axis, 0)
            lead[1] -= lead[0]
        hubs = [item for item in places if item < self.design.hubs]
        table_weights: dict[int, Tensor] = {}
        for index in np.ndindex(*(2,) * len(others)):
            if not coefficients[index].any():
                continue
            if sum(index) > 1:
                raise QueryError(refusal(self.read, conjunction(weights), self._is_measured))
            table = 0
            if any(index):
                table = places[others[index.index(1)]] - self.design.hubs + 1
            table_weights[table] = self._expand_weights(coefficients[index], hubs)
        return _TableSum(table_weights, up, down)

    def _expand_weights(self, values: Tensor, hubs: Sequence[int]) -> Tensor:
        """Return the weights of all cells, given those of the values of some hubs."""
        cells = np.arange(self.design.cells)
        spread: Tensor = np.broadcast_to(
            values[tuple(cells >> hub & 1 for hub in hubs)], cells.shape
        ).astype(np.float64)
        return spread

    def _is_measured(self, names: Sequence[str]) -> bool:
        places = [self.design.attributes.index(name) for name in names]
        return sum(item >= self.design.hubs for item in places) <= 1


# --- frequent sets --------------------------------------------------------------------------------
#
# The most frequent sets of items of a release, and association rules.
#
# Sets are ranked by their estimated counts. Those at the top look more frequent than they are, so
# that the intervals of what is shown have the level that `SelectedEstimates` states.

Places = tuple[int, ...]
SetReader = ResidualReader | ItemsetReader | HubReader | WholeBasketReader

MOST_RULES = 10_000


@dataclass(frozen=True, eq=False)
class RankedSets:
    """Sets of items with their estimated counts, the largest first."""

    places: list[Places]
    counts: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True, eq=False)
class FrequentSets:
    """The measured sets of items of one release; items are numbered as its columns."""

    evidence: Measurements
    schema: Schema
    engine: Sandbox

    @classmethod
    def of(cls, evidence: Measurements, schema: Schema, engine: Sandbox) -> FrequentSets | None:
        """Return the sets of a release; None if it has no counts of sets of items."""
        read = [DerivedName.read(name) for name in evidence.columns]
        bases = {
            derived.base if derived and derived.function == "contains" else None for derived in read
        }
        if evidence.design.kind not in _KINDS or len(bases) != 1 or None in bases:
            return None
        if "sets" not in engine.derived:
            engine.derived["sets"] = cls(evidence, schema, engine)
        sets: FrequentSets = engine.derived["sets"]
        return sets

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the k sets of largest estimated counts, the largest first, with their estimates.

        With `length`, only sets with this number of items.
        """
        whole("top", "k", k, least=1)
        if length is not None:
            whole("top", "length", length, least=1)
        sets = self.rank(length)
        rows = [((self.labels(places),), self.count(places)) for places in sets.places[:k]]
        about = [OTHERS] if len(rows) < len(sets) else []
        return SelectedEstimates([("items", pa.list_(self.item_type))], rows, len(sets), about)

    def rules(self, support: float, confidence: float) -> EstimateTable:
        """Return the rules "baskets with `if` have `then`": the number of baskets with both, and
        the share of those with `if`; the largest estimated confidence first.

        `support` is the least estimated number of baskets with both, as a number of baskets (1 or
        more) or as a share of all baskets (below 1); `confidence` is the least estimated share.
        Rules are chosen by both, so that intervals allow for all rules of the measured sets.
        """
        _check_positive("support", support)
        _check_positive("confidence", confidence, most=1)
        least = support if support >= 1 else support * self.count(()).value
        held: list[tuple[float, float, Places, Places]] = []
        values = dict(zip(self._ranked.places, self._ranked.counts.tolist(), strict=True))
        for both, count in values.items():
            if count < least:
                break
            for given in _list_subsets(both):
                share = count / values[given] if values[given] > 0 else 1.0
                if share >= confidence:
                    held.append((-share, -count, given, both))
        if len(held) > MOST_RULES:
            raise QueryError(
                f"{len(held)} rules have this support and confidence; at most {MOST_RULES} are "
                "shown. Ask for more support or confidence."
            )
        rows = [self._make_rule(given, both) for _, _, given, both in sorted(held)]
        kind = pa.list_(self.item_type)
        among = sum((1 << len(places)) - 2 for places in values)
        about = [OTHERS] if len(rows) < among else []
        names = ["support", "confidence"]
        return EstimateTable([("if", kind), ("then", kind)], names, rows, among, about)

    @cached_property
    def _items(self) -> list[Any]:
        read = (DerivedName.read(name) for name in self.evidence.columns)
        return [derived.argument if derived else None for derived in read]

    @property
    def item_type(self) -> pa.DataType:
        return pa.int64() if all(isinstance(item, int) for item in self._items) else pa.string()

    def labels(self, places: Places) -> list[Any]:
        """Return the items of a set."""
        return [self._items[item] for item in places]

    @cached_property
    def _reader(self) -> SetReader:
        return cast(SetReader, reader_of(self.evidence, self.schema, self.engine))

    def rank(self, length: int | None) -> RankedSets:
        """Return all measured sets, of this number of items if it is given."""
        sets = self._ranked
        if length is None:
            return sets
        rows = [row for row, places in enumerate(sets.places) if len(places) == length]
        if not rows:
            longest = max(map(len, sets.places), default=0)
            raise QueryError(f"No set of {length} items was counted; the longest have {longest}.")
        return RankedSets([sets.places[row] for row in rows], sets.counts[rows])

    @cached_property
    def _ranked(self) -> RankedSets:
        values = dict(self._list_counts())
        places = sorted(values, key=lambda items: (-values[items], len(items), items))
        return RankedSets(places, np.array([values[items] for items in places]))

    def _list_counts(self) -> Iterator[tuple[Places, float]]:
        """Yield the estimated count of every measured set but the empty one."""
        reader = self._reader
        if not isinstance(reader, ResidualReader):
            yield from reader.sets()
            return
        for table in reader.solver.design.tables:
            sums = reader.marginal(table.places).copy()
            for axis in range(sums.ndim):
                lead = np.moveaxis(sums, axis, 0)
                lead[0] += lead[1]
            for index in np.ndindex(sums.shape):
                if any(index):
                    chosen = zip(table.places, index, strict=True)
                    yield tuple(item for item, has in chosen if has), float(sums[index])

    def drawn_rows(self) -> BasketRows | WholeBasketRows:
        """Return what draws baskets."""
        reader, columns = self._reader, self.evidence.columns
        name = cast(DerivedName, DerivedName.read(columns[0])).base
        items = pa.array(self._items)
        if isinstance(reader, WholeBasketReader):
            return WholeBasketRows(name, items, columns, reader)
        if isinstance(reader, ResidualReader):
            model = row_model(self.evidence, self.schema, self.engine)
        else:
            model = _fit_itemsets(reader)
        return BasketRows(name, items, columns, model)

    def count(self, places: Places) -> Estimate:
        """Return the estimated number of baskets with all of these items."""
        weights = self._weigh_items(places)
        return self._make_question("count").total(self._reader.read(weights), weights)

    def _make_rule(
        self, given: Places, both: Places
    ) -> tuple[tuple[list[Any], list[Any]], tuple[Estimate, Estimate]]:
        """Return a rule: its two sides, the baskets with both, and their share of the first."""
        then = tuple(item for item in both if item not in given)
        names = self._name_items(then)
        amount = WeightTensor(names, reduce(np.multiply.outer, [np.array([0.0, 1.0])] * len(names)))
        share = self._make_question("mean").mean(self._weigh_items(given), amount)
        return (self.labels(given), self.labels(then)), (self.count(both), share)

    def _make_question(self, aggregate: Any) -> MeasuredQuestion:
        return MeasuredQuestion(self.schema, Query(aggregate), self.engine, reader=self._reader)

    def _weigh_items(self, places: Places) -> Weights:
        return having(self._name_items(places))

    def _name_items(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.evidence.columns[item] for item in places)


_KINDS = ("residuals", Itemsets.kind, HubTables.kind, WholeBaskets.kind)


def _list_subsets(places: Places) -> Iterator[Places]:
    """Yield the subsets of a set, without itself and the empty one."""
    for size in range(1, len(places)):
        yield from combinations(places, size)


def _check_positive(name: str, given: object, most: float | None = None) -> None:
    number = isinstance(given, int | float) and not isinstance(given, bool) and given > 0
    if not number or (most is not None and isinstance(given, int | float) and given > most):
        allowed = "a number above 0" + ("" if most is None else f" and at most {most:g}")
        raise ParameterError.of("rules", name, allowed, given)


# --- rows -----------------------------------------------------------------------------------------
#
# Synthetic baskets, from counts of items and of sets of items or of whole baskets.

_MOST_PAIRS = 200  # of items whose counts the baskets are fitted to
_CLEAR = 2  # standard deviations of noise by which a pair must differ from independent items


@dataclass(frozen=True, eq=False)
class BasketRows:
    """Baskets of the items that a release names. Items that it does not name are in no basket."""

    name: str
    items: pa.Array
    columns: tuple[str, ...]
    model: RowModel

    @property
    def expected(self) -> int:
        """The estimated number of baskets."""
        return min(max(round(self.model.total), 0), MOST_LISTS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        members = np.stack(self.model.rows(number, seed), axis=1) > 0
        return _make_baskets(self.name, self.items, members)

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far the baskets are from the noisy counts of items and of sets of items."""
        columns = _mark_items(rows[self.name].to_pylist(), self.items.to_pylist())
        model = self.model
        return quality(self.columns, columns, model.sizes, model.tables, model.total)


@dataclass(frozen=True, eq=False)
class WholeBasketRows:
    """Baskets drawn by the noisy counts of the published ones; others are never drawn."""

    name: str
    items: pa.Array
    columns: tuple[str, ...]
    reader: WholeBasketReader

    @property
    def expected(self) -> int:
        """The noisy number of all baskets."""
        return min(max(self.reader.design.total, 0), MOST_LISTS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        counts = self.reader.counts.clip(0)
        members = np.zeros((number, len(self.columns)), bool)
        if counts.any():
            draw = np.random.default_rng(seed)
            members = self.reader.members[draw.choice(len(counts), number, p=counts / counts.sum())]
        return _make_baskets(self.name, self.items, members)

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far the shares of single items are from those of the published baskets."""
        total = max(float(self.expected), 1.0)
        noisy = [self.reader.read(having([name])) for name in self.columns]
        counts = [np.array([total - reading.value, reading.value]) for reading in noisy]
        tables = [
            NoisyTable((item,), counts[item], reading.variance)
            for item, reading in enumerate(noisy)
        ]
        columns = _mark_items(rows[self.name].to_pylist(), self.items.to_pylist())
        return quality(self.columns, columns, [2] * len(columns), tables, total)


def _make_baskets(name: str, items: pa.Array, members: npt.NDArray[np.bool_]) -> pa.Table:
    """Return baskets as lists, given which items (columns) each of them (row) has."""
    offsets = np.concatenate([[0], np.cumsum(members.sum(axis=1))])
    return list_table(name, items, np.nonzero(members)[1], offsets)


def _mark_items(baskets: Sequence[Sequence[Any]], items: Sequence[Any]) -> list[Codes]:
    """Return for every item which baskets have it, as 0 or 1."""
    places = {item: index for index, item in enumerate(items)}
    columns: list[Codes] = [np.zeros(len(baskets), np.uint16) for _ in items]
    for row, basket in enumerate(baskets):
        for item in basket:
            columns[places[item]][row] = 1
    return columns


def _fit_itemsets(reader: ItemsetReader | HubReader) -> RowModel:
    """Return the model of counts of small sets: all items, and the pairs that clearly differ from
    independent items.
    """
    measured = reader.set_counts()
    number, total = len(measured.singles), measured.total
    singles = measured.singles.clip(0, total)
    spread = [measured.variance((item,)) for item in range(number)]
    tables = [NoisyTable((p,), np.array([total - n, n]), spread[p]) for p, n in enumerate(singles)]
    pairs, counts = measured.pairs, measured.counts
    gaps = np.abs(counts - singles[pairs[:, 0]] * singles[pairs[:, 1]] / total)
    for index in np.argsort(-gaps, kind="stable")[:_MOST_PAIRS].tolist():
        one, other = pairs[index].tolist()
        variance = measured.variance((one, other))
        if gaps[index] > _CLEAR * sqrt(variance):
            both, first, second = counts[index], singles[one], singles[other]
            cells = [[total - first - second + both, second - both], [first - both, both]]
            tables.append(NoisyTable((one, other), np.array(cells), variance))
    return RowModel.of([2] * number, tables, total)
