"""The keys that people have: all distinct pairs of a person and a key, and counts of random keys.

A key is a combination of values of one or more columns, which need not be listed anywhere. Pairs
are held by DuckDB, which moves them to a temporary folder if memory is short. Everything here is
private; only `private/meter` may use it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import DomainError, setting
from scumble.model.long_work import interruptible
from scumble.model.schema.open_category import OpenCategory
from scumble.private.tables.persons.limit import identifiers
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import BATCH_ROWS, read_safely

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MEMORY = "1GB"
_INPUT = "batch"


@dataclass(frozen=True)
class KeyTotals:
    """For every key: how many people kept it, and the sum of what each of them adds to it."""

    people: Counts
    sums: Counts


class KeyCounter(Protocol):
    """Counts of people by key. Keys are numbered from 0, in the order of their values."""

    def __len__(self) -> int:
        """Return the number of distinct keys."""
        ...

    def values(self, keys: Counts) -> list[pa.Array]:
        """Return the values of these keys, one array for each column."""
        ...

    def draw(self, weights: Counts, stream: Keystream, among: Mask | None = None) -> KeyTotals:
        """Let every person keep a random choice of at most len(weights) - 1 of their keys.

        A person who keeps t keys adds `weights[t]` to each of them. With `among`, a mask of all
        keys, the others do not count as keys. Nobody's choice depends on other people.
        """
        ...

    def close(self) -> None:
        """Forget the pairs."""
        ...


class KeyPairs:
    """The distinct pairs of person and key of a table; without `person`, each row is a person.

    `tables` are what `key_tables` yields, if others have read the rows.
    """

    @interruptible()
    def __init__(
        self,
        rows: Rows,
        names: Sequence[str],
        person: str | None,
        tables: Iterable[pa.Table] | None = None,
    ) -> None:
        self._names = tuple(names)
        self._kinds = [rows.schema[name].arrow_type for name in names]
        self._folder = tempfile.TemporaryDirectory(prefix="scumble-keys-")
        import duckdb

        self._connection = duckdb.connect()
        for option in (
            "SET enable_progress_bar = false",
            f"SET memory_limit = '{_MEMORY}'",
            f"SET temp_directory = '{self._folder.name}'",
        ):
            self._connection.execute(option)
        try:
            self._load(rows, key_tables(rows, names, person) if tables is None else tables)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the pairs."""
        self._connection.close()
        self._folder.cleanup()

    def _load(self, rows: Rows, tables: Iterable[pa.Table]) -> None:
        make = "CREATE TABLE input AS"
        for batch in tables:
            self._connection.register(_INPUT, batch)
            self._run(rows, f"{make} SELECT DISTINCT * FROM {_INPUT}")
            self._connection.unregister(_INPUT)
            make = "INSERT INTO input"
        columns = ", ".join(self._columns)
        same = " AND ".join(f"input.{name} = keys.{name}" for name in self._columns)
        ranked = f"SELECT row_number() OVER (ORDER BY {columns}) - 1 AS key, {columns}"
        distinct = "SELECT DISTINCT dense_rank() OVER (ORDER BY person) AS person, keys.key"
        statements = [
            f"CREATE TABLE keys AS {ranked} FROM (SELECT DISTINCT {columns} FROM input)",
            f"CREATE TABLE pairs AS FROM ({distinct} FROM input JOIN keys ON {same}) ORDER BY ALL",
            "DROP TABLE input",
        ]
        for statement in statements:
            self._run(rows, statement)
        [(self._size,)] = self._connection.execute("SELECT count(*) FROM keys").fetchall()

    @property
    def _columns(self) -> list[str]:
        return [_column(place) for place in range(len(self._names))]

    def _run(self, rows: Rows, statement: str) -> None:
        read_safely(rows.source.description, lambda: self._connection.execute(statement))

    def __len__(self) -> int:
        return int(self._size)

    @interruptible()
    def values(self, keys: Counts) -> list[pa.Array]:
        """Return the values of these keys, one array for each column."""
        self._connection.register(_INPUT, pa.table({"key": pa.array(keys, pa.int64())}))
        found = self._connection.sql(
            f"SELECT {', '.join(self._columns)} FROM keys JOIN {_INPUT} USING (key) ORDER BY key"
        ).to_arrow_table()
        self._connection.unregister(_INPUT)
        return [
            pc.cast(column.combine_chunks(), kind)
            for column, kind in zip(found.columns, self._kinds, strict=True)
        ]

    @interruptible()
    def draw(self, weights: Counts, stream: Keystream, among: Mask | None = None) -> KeyTotals:
        """Return the counts and sums of a random choice of keys: see `KeyCounter`."""
        drawn = KeyTotals(np.zeros(len(self), np.int64), np.zeros(len(self), np.int64))
        for person, key in self._people():
            if among is not None:
                inside = among[key]
                person, key = person[inside], key[inside]
            _add_choice(drawn, person, key, weights, stream)
        return drawn

    def _people(self) -> Iterator[tuple[Counts, Counts]]:
        """Yield all pairs in order, all pairs of a person in one piece."""
        reader = self._connection.sql(
            "SELECT person, key FROM pairs ORDER BY person, key"
        ).to_arrow_reader(BATCH_ROWS)
        rest: tuple[Counts, Counts] = (np.empty(0, np.int64), np.empty(0, np.int64))
        for batch in reader:
            person, key = (
                np.concatenate([old, column.to_numpy().astype(np.int64)])
                for old, column in zip(rest, batch.columns, strict=True)
            )
            end = int(np.searchsorted(person, person[-1])) if len(person) else 0
            yield person[:end], key[:end]
            rest = person[end:], key[end:]
        yield rest


