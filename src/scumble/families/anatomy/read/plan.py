"""The plan of a question to groups, and the two published tables in memory, sorted by group.

- `AnatomyPlan`: which parts of a question name columns of rows, and which sensitive values.
- `Combinations`: the distinct combinations of some attributes among the lines of a table.
- `GroupLayout`, `GroupTable`: rows and values of a release, group by group.
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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.families.anatomy.design import Groups
from scumble.families.anatomy.read.kernels import (
    BY_ROW,
    BY_VALUE,
    COUNT,
    JOINT,
    place_lines,
)
from scumble.model.errors import ReleaseError
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.domains import lookup
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, known_codes
from scumble.public.sandbox import Sandbox


@dataclass(frozen=True)
class AnatomyPlan:
    """A question, split by which parts name columns of rows and which name sensitive values."""

    evidence: Groups
    query: Query

    @cached_property
    def about_rows(self) -> list[Expression]:
        """The clauses that name no sensitive attribute."""
        return [c for c in self.query.clauses if not self._names_sensitive(c.attributes)]

    @cached_property
    def about_values(self) -> list[Expression]:
        """The clauses that name sensitive attributes only."""
        return [
            c for c in self.query.clauses if c.attributes and not self._names_other(c.attributes)
        ]

    @cached_property
    def mixed(self) -> list[Expression]:
        """The clauses that name both."""
        return [c for c in self.query.clauses if self._both(c)]

    @property
    def only_rows(self) -> bool:
        return not self._names_sensitive(self.query.attributes)

    @property
    def only_values(self) -> bool:
        return bool(self.query.attributes) and not self._names_other(self.query.attributes)

    @property
    def separable(self) -> bool:
        """Whether every part names columns of rows only, or sensitive values only."""
        argument = self.query.argument
        return not self.mixed and not (argument and self._both(argument))

    @property
    def amount_kind(self) -> int:
        """What the amount that is added up depends on; see `add_limits`."""
        if not self.separable:
            return JOINT
        if self.query.aggregate == "count":
            return COUNT
        argument = self.query.argument
        return BY_VALUE if argument and self._names_sensitive(argument.attributes) else BY_ROW

    @property
    def joint_parts(self) -> list[Expression]:
        """The parts that are evaluated for rows and values together: the mixed clauses, and last
        the amount that is added up.
        """
        return [*self.mixed, self.query.argument or Expression("1", ())]

    def needed(self, *, sensitive: bool) -> list[str]:
        """Return the attributes of rows, or of values, on which the answer depends."""
        needed = {name for part in self.joint_parts for name in part.attributes}
        return [
            name
            for name in self.query.attributes
            if name in needed.union(self.query.groups)
            and (name in self.evidence.sensitive) == sensitive
        ]

    @property
    def weight(self) -> str:
        """The SQL of how many values a line of the values represents."""
        return f"CAST({quoted(self.evidence.count)} AS BIGINT)"

    def one_table(self) -> str:
        """Return the SQL of the answer from the one table that has all named attributes."""
        table, weight = ('"values"', self.weight) if self.only_values else ("view", "1")
        keys = [f"{quoted(name)} AS {key(name)}" for name in self.query.groups]
        columns = [*keys, f"CAST(sum({weight}) AS DOUBLE) AS count"]
        if self.query.argument:
            columns.append(f"sum({number(self.query.argument)} * {weight}) AS total")
        by = " GROUP BY ALL" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {table}{where(self.query.clauses)}{by}"

    def _names_sensitive(self, names: Sequence[str]) -> bool:
        return not set(names).isdisjoint(self.evidence.sensitive)

    def _names_other(self, names: Sequence[str]) -> bool:
        return not set(names) <= set(self.evidence.sensitive)

    def _both(self, part: Expression) -> bool:
        return self._names_sensitive(part.attributes) and self._names_other(part.attributes)


def key(name: str) -> str:
    """Return the quoted column name of a grouped attribute in the result of `one_table`."""
    return quoted(f"scumble key {name}")


def number(expression: Expression) -> str:
    """Return the SQL of an expression that is added up."""
    return f"CAST(({expression.sql}) AS DOUBLE)"


def where(clauses: Sequence[Expression]) -> str:
    """Return the WHERE clause of all `clauses`; without clauses, an empty string."""
    return f" WHERE {condition(clauses)}" if clauses else ""


def condition(clauses: Sequence[Expression]) -> str:
    """Return the conjunction of all clauses in SQL."""
    return " AND ".join(f"({clause.sql})" for clause in clauses) or "true"


Codes = npt.NDArray[Any]

# Up to this many possible numbers, those that occur are marked in an array; beyond, hashed.
_MOST_MARKED = 1 << 22


@dataclass(frozen=True, eq=False)
class Combinations:
    """The distinct combinations of some attributes among the lines of a table.

    They are numbered from 0 on, so that an expression is evaluated once for each. `codes` has the
    codes of every combination by attribute, `size` is their number, and `of` is the combination of
    every line.
    """

    codes: Mapping[str, Codes]
    size: int
    of: Codes

    @classmethod
    def among(cls, columns: Mapping[str, Codes], lines: int) -> Combinations:
        """Return the combinations of `columns` that occur; without columns there is one."""
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

    def on(self, names: Iterable[str]) -> Combinations:
        """Return the distinct combinations of some of the attributes among these combinations."""
        return Combinations.among({name: self.codes[name] for name in names}, self.size)

    def values(self, schema: Schema, at: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return the values of the attributes of some combinations."""
        return {name: schema[name].decode(code[at]) for name, code in self.codes.items()}


