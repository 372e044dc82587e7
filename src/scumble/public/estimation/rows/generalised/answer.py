"""Answers from generalised rows: even spread within boxes, and what is certain.

A row stands for a box of possible rows. It adds to a count surely if all cells of its box meet the
condition, perhaps if some do, and by the share of the cells that do under an even spread. The least
and the largest answer over all tables that could have been published so are the bounds, and the
interval is the bounds: nothing is assumed, and every table is covered. Rows that were left out may
be anything; the value counts them like the published ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.model.errors import QueryError, ReleaseError, large
from scumble.model.evidence.generalised import Generalised, Nodes, nodes_of
from scumble.model.long_work import told
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.bounds import Bounded, Limit
from scumble.public.estimation.rows.generalised.boxes import parts
from scumble.public.estimation.rows.generalised.rows import GeneralisedRows
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EVEN = "even spread within generalised values; interval of all that they allow"
EXACT = "exact: the question cuts no generalised value"
LEFT_OUT = "rows were left out of the release: the interval adds whatever they may be"
NO_ROWS = "no published row can satisfy the condition"
_MOST_LINES = 10**7
_HELD = "generalised rows"  # in `Sandbox.derived`


def answer(
    evidence: Generalised, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every possible group of the answer to `query` with its estimate."""
    held = engine.derived.get(_HELD)
    if held is None:
        held = engine.derived[_HELD] = PublishedRows.read(evidence, schema, engine)
    return Question(held, schema, query, engine).estimates()


def answer_together(
    evidence: Generalised, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Any]:
    """Return nothing: every question is answered by itself, from rows that are held in memory."""
    del evidence, schema, queries, engine
    return {}


@dataclass(frozen=True, eq=False)
class PublishedRows:
    """The distinct published rows: the node of every column, and how many rows there are of each.

    The last line, if rows were left out, has the root in every column and their number; `known` is
    False for it.
    """

    nodes: Mapping[str, Nodes]
    columns: Mapping[str, Integers]
    count: Integers
    known: Flags

    @classmethod
    def read(cls, evidence: Generalised, schema: Schema, engine: Sandbox) -> PublishedRows:
        if engine.view is None:
            raise ReleaseError("The release is damaged: it has no rows.")
        table = pq.read_table(engine.view)
        nodes = {
            name: nodes_of(schema[name], generalised=name in evidence.generalised)
            for name in evidence.columns
        }
        rows = GeneralisedRows.of(schema, evidence, table)
        columns = {name: {**rows.nodes, **rows.codes}[name] for name in evidence.columns}
        first, count = _distinct(list(columns.values()), table.num_rows)
        columns = {name: column[first] for name, column in columns.items()}
        known = np.ones(len(count), bool)
        if evidence.left_out:
            columns = {n: np.append(column, nodes[n].root) for n, column in columns.items()}
            count, known = np.append(count, evidence.left_out), np.append(known, False)
        return cls(nodes, columns, count, known)

    def by(self, names: Sequence[str]) -> PublishedRows:
        """Return the distinct combinations of some columns."""
        chosen = [self.columns[name] for name in names]
        first, back = _inverse([*chosen, self.known.astype(np.int64)], len(self.count))
        count = np.bincount(back, self.count, len(first)).astype(np.int64)
        columns = {name: self.columns[name][first] for name in names}
        return PublishedRows(self.nodes, columns, count, self.known[first])


