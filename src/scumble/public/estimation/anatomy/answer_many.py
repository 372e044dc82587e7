"""Answers to many plain counts of an Anatomy release at once.

Questions about the same attributes go through the rows together. Rows are sorted by cell, so that a
question reads only its own rows, and adds them up by group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.evidence import Groups
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.anatomy.answer import (
    count_estimate,
    known_estimate,
    regressed_count,
)
from scumble.public.estimation.anatomy.laws import Unbiased
from scumble.public.estimation.anatomy.moments import GroupedCount
from scumble.public.estimation.anatomy.plan import AnatomyPlan, GroupLayout, layout
from scumble.public.estimation.anatomy.regression import Regression, regression
from scumble.public.estimation.tables import BoxSums, Clauses, CodeSet, CodeSets, boxes, same_shape
from scumble.public.sandbox import Sandbox

Integers = npt.NDArray[np.int64]
Asked = Mapping[int, Sequence[CodeSet]]  # the code sets of questions by their places
# The law of a count under even spread, its regression if there is one, and the number of rows that
# may be missing from it.
Law = tuple[GroupedCount, tuple[float, Unbiased | None] | None, tuple[float, float]]

MOST_CELLS = 1 << 22
_MOST_CODES = 1 << 12  # different combinations of numbers that groups may have
_QUESTION_BLOCK = 1 << 9


def answer_together(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, list[tuple[tuple[Any, ...], Estimate]]]:
    """Return the answers to counts whose conditions are about one attribute each.

    Keys are places in `queries`. The numbers are those of asking one by one.
    """
    batches = [
        places
        for (shape, _), places in same_shape(queries).items()
        if len(places) > 1 and all(len(names) == 1 for names in shape)
    ]
    if not batches:
        return {}
    together = [queries[place] for place in sorted(chain(*batches))]
    clauses = Clauses(schema, together, engine)
    held = layout(evidence, schema, engine)
    fitted = regression(evidence, held, engine)
    many = ManyCounts(held, schema, clauses, evidence, fitted)
    found: dict[int, list[tuple[tuple[Any, ...], Estimate]]] = {}
    for places in batches:
        plan = AnatomyPlan(evidence, queries[places[0]])
        for place, law in many.laws({place: queries[place] for place in places}):
            if isinstance(law, int):
                found[place] = [((), known_estimate(plan, float(law)))]
            else:
                found[place] = [((), count_estimate(plan, *law))]
    return found


class ManyCounts:
    """Plain counts about the same attributes of rows and of values."""

    def __init__(
        self,
        layout: GroupLayout,
        schema: Schema,
        clauses: Clauses,
        evidence: Groups,
        fitted: Regression,
    ) -> None:
        self._layout, self._schema, self._clauses = layout, schema, clauses
        self._sensitive, self._evidence, self._fitted = evidence.sensitive, evidence, fitted
        self._code_sets = CodeSets(schema, clauses)

    def laws(self, queries: Mapping[int, Query]) -> Iterator[tuple[int, Law | int]]:
        """Yield the law of each count, or the count itself if it is known, by place.

        Questions that must be answered one by one are left out.
        """
        names = next(iter(queries.values())).attributes
        true = [name for name in names if name not in self._sensitive]
        order = [*true, *(name for name in names if name in self._sensitive)]
        found = {place: self._code_sets.of(query, order) for place, query in queries.items()}
        asked = {place: sets for place, sets in found.items() if sets is not None}
        if not 0 < len(true) < len(order):
            return self._known(order, asked, rows=bool(true))
        return self._hypergeometric(order, len(true), asked)

    def _known(
        self, names: Sequence[str], asked: Asked, *, rows: bool
    ) -> Iterator[tuple[int, int]]:
        """Yield counts of rows alone, or of values alone, which are published as they are."""
        sizes = [self._schema[name].size for name in names]
        if prod(sizes) > MOST_CELLS or not self._evidence.complete:
            return iter(())
        side = self._layout.rows if rows else self._layout.values
        weights = None if rows else self._layout.counts
        table = np.bincount(side.cells(names), weights, prod(sizes)).astype(np.int64)
        sums = BoxSums(table.reshape(sizes), len(sizes))
        return zip(asked, sums.of(list(asked.values())).tolist(), strict=True)

    def _hypergeometric(
        self, names: Sequence[str], true: int, asked: Asked
    ) -> Iterator[tuple[int, Law]]:
        """Yield counts of rows with values of their groups.

        Questions with the same condition on values are answered together.
        """
        layout, sizes = self._layout, [self._schema[name].size for name in names]
        radix = np.array([layout.most_rows + 1, layout.most_values + 1, len(layout.distinct_sizes)])
        if max(prod(sizes[:true]), prod(sizes[true:])) > MOST_CELLS or radix.prod() > _MOST_CODES:
            return
        rows = _Rows(layout, self._fitted, names[:true], sizes[:true])
        cells = layout.values.cells(names[true:])
        of_values = self._fitted.of_values(cells)
        together: dict[tuple[CodeSet, ...], list[int]] = defaultdict(list)
        for place, sets in asked.items():
            together[tuple(sets[true:])].append(place)
        for condition, places in together.items():
            holds = _holds(condition)
            values, wanted = self._values(holds, cells), holds[of_values]
            frequent = (wanted & self._fitted.most_frequent).any()
            missing = (0.0, self._evidence.missing if frequent else 0.0)
            for start in range(0, len(places), _QUESTION_BLOCK):
                some = places[start : start + _QUESTION_BLOCK]
                questions = [asked[place][:true] for place in some]
                laws = rows.laws(questions, values, radix)
                readings = rows.regressed(questions, wanted.astype(np.float64))
                for place, law, reading in zip(some, laws, readings, strict=True):
                    yield place, (law, reading, missing)

    def _values(self, holds: npt.NDArray[np.bool_], cells: npt.NDArray[np.integer]) -> Integers:
        """Return the number of values of each group that lie in cells which hold."""
        from scumble.public.estimation.anatomy.kernels import sum_values

        found = np.empty(self._layout.groups, np.int64)
        sum_values(self._layout.values.starts, cells, self._layout.counts, holds, found)
        return found


def _holds(condition: Sequence[CodeSet]) -> npt.NDArray[np.bool_]:
    """Return in which cells of the attributes of `condition` it holds."""
    holds = np.ones(1, bool)
    for codes in condition:
        holds = (holds[:, None] & codes.holds).reshape(-1)
    return holds


class _Rows:
    """The rows of a layout in the order of their cells, the groups of which are counted."""

    def __init__(
        self, layout: GroupLayout, fitted: Regression, names: Sequence[str], sizes: Sequence[int]
    ) -> None:
        self._layout, self._fitted = layout, fitted
        self._strides = np.array([prod(sizes[place + 1 :]) for place in range(len(sizes))])
        cells = layout.rows.cells(names)
        groups = np.repeat(np.arange(layout.groups, dtype=np.int32), layout.sizes)
        self._groups = groups[np.argsort(cells, kind="stable")]
        counts = np.bincount(cells, minlength=prod(sizes))
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def laws(
        self, questions: Sequence[Sequence[CodeSet]], values: Integers, radix: Integers
    ) -> Iterator[GroupedCount]:
        from scumble.public.estimation.anatomy.kernels import count_boxes

        ends, first = boxes(questions, len(self._strides))
        most = len(questions) * int(radix.prod())
        codes, times = np.empty(most, np.int64), np.empty(most, np.int64)
        stops = np.empty(len(questions), np.int64)
        lines, groups = (self._starts, self._groups), (values, self._layout.size_index)
        count_boxes(ends, first, self._strides, lines, groups, radix, (codes, times, stops))
        start = 0
        for stop in stops.tolist():
            rest, size = np.divmod(codes[start:stop], radix[2])
            rows, found = np.divmod(rest, radix[1])
            yield GroupedCount(
                rows, found, self._layout.distinct_sizes[size], times[start:stop].copy()
            )
            start = stop

    def regressed(
        self, questions: Sequence[Sequence[CodeSet]], asked: npt.NDArray[np.float64]
    ) -> list[tuple[float, Unbiased | None] | None]:
        """Return the regression of each question, None if it cannot tell the answer."""
        from scumble.public.estimation.anatomy.regression_kernels import count_boxes_together

        if not self._fitted.possible:
            return [None] * len(questions)
        target = self._fitted.target(asked)
        ends, first = boxes(questions, len(self._strides))
        found = np.zeros((len(questions), self._fitted.size), self._fitted.weights.dtype)
        lines = (self._starts, self._groups)
        count_boxes_together(ends, first, self._strides, lines, self._fitted.lines, found)
        met = found.astype(np.float64)
        read = self._fitted.read(target, met, self._fitted.spread_of_counts(met))
        return [regressed_count(target, read, place) for place in range(len(questions))]