def _distinct(numbers: Codes) -> tuple[Codes, Codes]:
    """Return the distinct numbers, and the place of each number among them."""
    if int(numbers.max(initial=0)) < _MOST_MARKED:
        there = np.zeros(int(numbers.max(initial=0)) + 1, bool)
        there[numbers] = True
        places = (np.cumsum(there) - 1).astype(np.int32)
        return np.flatnonzero(there).astype(numbers.dtype), lookup(places, numbers)
    encoded = pc.dictionary_encode(pa.array(numbers))
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()


# Layouts of releases; each is in memory as long as its engine.
_known: WeakKeyDictionary[Sandbox, GroupLayout] = WeakKeyDictionary()


def layout(evidence: Groups, schema: Schema, engine: Sandbox) -> GroupLayout:
    """Return the layout of the release of this engine; it is read when first needed."""
    if engine not in _known:
        _known[engine] = GroupLayout(evidence, schema, engine)
    return _known[engine]


class GroupLayout:
    """Rows and values of a release, group by group.

    Groups are numbered from 0 on. `counts` is the multiplicity of each value, `sizes` the number of
    rows of each group, and `distinct_sizes` are the different sizes.
    """

    def __init__(self, evidence: Groups, schema: Schema, engine: Sandbox) -> None:
        if engine.view is None:
            raise ReleaseError("The release has no published rows.")
        values = engine.view.with_name(evidence.values)
        self.rows = GroupTable(engine.view, "view", schema, evidence.group)
        self.values = GroupTable(values, '"values"', schema, evidence.group)
        self.counts = self.values.numbers(evidence.count)
        self.sizes = np.diff(self.rows.starts)
        if len(self.sizes) != len(self.values.starts) - 1:
            raise ReleaseError("The published tables do not have the same groups.")
        self.distinct_sizes = np.unique(self.sizes)

    @property
    def groups(self) -> int:
        return len(self.sizes)


Truths = npt.NDArray[np.bool_]

# A clause with at most this many combinations of values is looked up by line; a wider one is
# evaluated by the database.
_MOST_LOOKED_UP = 1 << 16