def _add_choice(
    drawn: KeyTotals, person: Counts, key: Counts, weights: Counts, stream: Keystream
) -> None:
    """Add the random choices of some people, whose pairs are adjacent, to `drawn`.

    Every pair has a random word of 64 bits; a person keeps the keys with the least words.
    """
    if not len(person):
        return
    words = stream.words(len(person))
    starts = np.flatnonzero(np.r_[True, person[1:] != person[:-1]])
    sizes = np.diff(np.r_[starts, len(person)])
    most = len(weights) - 1
    kept = np.repeat(np.minimum(sizes, most), sizes)
    if sizes.max() > most:
        order = np.lexsort((words, person))
        rank = np.arange(len(person)) - np.repeat(starts, sizes)
        chosen = rank < most
        key, kept = key[order][chosen], kept[chosen]
    size = len(drawn.people)
    drawn.people[:] += np.bincount(key, minlength=size)
    for count in np.unique(kept).tolist():
        if weight := int(weights[count]):
            drawn.sums[:] += weight * np.bincount(key[kept == count], minlength=size)


class CellKeysCounter:
    """Keys that are cells of a table of counts, in which every person has one."""

    def __init__(self, labels: list[pa.Array], counts: Counts) -> None:
        self._cells = np.flatnonzero(counts)
        self._counts = counts[self._cells]
        self._labels = labels

    def close(self) -> None:
        """Do nothing: the counts belong to the table."""

    def __len__(self) -> int:
        return len(self._cells)

    def values(self, keys: Counts) -> list[pa.Array]:
        """Return the values of these keys, one array for each column."""
        shape = [len(each) for each in self._labels]
        places = np.unravel_index(self._cells[keys], shape)
        return [
            each.take(pa.array(place)) for each, place in zip(self._labels, places, strict=True)
        ]

    def draw(self, weights: Counts, stream: Keystream, among: Mask | None = None) -> KeyTotals:
        """Return the counts and sums: there is nothing to choose. See `KeyCounter`."""
        people = self._counts if among is None else np.where(among, self._counts, 0)
        return KeyTotals(people, people * int(weights[1]))


# --- reading -------------------------------------------------------------------------------------


def key_tables(rows: Rows, names: Sequence[str], person: str | None) -> Iterator[pa.Table]:
    """Yield the person and the key of all rows that have a key.

    A row with a missing value has none. A value that cannot be published is an error, or its row
    has no key, as `outside` says.
    """
    rows.outside_columns.clear()
    rows.outside_counts.clear()
    start, fields = rows.source.first, [*rows.source_columns(names), *([person] if person else [])]
    empty = True
    for _, batch in rows.source.unit_batches(fields):
        columns, kept = [], np.ones(batch.num_rows, bool)
        for name in names:
            read = partial(_read, rows, name, batch.column(name))
            values, wrong = read_safely(f"Column '{name}'", read)
            if wrong.any():
                _refuse(rows, name, wrong, start)
            columns.append(values)
            kept &= values.is_valid().to_numpy(zero_copy_only=False)
        who = _people(rows, person, batch, start)
        kept &= who.is_valid().to_numpy(zero_copy_only=False)
        kept &= ~rows.keyless(batch, names, start)
        yield _table(who, columns).filter(pa.array(kept))
        empty = False
        start += batch.num_rows
        if rows.progress is not None:
            rows.progress(start)
    if empty:
        yield no_keys(rows, names)


def no_keys(rows: Rows, names: Sequence[str]) -> pa.Table:
    """Return the table of no rows."""
    kinds = [rows.schema[name].arrow_type for name in names]
    return _table(pa.array([], pa.int64()), [pa.array([], kind) for kind in kinds])


def _table(who: pa.Array, columns: Sequence[pa.Array]) -> pa.Table:
    return pa.table([who, *columns], ["person", *map(_column, range(len(columns)))])


def _column(place: int) -> str:
    """The name in DuckDB of a column of the key, whatever it is called in the table."""
    return f"c{place}"


def _read(rows: Rows, name: str, column: pa.Array) -> tuple[pa.Array, Any]:
    """Return the values of a column, null where there is none, and a mask of those outside."""
    attribute = rows.schema[name]
    if isinstance(attribute.domain, OpenCategory):
        return attribute.domain.read(column, attribute.null_words)
    codes, outside = attribute.encode(column)
    values = attribute.decode(codes)
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    return pc.if_else(pa.array(outside), None, values), outside


def _refuse(rows: Rows, name: str, wrong: Any, start: int) -> None:
    """Raise the error about a value outside, or note it."""
    if rows.outside != "error":
        rows._note(name, wrong)
        return
    row = start + int(np.argmax(wrong)) + 1
    raise DomainError(
        f"Column '{name}', row {row}: the value is no text that can be published, or outside the "
        f"domain ({rows.schema[name].describe()}). Choose {setting('outside', 'drop')} to leave "
        "such rows out.",
        column=name,
        row=row,
    )


def _people(rows: Rows, person: str | None, batch: pa.RecordBatch, start: int) -> pa.Array:
    """Return who each row is about: an identifier in canonical form, or the number of the row."""
    if person is None:
        return pa.array(np.arange(start, start + batch.num_rows))
    column = batch.column(person)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    who = pc.cast(identifiers(column), pa.binary())
    nobody = pc.is_null(who).to_numpy(zero_copy_only=False)
    if nobody.any():
        if rows.outside == "error":
            row = start + int(np.argmax(nobody)) + 1
            raise DomainError(
                f"Column '{person}', row {row}: there is no identifier, so it is unknown whose key "
                f"it is. Choose {setting('outside', 'drop')} to leave such rows out.",
                column=person,
                row=row,
            )
        rows._note(person, nobody)
    return who
