"""LongRows: a table with one row per item, read as one row per basket with lists of items."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scumble.model.errors import SourceError
from scumble.model.long_work import interruptible
from scumble.model.query import quoted
from scumble.private.tables.source import BATCH_ROWS, Source, read_batches, read_safely

if TYPE_CHECKING:
    import duckdb

_ROW = "scumble row"
_INPUT = "scumble input"
_TABLE = "all_rows"


class LongRows(Source):
    """One row for each value of the column `basket`, in the order of their first rows.

    The columns `lists` hold the values of all rows of the basket as a list, in the order of the
    column `order` (numbers and times by size, other text by the alphabet) and else of the rows. By
    default they are the columns that differ inside of a basket. Any other column has the value of
    the first row of the basket, and those in `same`, such as who a person is, may not differ inside
    of one: a basket would be counted for one person, and tell about another. Grouping uses a
    temporary folder if memory is short.
    """

    def __init__(
        self,
        source: Source,
        basket: str,
        order: str | None = None,
        lists: Sequence[str] | None = None,
        same: Sequence[str] = (),
    ) -> None:
        self.source, self.basket, self.order = source, basket, order
        self.grouped = True
        self.description = source.description
        self.hint = source.hint
        keys = [basket] if order is None else [basket, order]
        source.require(keys)
        self.columns = [name for name in source.columns if name != order]
        _check_case(source.description, [*keys, *self.columns])
        self._check_same([name for name in same if name != basket])
        others = [name for name in self.columns if name != basket and name not in same]
        self.lists = self._differing(others) if lists is None else tuple(lists)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, one row for each basket."""
        self.require(columns)
        chosen = ", ".join(f"{self._value(name)} AS {quoted(name)}" for name in columns)
        first = f"min({quoted(_ROW)})"
        return self._query(
            f"SELECT {chosen} FROM {_TABLE} GROUP BY {quoted(self.basket)} ORDER BY {first}",
            [*columns, *([self.order] if self.order else [])],
        )

    def _value(self, name: str) -> str:
        column, row = quoted(name), quoted(_ROW)
        if name == self.basket:
            return column
        if name not in self.lists:
            return f"arg_min_null({column}, {row})"
        if self.order is None:
            return f"list({column} ORDER BY {row})"
        key = quoted(self.order)
        by = f"try_cast({key} AS DOUBLE), try_cast({key} AS TIMESTAMP), {key}::VARCHAR, {row}"
        return f"list({column} ORDER BY {by})"

    def _check_same(self, names: Sequence[str]) -> None:
        self.source.require(names)
        for name in self._differing(names):
            raise SourceError(
                f"{self.description} has a basket whose rows differ in '{name}', which tells "
                f"persons apart. A basket is of one person: make '{self.basket}' a column that "
                "no two persons share."
            )

    def _differing(self, others: Sequence[str]) -> tuple[str, ...]:
        """Return those of the columns that have different values inside of a basket."""
        if not others:
            return ()
        tests = (
            f"bool_or(low IS DISTINCT FROM high OR filled NOT IN (0, total)) FROM (SELECT "
            f"min({c}) AS low, max({c}) AS high, count({c}) AS filled, count(*) AS total "
            f"FROM {_TABLE} GROUP BY {quoted(self.basket)})"
            for c in map(quoted, others)
        )
        asked = ", ".join(f"(SELECT {test})" for test in tests)
        [found] = pa.Table.from_batches(self._query(f"SELECT {asked}", others)).to_pylist() or [{}]
        return tuple(name for name, differs in zip(others, found.values(), strict=True) if differs)

    def _query(self, query: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query over the table `_TABLE` of the rows of the source."""
        needed = list(dict.fromkeys([self.basket, *columns]))
        import duckdb

        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            with interruptible():
                connection.execute("SET enable_progress_bar = false")
                connection.execute("SET temp_directory = ?", [folder])
            make = f"CREATE TABLE {_TABLE} AS"
            for batch in self._numbered(needed):
                connection.register(_INPUT, batch)
                _run(self.description, connection, f"{make} FROM {quoted(_INPUT)}")
                connection.unregister(_INPUT)
                make = f"INSERT INTO {_TABLE}"
            reader = read_safely(
                self.description, lambda: connection.sql(query).to_arrow_reader(BATCH_ROWS)
            )
            yield from read_batches(self.description, reader)

    def _numbered(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the source with the number of each row."""
        start, empty = 0, True
        for batch in self.source.batches(columns):
            if batch.column(self.basket).null_count:
                raise SourceError(
                    f"{self.description} has a row without a value of '{self.basket}', which "
                    "says to which basket a row belongs."
                )
            rows = pa.array(np.arange(start, start + batch.num_rows))
            plain = [_plain(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays([*plain, rows], names=[*columns, _ROW])
            start, empty = start + batch.num_rows, False
        if empty:
            nothing = [pa.array([], pa.string()) for _ in columns]
            none = pa.array([], pa.int64())
            yield pa.RecordBatch.from_arrays([*nothing, none], names=[*columns, _ROW])


def _check_case(description: str, columns: Sequence[str]) -> None:
    """Refuse names that are the same but for case, or reserved: grouping could not tell them."""
    seen = {_ROW: _ROW}
    for name in columns:
        if seen.setdefault(name.lower(), name) != name or name == _ROW:
            raise SourceError(
                f"{description} has columns whose names differ in case only, or one named "
                f"'{_ROW}', so that its rows cannot be grouped. Rename one."
            )


def _plain(column: pa.Array) -> pa.Array:
    """Return a column in a type that does not change from batch to batch."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _run(description: str, connection: duckdb.DuckDBPyConnection, query: str) -> None:
    read_safely(description, lambda: connection.execute(query))