def _inverse(columns: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    """Return the first row of each distinct combination, and the combination of each row."""
    group = np.zeros(rows, np.int64)
    for column in columns:
        _, group = np.unique(group * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    return first, group


def _distinct(columns: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    first, group = _inverse(columns, rows)
    return first, np.bincount(group, minlength=len(first))


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows by box, each for one group of the answer: `share` of each belongs there evenly spread.

    `key` is the group; `sure` says that the row is in the group and meets the condition whatever
    its values are, `possible` that it may. `mean`, `least` and `most` are of the summed expression
    over the cells that meet it.
    """

    key: Integers
    count: Integers
    known: Flags
    share: Floats
    sure: Flags
    possible: Flags
    mean: Floats
    least: Floats
    most: Floats


class Question:
    """One question to generalised rows."""

    def __init__(self, held: PublishedRows, schema: Schema, query: Query, engine: Sandbox) -> None:
        self.schema, self.query = schema, query
        self.parts = parts(query.clauses, query.argument, held.nodes, engine)
        needed = dict.fromkeys([*query.groups, *(n for each in self.parts for n in each.names)])
        self.rows = held.by(list(needed))
        published = int(held.count[held.known].sum())
        # Published rows are multiplied by this to stand for all rows.
        self.scale = float(held.count.sum()) / published if published else 1.0

    def estimates(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group that published rows may be in."""
        lines = self._lines()
        if not self.query.groups:
            yield (), self._estimate(lines, slice(None))
            return
        order = np.argsort(lines.key, kind="stable")
        keys, starts = np.unique(lines.key[order], return_index=True)
        ends = np.append(starts, len(order))[1:]
        groups = self.schema.cell_values(self.query.groups, keys.tolist())
        for values, start, end in zip(told(groups), starts, ends, strict=True):
            some = order[start:end]
            if (lines.possible[some] & lines.known[some]).any():
                yield values, self._estimate(lines, some)

    def _lines(self) -> Lines:
        """Return the rows with what the clauses say of them, once for each group they may be in."""
        rows, key, share, certain = self._by_key()
        columns, count, known = rows.columns, rows.count, rows.known
        sure, possible = certain, np.ones(len(key), bool)
        mean, least, most = (np.zeros(len(key)) for _ in range(3))
        for part in self.parts:
            met, cells = part.at(columns, len(key), "met"), part.at(columns, len(key), "cells")
            share = share * (met / cells)
            sure, possible = sure & (met == cells), possible & (met > 0)
            if part.total is not None:
                mean = part.at(columns, len(key), "total") / np.maximum(met, 1)
                least, most = (
                    part.at(columns, len(key), "least"),
                    part.at(columns, len(key), "most"),
                )
        return Lines(key, count, known, share, sure, possible, mean, least, most)

    def _by_key(self) -> tuple[PublishedRows, Integers, Floats, Flags]:
        """Return the rows, repeated for every group that they may be in; the group of each; the
        share of the row that is there under an even spread; and whether it is in no other.

        The column that is grouped by becomes the single value of the group.
        """
        rows = np.arange(len(self.rows.count))
        key = np.zeros(len(rows), np.int64)
        share, certain = np.ones(len(rows)), np.ones(len(rows), bool)
        columns = dict(self.rows.columns)
        for name in self.query.groups:
            nodes = self.rows.nodes[name]
            size = nodes.size[columns[name]]
            if int(size.sum()) > _MOST_LINES:
                raise QueryError(
                    f"The answer would need more than {large(_MOST_LINES)} steps; group by fewer "
                    "columns, or by a level of their hierarchies."
                )
            codes = nodes.codes_of(columns[name])
            again = np.repeat(np.arange(len(size)), size)
            rows, key = rows[again], key[again] * nodes.levels.size + codes
            share, certain = (share / size)[again], (certain & (size == 1))[again]
            columns = {other: column[again] for other, column in columns.items()}
            columns[name] = nodes.numbers[0][codes]
        count, known = self.rows.count[rows], self.rows.known[rows]
        return PublishedRows(self.rows.nodes, columns, count, known), key, share, certain

    def _estimate(self, lines: Lines, some: Any) -> Estimate:
        found = Lines(*(getattr(lines, name)[some] for name in lines.__dataclass_fields__))
        notes = self.query.notes
        if self.query.aggregate == "mean":
            return _average(found, notes)
        return _total(found, notes, self.scale, counted=self.query.aggregate == "count")


def _total(lines: Lines, notes: tuple[str, ...], scale: float, *, counted: bool) -> Estimate:
    """Return a count or a sum: its value under even spread, between its certain bounds."""
    mean, least, most = lines.mean, lines.least, lines.most
    if counted:
        mean, least, most = (np.ones(len(mean)) for _ in range(3))
    low = _sum(lines.count, np.where(lines.sure, least, np.minimum(least, 0)), lines.possible)
    high = _sum(lines.count, np.where(lines.sure, most, np.maximum(most, 0)), lines.possible)
    there = lines.known & lines.possible
    even = _sum(lines.count, lines.share * mean, there) * scale
    spread = _sum(lines.count, lines.share * (1 - lines.share) * mean**2, there)
    return _between(even, low, high, spread, notes, missing=not lines.known.all())


def _sum(count: Integers, weight: Floats, where: Flags) -> float:
    return float(count[where] @ weight[where])


def _between(
    even: float, low: float, high: float, spread: float, notes: tuple[str, ...], *, missing: bool
) -> Estimate:
    if low == high:
        return Estimate(low, Exact(), EXACT, notes)
    if missing:
        notes = (*notes, LEFT_OUT)
    law = Bounded(Exact(), Limit(low, Exact()), Limit(high, Exact()), low, high, lambda: spread)
    return Estimate(min(max(even, low), high), law, EVEN, notes)


def _average(lines: Lines, notes: tuple[str, ...]) -> Estimate:
    """Return an average: rows that are not sure may be in it or not, with any of their amounts."""
    there = lines.possible & lines.known
    rows = _sum(lines.count, lines.share, there)
    if not rows:
        return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, NO_ROWS))
    even = _sum(lines.count, lines.share * lines.mean, there) / rows
    low = _least_average(lines, lines.least)
    high = -_least_average(lines, -lines.most)
    return _between(even, low, high, float("nan"), notes, missing=not lines.known.all())


def _least_average(lines: Lines, amount: Floats) -> float:
    """Return the least average over all tables: rows that are not sure join it from the smallest
    amount on, as long as they lower it.
    """
    sure = lines.sure & lines.possible
    count, total = float(lines.count[sure].sum()), _sum(lines.count, amount, sure)
    open_ = np.flatnonzero(lines.possible & ~sure)
    order = open_[np.argsort(amount[open_], kind="stable")]
    counts = count + np.concatenate([[0.0], np.cumsum(lines.count[order])])
    totals = total + np.concatenate([[0.0], np.cumsum(lines.count[order] * amount[order])])
    if not count and len(order):  # one row of the least amount is the whole average
        return float(amount[order[0]])
    return float((totals / np.maximum(counts, 1)).min())
