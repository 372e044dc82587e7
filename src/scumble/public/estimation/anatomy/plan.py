"""Rows and values of a group side by side.

A question to groups, split by what it asks of rows and of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Groups
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.domains import lookup
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox


@dataclass(frozen=True)
class AnatomyPlan:
    """Which part of a question is about what."""

    evidence: Groups
    query: Query

    @cached_property
    def about_rows(self) -> list[Expression]:
        """The clauses without a sensitive attribute."""
        return [c for c in self.query.clauses if not self._sensitive(c.attributes)]

    @cached_property
    def about_values(self) -> list[Expression]:
        """The clauses on sensitive attributes alone."""
        return [c for c in self.query.clauses if c.attributes and not self._open(c.attributes)]

    @cached_property
    def mixed(self) -> list[Expression]:
        """The clauses on both."""
        return [c for c in self.query.clauses if self._both(c)]

    @property
    def only_rows(self) -> bool:
        return not self._sensitive(self.query.attributes)

    @property
    def only_values(self) -> bool:
        return bool(self.query.attributes) and not self._open(self.query.attributes)

    @property
    def apart(self) -> bool:
        """Whether every part is about rows only or about values only."""
        argument = self.query.argument
        return not self.mixed and not (argument and self._both(argument))

    @property
    def together(self) -> list[Expression]:
        """What has to be evaluated for rows and values together: the mixed clauses, and last what
        is added up.
        """
        return [*self.mixed, self.query.argument or Expression("1", ())]

    def named(self, *, sensitive: bool) -> list[str]:
        """The attributes of rows or of values by which an answer tells them apart."""
        needed = {name for part in self.together for name in part.attributes}
        return [
            name
            for name in self.query.attributes
            if name in needed.union(self.query.groups)
            and (name in self.evidence.sensitive) == sensitive
        ]

    @property
    def weight(self) -> str:
        """For how many values a line of the values stands."""
        return f"CAST({quoted(self.evidence.count)} AS BIGINT)"

    def one_table(self) -> str:
        """The answer from the one table that knows all the question names."""
        table, weight = ('"values"', self.weight) if self.only_values else ("view", "1")
        keys = [f"{quoted(name)} AS {key(name)}" for name in self.query.groups]
        columns = [*keys, f"CAST(sum({weight}) AS DOUBLE) AS count"]
        if self.query.argument:
            columns.append(f"sum({number(self.query.argument)} * {weight}) AS total")
        by = " GROUP BY ALL" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {table}{where(self.query.clauses)}{by}"

    def _sensitive(self, names: Sequence[str]) -> bool:
        return not set(names).isdisjoint(self.evidence.sensitive)

    def _open(self, names: Sequence[str]) -> bool:
        return not set(names) <= set(self.evidence.sensitive)

    def _both(self, part: Expression) -> bool:
        return self._sensitive(part.attributes) and self._open(part.attributes)


def key(name: str) -> str:
    """The name of a grouped attribute in what is gathered."""
    return quoted(f"scumble key {name}")


def number(expression: Expression) -> str:
    """An expression that is added up."""
    return f"CAST(({expression.sql}) AS DOUBLE)"


def where(clauses: Sequence[Expression]) -> str:
    """What comes after FROM and a table."""
    return f" WHERE {condition(clauses)}" if clauses else ""


def condition(clauses: Sequence[Expression]) -> str:
    """All clauses as one."""
    return " AND ".join(f"({clause.sql})" for clause in clauses) or "true"


# Kinds: the different combinations of some attributes among lines, numbered from 0 on, so that an
# expression over them is evaluated once for each.

Codes = npt.NDArray[Any]

# Up to so many possible numbers, those that occur are marked in an array; beyond, hashed.
_MARKED = 1 << 22


@dataclass(frozen=True, eq=False)
class Kinds:
    """The codes of every kind, and the kind of every line."""

    codes: Mapping[str, Codes]
    size: int
    of: Codes

    @classmethod
    def among(cls, columns: Mapping[str, Codes], lines: int) -> Kinds:
        """The combinations of these columns that occur; without columns all lines are alike."""
        codes: dict[str, Codes] = {}
        size, of = 1, cast(Codes, np.zeros(lines, np.int8))
        for name, column in columns.items():
            values, places = _distinct(column)
            both, of = _distinct(of * np.int64(len(values)) + places if codes else places)
            before, here = np.divmod(both, max(len(values), 1))
            codes = {known: code[before] for known, code in codes.items()}
            codes[name] = values[here]
            size = len(both)
        return cls(codes, size, of)

    def on(self, names: Iterable[str]) -> Kinds:
        """The kinds of these kinds that some of the attributes tell apart."""
        return Kinds.among({name: self.codes[name] for name in names}, self.size)

    def values(self, schema: Schema, at: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """The attributes of some kinds."""
        return {name: schema[name].decode(code[at]) for name, code in self.codes.items()}


def _distinct(numbers: Codes) -> tuple[Codes, Codes]:
    """The different numbers, and of each number the place among them."""
    if int(numbers.max(initial=0)) < _MARKED:
        there = np.zeros(int(numbers.max(initial=0)) + 1, bool)
        there[numbers] = True
        places = (np.cumsum(there) - 1).astype(np.int32)
        return np.flatnonzero(there).astype(numbers.dtype), lookup(places, numbers)
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()


# Layout: rows and values of a release side by side, group by group; held in memory while the
# release is asked about.

_known: WeakKeyDictionary[Sandbox, Layout] = WeakKeyDictionary()


def layout(evidence: Groups, schema: Schema, engine: Sandbox) -> Layout:
    """The layout of the release of this engine; read when it is first needed."""
    if engine not in _known:
        _known[engine] = Layout(evidence, schema, engine)
    return _known[engine]


class Layout:
    """Groups numbered from 0 on: their rows, their values, how often each value, and their size."""

    def __init__(self, evidence: Groups, schema: Schema, engine: Sandbox) -> None:
        if engine.view is None:
            raise ReleaseError("The release has no published rows.")
        values = engine.view.with_name(evidence.values)
        self.rows = Side(engine.view, "view", schema, evidence.group)
        self.values = Side(values, '"values"', schema, evidence.group)
        self.counts = self.values.numbers(evidence.count)
        self.sizes, lines = np.diff(self.rows.starts), np.diff(self.values.starts)
        if len(self.sizes) != len(lines):
            raise ReleaseError("The published tables do not have the same groups.")
        # The different sizes, and which of them a group has.
        self.sorts, self.sort = np.unique(self.sizes, return_inverse=True)
        self.most_rows, self.most_lines = (int(each.max(initial=0)) for each in (self.sizes, lines))
        of_groups = np.add.reduceat(self.counts, self.values.starts[:-1])  # or more, if it has none
        self.most_values = int(of_groups.max(initial=0))

    @property
    def groups(self) -> int:
        return len(self.sizes)


# One of the two published tables of groups, its lines in the order of their groups, so that a
# question goes through rows and values of a group together.

Marks = npt.NDArray[np.bool_]

# A clause with at most so many combinations of values is looked up by line; a wider one is left to
# the database.
_LOOKED_UP = 1 << 16


class Side:
    """The lines of group g are those from starts[g] to starts[g + 1]. Columns are read when they
    are first needed and then kept as codes, a byte or two for each line.
    """

    def __init__(self, path: Path, table: str, schema: Schema, group: str) -> None:
        self._path, self._table, self._schema = path, table, schema
        self._codes: dict[str, Codes] = {}
        groups = _numbers(pq.read_table(path, columns=[group])[group])
        self.lines = len(groups)
        self.order, self.starts = _in_order(groups)

    def numbers(self, name: str) -> npt.NDArray[np.int32]:
        """A column of small numbers."""
        return self._sorted(_numbers(pq.read_table(self._path, columns=[name])[name]))

    def kinds(self, engine: Sandbox, names: Sequence[str], clauses: Sequence[Expression]) -> Kinds:
        """The kinds of the lines that satisfy all clauses; other lines have the number -1."""
        marks = self._chosen(engine, clauses)
        columns = {name: self._column(name) for name in names}
        if marks is None:
            return Kinds.among(columns, self.lines)
        if not columns:
            return Kinds({}, 1, marks.view(np.int8) - np.int8(1))
        places = np.flatnonzero(marks)
        found = Kinds.among({name: code[places] for name, code in columns.items()}, len(places))
        of = np.full(self.lines, -1, np.int32)
        of[places] = found.of
        return Kinds(found.codes, found.size, of)

    def _chosen(self, engine: Sandbox, clauses: Sequence[Expression]) -> Marks | None:
        """The lines that satisfy all clauses; None if there are none."""
        marks: Marks | None = None
        wide = []
        for clause in clauses:
            sizes = [self._schema[name].size for name in clause.attributes]
            if prod(sizes) > _LOOKED_UP:
                wide.append(clause)
                continue
            [truth] = engine.holds([clause], clause.attributes)
            cells = self.cells(clause.attributes)
            found = _looked_up(truth, cells) if sizes else np.full(self.lines, truth[0])
            marks = found if marks is None else marks & found
        if wide:
            column = engine.rows(f"SELECT coalesce({condition(wide)}, false) FROM {self._table}")
            found = self._sorted(column.column(0).to_numpy())
            marks = found if marks is None else marks & found
        return marks

    def cells(self, names: Sequence[str]) -> Codes:
        """The cell of every line in the product of the domains, the last name fastest."""
        cells: Codes = np.empty(0, np.uint8)
        for place, name in enumerate(names):
            codes, size = self._column(name), np.int32(self._schema[name].size)
            cells = cells.astype(np.int32) * size + codes if place else codes
        return cells

    def _column(self, name: str) -> Codes:
        if name not in self._codes:
            attribute = self._schema[name]
            text = [name] if pa.types.is_string(attribute.arrow_type) else []
            column = pq.read_table(self._path, columns=[name], read_dictionary=text)[name]
            self._codes[name] = self._sorted(attribute.encode(column)[0])
        return self._codes[name]

    def _sorted(self, column: Codes) -> Codes:
        return column[self.order]


def _in_order(
    groups: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The lines sorted by group, and where each group begins."""
    from scumble.public.estimation.anatomy.kernels import place_lines

    if int(groups.min(initial=0)) < 0:
        raise ReleaseError("The number of a published group is below 0.")
    starts = np.zeros(int(groups.max(initial=-1)) + 2, np.int64)
    order = np.empty(len(groups), np.int32)
    place_lines(groups, starts, order)
    return order, starts


def _looked_up(truth: Marks, cells: Codes) -> Marks:
    """Bytes, since Arrow packs truth values."""
    found: Marks = lookup(truth.view(np.uint8), cells).view(np.bool_)
    return found


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = column.cast(pa.int32()).to_numpy()
    return found
