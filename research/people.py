"""The private table of an experiment, as codes with a schema of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from research.study import Codes
from scumble.model.errors import ParameterError, SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source


@dataclass(frozen=True)
class People:
    """One row of codes for each person, and the columns with their numbers of values."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Codes
    sensitive: str | None = None
    labels: tuple[tuple[Any, ...], ...] = ()  # the values themselves, where they are known

    @property
    def rows(self) -> int:
        return len(self.codes)

    @property
    def schema(self) -> Schema:
        pairs = zip(self.names, self.sizes, strict=True)
        return Schema(
            tuple(
                Attribute(
                    name,
                    "sensitive" if name == self.sensitive else "quasi",
                    IntegerRange(0, size - 1),
                )
                for name, size in pairs
            )
        )

    @property
    def table(self) -> pa.Table:
        """The table to publish."""
        return pa.table(dict(zip(self.names, self.codes.T, strict=True)))

    def column(self, name: str) -> Codes:
        column: Codes = self.codes[:, self.names.index(name)]
        return column

    def some(self, rows: int, seed: int) -> People:
        """Return `rows` people drawn without replacement. This is no privacy noise."""
        if rows > self.rows:
            raise ParameterError.of("some", "rows", f"at most {self.rows}", rows)
        chosen = np.random.default_rng(seed).permutation(self.rows)[:rows]
        return replace(self, codes=self.codes[chosen])

    def distinct(self) -> People:
        """Return the table without duplicate rows."""
        return replace(self, codes=np.unique(self.codes, axis=0))


def read(path: str | Path, columns: Sequence[str], sensitive: str | None = None) -> People:
    """Read columns of a table, without the rows that have a missing value in one of them.

    Domains are the sorted values that occur, as in the papers; a real publication must not take
    them from the private table.
    """
    source = open_source(path)
    source.require(columns)
    table = pa.Table.from_batches(list(source.batches(columns))).drop_null()
    if not table.num_rows:
        raise SourceError(f"The table '{path}' has no row without a gap in {', '.join(columns)}.")
    return _coded(table, columns, sensitive)


def fictitious(count: int, columns: Sequence[str], sensitive: str | None = None) -> People:
    """Return made-up people: the demonstration's census, with some of its columns."""
    from scumble.demo.census import census

    return _coded(census(count)[0], columns, sensitive)


def _coded(table: pa.Table, columns: Sequence[str], sensitive: str | None) -> People:
    codes, labels = [], []
    for name in columns:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        values = pc.unique(column)
        ordered = values.take(pc.sort_indices(values))
        codes.append(pc.index_in(column, ordered).to_numpy().astype(np.int64))
        labels.append(tuple(ordered.to_pylist()))
    sizes = tuple(map(len, labels))
    return People(tuple(columns), sizes, np.stack(codes, axis=1), sensitive, tuple(labels))
