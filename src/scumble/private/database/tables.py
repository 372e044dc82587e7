"""The private side of a database: its folder and key, batches of rows, exact counts over boxes."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import errors
from scumble.model.errors import (
    LedgerError,
    ParameterError,
    PromiseError,
    SchemaError,
    SourceError,
)
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.schema import Schema
from scumble.model.schema.toml import ROLES
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.space import Box, Boxes, Space
from scumble.private.database.state import DatabaseState
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import APPEND, Entry, check_word
from scumble.private.journal.journal import Journal, Turn, refuse_existing
from scumble.private.journal.store import Place, resolve
from scumble.private.tables.check import remarks_on_unit
from scumble.private.tables.counter import cell_codes
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.private.tables.sorted_keys import sort_keys
from scumble.public.archive.files import sync

Progress = Callable[[int], None]


@dataclass(frozen=True)
class CodedRows:
    """A file that `BoxCounter.save` wrote: the rows of a table as codes."""

    path: Path


@dataclass(frozen=True)
class SourceTable:
    """A private table: where it is, and the callback that is told how many rows were read."""

    source: Any
    table: str | None = None
    progress: Progress | None = None

    @classmethod
    def of(cls, batch: Any, progress: Progress | None = None) -> SourceTable:
        """Return the table of a batch: a source, or a pair of a DuckDB file and a table name."""
        if isinstance(batch, tuple) and len(batch) == 2:
            return cls(*batch, progress)
        return cls(batch, None, progress)

    def read(self, schema: Schema, outside: Outside) -> BoxCounter:
        if isinstance(self.source, CodedRows):
            return BoxCounter.load(self.source.path, schema)
        source = open_source(self.source, table=self.table)
        rows = Rows(source, schema, outside=outside, progress=self.progress)
        return BoxCounter.over(rows, _names(schema))

    def remarks(self, schema: Schema) -> tuple[str, ...]:
        """Return remarks for the owner on identifiers that repeat."""
        if isinstance(self.source, CodedRows):
            return ()
        return remarks_on_unit(open_source(self.source, table=self.table), schema)


def check_new(folder: str | Path, schema: Schema, terms: DatabaseTerms) -> Place:
    """Return where a database is to be created. What can be refused without its rows is refused."""
    place = resolve(folder)
    refuse_existing(place)
    DatabaseState(terms, Space(schema, _names(schema)))
    return place


def create_folder(
    place: Place, table: SourceTable, schema: Schema, terms: DatabaseTerms, outside: Outside
) -> tuple[Journal, dict[str, BoxCounter]]:
    """Create the folder of a database, at a place that was checked."""
    counter = table.read(schema, outside)
    # The key of the fingerprints. Somebody with a fingerprint, its key and all rows but one could
    # try out the last one. So the key is not in the journal, which auditors may get.
    key = secrets.token_bytes(32)
    promise: dict[str, Any] = {
        "terms": terms.to_dict(),
        "attributes": _names(schema),
        "schema": schema.to_dict(),
        "outside": outside,
        "data": counter.fingerprint(key),
    }
    return Journal.create(place, promise, secret=key), {promise["data"]: counter}


def open_folder(
    folder: str | Path, table: SourceTable, batches: Sequence[SourceTable], schema: Schema | None
) -> tuple[Journal, dict[str, BoxCounter]]:
    """Open the journal in a folder. Return it, and all tables by their fingerprints.

    A table or batch other than those the folder was made for is refused.
    """
    journal = Journal.open(folder)
    try:
        refuse_live(journal)
        promise = journal.promise
        known = Schema.from_dict(journal.promised("schema"))
        given = known if schema is None else queryable_schema(schema, promise["attributes"])
        journal.expect({**promise, "schema": given.to_dict()})
        added = [entry.unchanged() for entry in journal.entries(kind=APPEND)]
        if len(added) != len(batches):
            raise LedgerError(_other_number(journal, len(added), len(batches)))
        secret = journal.secret()
        counter = table.read(known, promise["outside"])
        journal.expect({**promise, "data": counter.fingerprint(secret)})
        more = [each.read(known, promise["outside"]) for each in batches]
        tables = {promise["data"]: counter, **tables_by_fingerprint(added, more, secret)}
    except BaseException:
        journal.close()
        raise
    return journal, tables


def refuse_live(journal: Journal) -> None:
    """Raise `LedgerError` for a database that was made with a delta."""
    if "edition" in journal.promise:
        raise LedgerError(
            f"{journal} is a live database with a delta, which buys accuracy: open it by "
            "LiveDatabase.open, or ask it by `scumble ask`. Rows cannot be added to it."
        )


def read_batch(journal: Journal, table: SourceTable) -> NewBatch:
    """Read rows that are to be appended, in the way the table was read."""
    promise = journal.promise
    counter = table.read(Schema.from_dict(promise["schema"]), promise["outside"])
    return NewBatch.of(counter, journal.secret())


def append_rows(
    folder: str | Path, table: SourceTable, key: str | None = None, *, again: bool = False
) -> int:
    """Append rows to the database in a folder, and return the number of their batch.

    The earlier rows are not needed. Rows that are in the database already are refused, unless
    `again` is true.
    """
    check_word("key", key)
    with Journal.open(folder) as journal:
        refuse_live(journal)
        rows = read_batch(journal, table)
        with journal.turn() as turn:
            added = [entry for entry in turn.new_entries() if entry.kind == APPEND]
            if not again and (key is None or turn.find(key) is None):
                rows.refuse_repeated(journal.promise["data"], added)
            return int(rows.write_entry(turn, key, len(added) + 2).payload["batch"])


def _other_number(journal: Journal, added: int, given: int) -> str:
    return (
        f"Batches of rows that were added to the database in {journal}: {added}. Batches that are "
        f"given: {given}. Give all of them as {errors.named('batches')}, in the order in which "
        "they were added."
    )


def load_schema(schema: Schema | str | Path) -> Schema:
    """Return a schema, or the one in a file."""
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("Database", "schema", "a Schema or the path of one", schema)
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def queryable_schema(schema: Schema, attributes: Sequence[str] | None) -> Schema:
    """Return the schema of the attributes that questions may name, in the order of the schema.

    Numbers have amounts there and no bins: the database holds the rows, so that sums, averages and
    conditions use the amounts themselves.
    """
    if isinstance(attributes, str):
        raise ParameterError.of("Database", "attributes", "a list of names", attributes)
    if schema.unit is not None and schema.unit.person is not None:
        raise SchemaError(
            'A live database protects one row, and the schema says unit = "person". Publish a '
            "release that counts, such as Histogram or Synthesis: it protects all rows of a person."
        )
    wanted = [each.name for each in schema.published] if attributes is None else attributes
    schema = schema.with_derived(wanted)
    for name in wanted:
        if schema[name].domain is None:  # a name that is not there has its own sentence
            allowed = "attributes with a domain; identifiers cannot be asked about"
            raise ParameterError.of("Database", "attributes", allowed, name)
        _ = schema[name].size  # raises SchemaError, with advice, for lists
    bases = {base.name for name in wanted if (base := schema.derived_from(name)) is not None}
    named = schema.select([name for name in schema.names if name in wanted or name in bases])
    return named.with_amounts(ROLES)


def _names(schema: Schema) -> list[str]:
    """Return the attributes that questions may name: all but the lists that some derive from."""
    return [attribute.name for attribute in schema.published]


# --- appended rows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewBatch:
    """Rows that are to be appended, read and encoded. The journal has their fingerprint.

    Anybody who could compare a made-up batch with those that are there would learn from a refusal
    whether it is one of them. So rows are compared only with the entry that a retry names, and by
    the holder of the key of the folder, who could do the same without this program.
    """

    counter: BoxCounter
    secret: bytes  # the key of the folder
    salt: str
    data: str  # their fingerprint with this salt

    @classmethod
    def of(cls, counter: BoxCounter, secret: bytes) -> NewBatch:
        salt = secrets.token_hex(16)
        return cls(counter, secret, salt, fingerprint(counter, secret, salt))

    def refuse_repeated(self, table: str, batches: Sequence[Entry]) -> None:
        """Raise `PromiseError` if the rows equal the table or a batch.

        As a rule these are the same people, appended by mistake.
        """
        same = [1] if self.counter.fingerprint(self.secret) == table else []
        same += [
            each.payload["batch"]
            for each in batches
            if matches_rows(each, self.counter, self.secret)
        ]
        if same:
            raise PromiseError(
                f"These rows are in the database already, as batch {same[0]}, and nobody may be in "
                "two batches. Nothing was added. If they are other people who happen to have the "
                f"same values, say {errors.setting('again', True)}."
            )

    def write_entry(self, turn: Turn, key: str | None, number: int) -> Entry:
        """Return the entry of the batch: a new one with this number, or the one with the key."""
        stored = None if key is None else turn.find(key)
        if stored is None:
            payload = {"batch": number, "salt": self.salt, "data": self.data}
            return turn.append(APPEND, payload, key)
        if stored.kind != APPEND or not matches_rows(stored, self.counter, self.secret):
            raise ParameterError.of("append", "key", "a new one for other rows", key)
        return stored


def tables_by_fingerprint(
    entries: Sequence[Entry], tables: Sequence[BoxCounter], secret: bytes
) -> dict[str, BoxCounter]:
    """Return the tables of batches by fingerprint. Tables other than the entries' are refused."""
    for entry, table in zip(entries, tables, strict=True):
        if not matches_rows(entry, table, secret):
            raise LedgerError(
                f"Batch {entry.payload['batch']} was made of other rows than those that are given. "
                "Give the batches as they were added, in their order."
            )
    return {entry.payload["data"]: table for entry, table in zip(entries, tables, strict=True)}


