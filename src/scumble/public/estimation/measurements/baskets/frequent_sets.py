"""The most frequent sets of items of a release, and association rules.

Sets are ranked by their estimated counts. Those at the top look more frequent than they are, so
that the intervals of what is shown have the level that `SelectedEstimates` states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.lists.hub_tables import HubTables
from scumble.model.designs.lists.itemsets import Itemsets, set_number, sets_at
from scumble.model.designs.lists.whole_baskets import WholeBaskets
from scumble.model.errors import ParameterError, QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.parameters import whole
from scumble.model.query import Query
from scumble.model.schema.lists import DerivedName
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.public.estimation.measurements.answer import MeasuredQuestion
from scumble.public.estimation.measurements.baskets.hub_tables import HubReader
from scumble.public.estimation.measurements.baskets.itemsets import (
    ItemsetReader,
    WholeBasketReader,
    having,
)
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.readings import Part, Weights, reader_of
from scumble.public.sandbox import Sandbox

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
        bases = {each.base if each and each.function == "contains" else None for each in read}
        if evidence.design.kind not in _KINDS or len(bases) != 1 or None in bases:
            return None
        if "sets" not in engine.derived:
            engine.derived["sets"] = cls(evidence, schema, engine)
        kept: FrequentSets = engine.derived["sets"]
        return kept

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the k sets of largest estimated counts, the largest first, with their estimates.

        With `length`, only sets with this number of items.
        """
        whole("top", "k", k, least=1)
        if length is not None:
            whole("top", "length", length, least=1)
        sets = self.ranked(length)
        rows = [((self.labels(places),), self.count(places)) for places in sets.places[:k]]
        return SelectedEstimates([("items", pa.list_(self.item_type))], rows, len(sets))

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
            for given in _parts(both):
                share = count / values[given] if values[given] > 0 else 1.0
                if share >= confidence:
                    held.append((-share, -count, given, both))
        if len(held) > MOST_RULES:
            raise QueryError(
                f"{len(held)} rules have this support and confidence; at most {MOST_RULES} are "
                "shown. Ask for more support or confidence."
            )
        rows = [self._rule(given, both) for _, _, given, both in sorted(held)]
        kind = pa.list_(self.item_type)
        among = sum((1 << len(places)) - 2 for places in values)
        return EstimateTable([("if", kind), ("then", kind)], ["support", "confidence"], rows, among)

    @cached_property
    def _items(self) -> list[Any]:
        read = (DerivedName.read(name) for name in self.evidence.columns)
        return [each.argument if each else None for each in read]

    @property
    def item_type(self) -> pa.DataType:
        return pa.int64() if all(isinstance(each, int) for each in self._items) else pa.string()

    def labels(self, places: Places) -> list[Any]:
        """Return the items of a set."""
        return [self._items[place] for place in places]

    @cached_property
    def _reader(self) -> SetReader:
        found: Any = reader_of(self.evidence, self.schema, self.engine)
        reader: SetReader = found
        return reader

    def ranked(self, length: int | None) -> RankedSets:
        """Return all measured sets, of this number of items if it is given."""
        found = self._ranked
        if length is None:
            return found
        rows = [row for row, places in enumerate(found.places) if len(places) == length]
        if not rows:
            longest = max(map(len, found.places), default=0)
            raise QueryError(f"No set of {length} items was counted; the longest have {longest}.")
        return RankedSets([found.places[row] for row in rows], found.counts[rows])

    @cached_property
    def _ranked(self) -> RankedSets:
        values = dict(self._values())
        places = sorted(values, key=lambda each: (-values[each], len(each), each))
        return RankedSets(places, np.array([values[each] for each in places]))

    def _values(self) -> Iterator[tuple[Places, float]]:
        """Yield the estimated count of every measured set but the empty one."""
        reader = self._reader
        if isinstance(reader, ItemsetReader):
            yield from _listed(reader)
            return
        if isinstance(reader, WholeBasketReader | HubReader):
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
                    yield tuple(place for place, has in chosen if has), float(sums[index])

    def count(self, places: Places) -> Estimate:
        """Return the estimated number of baskets with all of these items."""
        weights = self._having(places)
        return self._question("count").total(self._reader.read(weights), weights)

    def _rule(
        self, given: Places, both: Places
    ) -> tuple[tuple[list[Any], list[Any]], tuple[Estimate, Estimate]]:
        """Return a rule: its two sides, the baskets with both, and their share of the first."""
        then = tuple(place for place in both if place not in given)
        names = self._names(then)
        amount = Part(names, reduce(np.multiply.outer, [np.array([0.0, 1.0])] * len(names)))
        share = self._question("mean").mean(self._having(given), amount)
        return (self.labels(given), self.labels(then)), (self.count(both), share)

    def _question(self, aggregate: Any) -> MeasuredQuestion:
        return MeasuredQuestion(self.schema, Query(aggregate), self.engine, reader=self._reader)

    def _having(self, places: Places) -> Weights:
        return having(self._names(places))

    def _names(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.evidence.columns[place] for place in places)


_KINDS = ("residuals", Itemsets.kind, HubTables.kind, WholeBaskets.kind)


def _parts(places: Places) -> Iterator[Places]:
    """Yield the subsets of a set, without itself and the empty one."""
    for size in range(1, len(places)):
        yield from combinations(places, size)


def _check_positive(name: str, given: object, most: float | None = None) -> None:
    number = isinstance(given, int | float) and not isinstance(given, bool) and given > 0
    if not number or (most is not None and isinstance(given, int | float) and given > most):
        allowed = "a number above 0" + ("" if most is None else f" and at most {most:g}")
        raise ParameterError.of("rules", name, allowed, given)


def _listed(reader: ItemsetReader) -> Iterator[tuple[Places, float]]:
    items, begin = len(reader.design.attributes), 1
    for size in range(1, reader.design.longest + 1):
        end = set_number(items, size)
        sets = sets_at(items, size, np.arange(end - begin)).tolist()
        yield from zip(map(tuple, sets), reader.numbers[begin:end].tolist(), strict=True)
        begin = end
