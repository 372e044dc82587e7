"""One of the two published tables of groups, its lines in the order of their groups, so that a
question goes through rows and values of a group together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import ReleaseError
from scumble.model.query import Expression
from scumble.model.schema.domains import lookup
from scumble.model.schema.schema import Schema
from scumble.public.estimation.anatomy.groups_kinds import Codes, Kinds
from scumble.public.estimation.anatomy.plan import condition
from scumble.public.sandbox import Engine

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

    def kinds(self, engine: Engine, names: Sequence[str], clauses: Sequence[Expression]) -> Kinds:
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

    def _chosen(self, engine: Engine, clauses: Sequence[Expression]) -> Marks | None:
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