class GroupTable:
    """One of the two published tables, its lines in the order of their groups.

    The lines of group g are those from starts[g] to starts[g + 1]. Columns are read when first
    needed and then kept as codes, a byte or two for each line.
    """

    def __init__(self, path: Path, table: str, schema: Schema, group: str) -> None:
        self._path, self._table, self._schema = path, table, schema
        self._codes: dict[str, Codes] = {}
        groups = _numbers(_column(path, group))
        self.lines = len(groups)
        self.order, self.starts = _in_order(groups)

    def numbers(self, name: str) -> npt.NDArray[np.int32]:
        """Return a column of small numbers."""
        return self._sort(_numbers(_column(self._path, name)))

    def combinations(
        self, engine: Sandbox, names: Sequence[str], clauses: Sequence[Expression]
    ) -> Combinations:
        """Return the combinations of `names` among the lines that satisfy all clauses.

        Other lines have the number -1.
        """
        chosen = self._chosen(engine, clauses)
        columns = {name: self._column(name) for name in names}
        if chosen is None:
            return Combinations.among(columns, self.lines)
        if not columns:
            return Combinations({}, 1, chosen.view(np.int8) - np.int8(1))
        places = np.flatnonzero(chosen)
        combinations = Combinations.among(
            {name: code[places] for name, code in columns.items()}, len(places)
        )
        of = np.full(self.lines, -1, np.int32)
        of[places] = combinations.of
        return Combinations(combinations.codes, combinations.size, of)

    def _chosen(self, engine: Sandbox, clauses: Sequence[Expression]) -> Truths | None:
        """Return which lines satisfy all clauses; None if there are no clauses."""
        chosen: Truths | None = None
        wide = []
        for clause in clauses:
            sizes = [self._schema[name].size for name in clause.attributes]
            if prod(sizes) > _MOST_LOOKED_UP:
                wide.append(clause)
                continue
            [truth] = engine.holds([clause], clause.attributes)
            cells = self.cells(clause.attributes)
            holds = _look_up(truth, cells) if sizes else np.full(self.lines, truth[0])
            chosen = holds if chosen is None else chosen & holds
        if wide:
            column = engine.rows(f"SELECT coalesce({condition(wide)}, false) FROM {self._table}")
            holds = self._sort(column.column(0).to_numpy())
            chosen = holds if chosen is None else chosen & holds
        return chosen

    def cells(self, names: Sequence[str]) -> Codes:
        """Return the cell of every line in the product of the domains, the last name fastest."""
        cells: Codes = np.empty(0, np.uint8)
        for axis, name in enumerate(names):
            codes, size = self._column(name), np.int32(self._schema[name].size)
            cells = cells.astype(np.int32) * size + codes if axis else codes
        return cells

    def _column(self, name: str) -> Codes:
        if name not in self._codes:
            attribute = self._schema[name]
            text = [name] if pa.types.is_string(attribute.arrow_type) else []
            column = _column(self._path, name, text)
            self._codes[name] = self._sort(known_codes(attribute, column))
        return self._codes[name]

    def _sort(self, column: Codes) -> Codes:
        if len(column) != self.lines:  # in a file whose metadata were changed
            raise ReleaseError(DAMAGED)
        return column[self.order]


def _in_order(
    groups: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the lines sorted by group, and where each group begins."""
    if int(groups.min(initial=0)) < 0:
        raise ReleaseError("The number of a published group is below 0.")
    starts = np.zeros(int(groups.max(initial=-1)) + 2, np.int64)
    order = np.empty(len(groups), np.int32)
    place_lines(groups, starts, order)
    return order, starts


def _look_up(truth: Truths, cells: Codes) -> Truths:
    """Return the truth of each line's cell, looked up as bytes, since Arrow packs booleans."""
    truths: Truths = lookup(truth.view(np.uint8), cells).view(np.bool_)
    return truths


def _column(path: Path, name: str, text: Sequence[str] = ()) -> pa.ChunkedArray:
    try:
        with pq.ParquetFile(path, read_dictionary=text) as file:
            return file.read(columns=[name])[name]
    except KeyError:
        raise ReleaseError(DAMAGED) from None


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = pc.cast(column, pa.int32()).to_numpy()
    return numbers