def matches_rows(entry: Entry, table: BoxCounter, secret: bytes) -> bool:
    """Whether an entry of an appended batch is about these rows."""
    payload = entry.payload
    return bool(fingerprint(table, secret, payload["salt"]) == payload["data"])


def fingerprint(table: BoxCounter, secret: bytes, salt: str) -> str:
    """Return a digest of the rows of a batch.

    Each batch has its own salt, so that the journal does not show whether two batches are equal.
    """
    key = hashlib.blake2b(bytes.fromhex(salt), key=secret, digest_size=32).digest()
    return table.fingerprint(key)


def missing_batch(number: int) -> LedgerError:
    """The error for a batch whose rows this program was not given."""
    return LedgerError(
        f"Rows were added to this database as batch {number}, which this program was not given. "
        f"Open it again with all {errors.named('batches')}."
    )


# --- exact counts ---------------------------------------------------------------------------------

Codes = npt.NDArray[np.unsignedinteger]
Integers = npt.NDArray[np.int64]

MOST_CELLS = 1 << 23  # of a table of cumulative counts: 64 MiB
_MOST_VALUES = 1 << 12  # of an attribute in such a table
_MOST_CORNERS = 1 << 10  # of a box; with more, comparing all rows is faster
_PIECE = 1 << 20  # rows that are looked at together: what a question takes does not grow with rows
_HALF = 1 << 26  # amounts are added up in two halves, which no number of rows makes overflow


class BoxCounter:
    """Exact counts and sums over boxes of a table, which is held as codes of some attributes.

    Where the space is small, a table of cumulative counts gives the count of any box in a few
    look-ups. It leaves out attributes of very many values, such as amounts: boxes that limit these,
    and all boxes of a large space, are compared with all rows, so that the time does not depend on
    the rows.
    """

    def __init__(
        self,
        columns: Iterable[Codes],
        sizes: Iterable[int],
        *,
        ordered: bool = False,
        limited: int | None = None,
    ) -> None:
        """`ordered` says that the rows are in the order of their codes. Boxes limit the first
        `limited` columns, or all.
        """
        self._columns = list(columns)
        self._sizes = tuple(sizes)
        self._ordered = ordered
        self.rows = len(self._columns[0])
        self._few = [*range(len(self._sizes) if limited is None else limited)]
        if not self._is_small():
            self._few = [axis for axis in self._few if self._sizes[axis] <= _MOST_VALUES]
        self._cumulative = self._cumulated() if self._few and self._is_small() else None

    def _is_small(self) -> bool:
        """Whether there is a table of cumulative counts of the attributes `_few`."""
        points: int = prod(self._sizes[axis] + 1 for axis in self._few)
        return points <= MOST_CELLS

    @classmethod
    def over(cls, rows: Rows, names: Iterable[str], summed: Sequence[str] = ()) -> BoxCounter:
        """Read all rows. Values outside their domain are treated as `rows` says. Boxes limit the
        columns `names`; after them come the amounts of the columns `summed`.
        """
        listed = list(names)
        read = list(dict.fromkeys([*listed, *summed]))
        places = [read.index(name) for name in (*listed, *summed)]
        amounts = rows.with_amounts(summed)
        batches = list(amounts.batches(read))
        attributes = [rows.schema[name] for name in listed]
        attributes += [amounts.schema[name] for name in summed]
        columns = [
            np.concatenate([np.empty(0, attribute.code_type), *(batch[at] for batch in batches)])
            for at, attribute in zip(places, attributes, strict=True)
        ]
        for at, name in enumerate(listed):
            if name in summed:  # it was read in steps
                columns[at] = cell_codes(attributes[at], columns[at])
        sizes = [attribute.size for attribute in attributes]
        return cls(columns, sizes, limited=len(listed))

    @classmethod
    def load(cls, path: Path, schema: Schema) -> BoxCounter:
        """Map the rows that `save` wrote: the system reads them as they are needed, and they take
        as much memory as it can spare.
        """
        attributes = [schema[name] for name in _names(schema)]
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
            kinds = [pa.from_numpy_dtype(each.code_type) for each in attributes]
            if batch.schema != pa.schema(zip(_names(schema), kinds, strict=True)):
                raise ValueError("it has other columns")
            columns = [column.to_numpy() for column in batch.columns]
        except (OSError, ValueError, pa.ArrowException):
            raise LedgerError(f"{path} cannot be read. Restore it from a copy.") from None
        return cls(columns, [each.size for each in attributes], ordered=True)

    def save(self, path: Path, schema: Schema, most: int) -> None:
        """Write the rows in the order of their codes into a new file that only this user can read.

        Raises `SourceError` if they take more than `most` bytes.
        """
        if sum(column.nbytes for column in self._columns) > most:
            raise SourceError(
                "The rows of this table would take more of the disk than is left for tables. "
                "Delete others first, or keep fewer columns."
            )
        keys = CellKeys(self._sizes)
        ordered = keys.unpack(
            sort_keys(keys.pack(self._columns), reuse=True), [c.dtype for c in self._columns]
        )
        batch = pa.record_batch(ordered, names=_names(schema))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)
        sync(path)
        sync(path.parent)

    def counts(self, boxes: Boxes) -> list[int]:
        """Return the number of rows in each box."""
        table = self._cumulative
        many = [axis for axis in range(len(self._sizes)) if axis not in self._few]
        whole = [[0, self._sizes[axis] - 1] for axis in many]
        limited = bool(many) and bool((boxes[:, many] != whole).any())
        corners = 1 << int((boxes[:, :, 0] > 0).any(axis=0).sum())
        if table is None or limited or corners > _MOST_CORNERS:
            return [
                sum(int(np.count_nonzero(self._inside(box, part))) for part in self._pieces())
                for box in boxes
            ]
        cells, boxes = table.reshape(-1), boxes[:, self._few]
        return [
            sum(map(cells.item, added)) - sum(map(cells.item, taken))
            for added, taken in map(self._corners, boxes.tolist())
        ]

    def sums(self, boxes: Boxes, amounts: Amounts) -> list[int]:
        """Return for each box the sum of the amounts of its rows, times their scale."""
        high, low = np.divmod(amounts.values, _HALF)
        found = [0] * len(boxes)
        for part in self._pieces():
            cells = np.zeros(part.stop - part.start, np.int64)
            for axis, size in zip(amounts.axes, amounts.sizes, strict=True):
                cells = cells * size + self._columns[axis][part]
            high_of_rows, low_of_rows = high[cells], low[cells]
            for place, box in enumerate(boxes):
                # A factor: the time of a selection would depend on its size.
                inside = self._inside(box, part)
                found[place] += int((high_of_rows * inside).sum()) * _HALF
                found[place] += int((low_of_rows * inside).sum())
        return found

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the rows, whatever their order."""
        digest = hashlib.blake2b(repr(self._sizes).encode(), key=key, digest_size=16)
        if self._ordered:
            for part in self._pieces():
                digest.update(self._keys(part).data)
        else:
            keys = sort_keys(self._keys(slice(0, self.rows)), reuse=True)
            digest.update(np.ascontiguousarray(keys).data)
        return digest.hexdigest()

    def _keys(self, part: slice) -> npt.NDArray[np.uint64]:
        """Return some rows as single integers, or several of them, by which rows are ordered."""
        return CellKeys(self._sizes).pack([column[part] for column in self._columns])

    def _pieces(self, least: int = 0) -> Iterator[slice]:
        """Yield all rows in pieces, in their order."""
        size = max(least, _PIECE)
        for start in range(0, self.rows, size):
            yield slice(start, min(start + size, self.rows))

    def _inside(self, box: Box, part: slice) -> npt.NDArray[np.bool_]:
        """Return which of some rows are in a box."""
        inside = np.ones(part.stop - part.start, bool)
        for column, size, (low, high) in zip(self._columns, self._sizes, box.tolist(), strict=True):
            if (low, high) != (0, size - 1):
                inside &= (column[part] >= low) & (column[part] <= high)
        return inside

    def _corners(self, box: list[list[int]]) -> tuple[list[int], list[int]]:
        """Return the indices, in the cumulative table, of a box's corners to add and to subtract.

        Most questions have one box with a few corners, for which lists are faster than arrays.
        """
        added, taken = [0], list[int]()
        for size, (low, high) in zip([self._sizes[axis] for axis in self._few], box, strict=True):
            one = [place * (size + 1) + high + 1 for place in added]
            other = [place * (size + 1) + high + 1 for place in taken]
            if low:  # there is nothing below a box that begins at 0
                one += [place * (size + 1) + low for place in taken]
                other += [place * (size + 1) + low for place in added]
            added, taken = one, other
        return added, taken

    def _cumulated(self) -> Integers:
        """The counts of rows below each point, with zeros at the start of each axis."""
        sizes = [self._sizes[axis] for axis in self._few]
        keys, total = CellKeys(sizes), prod(sizes)
        cells = np.zeros(total, np.int64)
        for part in self._pieces(total):
            packed = keys.pack([self._columns[axis][part] for axis in self._few])
            cells += np.bincount(packed.view(np.int64), minlength=total)
        table = np.zeros([size + 1 for size in sizes], np.int64)
        table[(slice(1, None),) * len(sizes)] = cells.reshape(sizes)
        for axis in range(len(sizes)):
            np.cumsum(table, axis=axis, out=table)
        return table
