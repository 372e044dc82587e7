"""Bags written, private book, updates.

The files of an Aroma release: rows with their bags, and a private book if it is to go on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, ReleaseError, SourceError
from scumble.model.evidence.channels import MultisetChannel, PoolLaw
from scumble.model.evidence.evidence import Records
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.subset import bag_attributes, bag_channel, counted
from scumble.private.sampling.pools import Pool
from scumble.private.sampling.source import Keystream
from scumble.private.tables.rows import Rows, identifiers
from scumble.private.tables.sorted_keys import sort_keys
from scumble.private.tables.writer import RECORDS, ViewWriter

_COMPRESSION = "zstd"  # bags are small numbers, which it packs into half of what others need

Codes = npt.NDArray[Any]
# Identifiers (nulls without a book), the columns that stay as they are, and the true values.
Batch = tuple[pa.Array, list[Codes], Codes]


def write(
    law: PoolLaw, rows: Rows, identifier: str | None, noise: Keystream, folder: Path
) -> Records:
    """One view, and its book if records have an identifier."""
    channel = _channel(rows.schema, law)
    columns = shown_attributes(rows.schema, channel)
    with ExitStack() as stack:
        view = stack.enter_context(view_writer(folder, columns))
        book = None
        if identifier is not None:
            book = stack.enter_context(PrivateRecordWriter(folder / BOOK, columns))
        for people, others, true in batches(rows, identifier):
            shown = [*others, *draw(noise, law, true).T]
            view.add(shown)
            if book is not None:
                book.add(people, true, np.ones(len(true), bool), shown)
    _remark(rows, folder, channel)
    return _records(rows.schema, channel, view.rows)


def write_levels(
    laws: Sequence[PoolLaw], rows: Rows, noise: Keystream, folders: Mapping[int, Path]
) -> dict[int, Records]:
    """Views of one pass over the rows, the bags of each within those of the next."""
    sizes = [law.size for law in laws]
    channels = [_channel(rows.schema, law) for law in laws]
    with ExitStack() as stack:
        views = [
            stack.enter_context(view_writer(folders[size], shown_attributes(rows.schema, channel)))
            for size, channel in zip(sizes, channels, strict=True)
        ]
        for _, others, true in batches(rows, None):
            bags = draw_nested(noise, laws[-1], true, sizes)
            for view, bag in zip(views, bags, strict=True):
                view.add([*others, *bag.T])
    return {
        size: _records(rows.schema, channel, view.rows)
        for size, channel, view in zip(sizes, channels, views, strict=True)
    }


def batches(rows: Rows, identifier: str | None) -> Iterator[Batch]:
    """The rows, their sensitive values as one."""
    schema = rows.schema
    sensitive = [attribute.name for attribute in schema.sensitive]
    others = [a.name for a in schema.published if a.role != "sensitive"]
    names = [*others, *sensitive]
    radix = schema.cell_keys(sensitive)
    stream: Iterator[tuple[pa.Array, list[Codes]]]
    if identifier is None:
        stream = ((pa.nulls(len(codes[0])), codes) for codes in rows.batches(names))
    else:
        stream = rows.identified(identifier, names)
    for people, codes in stream:
        yield people, codes[: len(others)], radix.pack(codes[len(others) :]).astype(np.int64)


def shown_attributes(schema: Schema, channel: MultisetChannel) -> tuple[Attribute, ...]:
    """The columns of the file."""
    others = [attribute for attribute in schema.published if attribute.role != "sensitive"]
    return (*others, *bag_attributes(channel, most=channel.law.size))


def view_writer(folder: Path, attributes: Sequence[Attribute]) -> ViewWriter:
    """The writer of the one file."""
    return ViewWriter(folder / RECORDS, attributes, compression=_COMPRESSION)


def _channel(schema: Schema, law: PoolLaw) -> MultisetChannel:
    """How bags are published."""
    return bag_channel(schema, law)


def _records(schema: Schema, channel: MultisetChannel, rows: int) -> Records:
    """What is published: all attributes can be asked about."""
    return Records(RECORDS, tuple(a.name for a in schema.published), (channel,), rows)


def bytes_per_row(path: Path, channel: MultisetChannel) -> float:
    """What the bags of a file take, by its own account."""
    metadata = pq.read_metadata(path)
    taken: int = 0
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        for place in range(columns.num_columns):
            if columns.column(place).path_in_schema in channel.columns:
                taken += columns.column(place).total_compressed_size
    rows: int = metadata.num_rows
    return taken / max(1, rows)


def _remark(rows: Rows, folder: Path, channel: MultisetChannel) -> None:
    size = bytes_per_row(folder / RECORDS, channel)
    rows.remark(f"The {channel.law.size} values of a row take {size:.1f} bytes in the file.")


# Bags: the true value of a row among draws from a pool.

# One row a bag: a count for each value, or one code for each member.
Bags = npt.NDArray[Any]


def draw(noise: Keystream, law: PoolLaw, true: Codes) -> Bags:
    """A bag for every true value; all draws are made again for a bag beyond its caps."""
    [bags] = draw_nested(noise, law, true, [law.size])
    rows = np.flatnonzero(_beyond(law, bags))
    while len(rows):
        [again] = draw_nested(noise, law, true[rows], [law.size])
        bags[rows] = again
        rows = rows[_beyond(law, again)]
    return bags


def draw_nested(
    noise: Keystream, law: PoolLaw, true: Codes, sizes: Sequence[int]
) -> Iterator[Bags]:
    """For each size, ascending, bags of the true value and the first draws: each within the
    next.
    """
    pool, counting = Pool(law.weights), counted(sizes[-1], law.values)
    bags: Bags = true[:, None]
    if counting:
        bags = np.zeros((len(true), law.values), np.min_scalar_type(sizes[-1]))
        bags[np.arange(len(true)), true] = 1
    before = 1
    for size in sizes:
        if counting:
            bags = bags + pool.counts(noise, size - before, len(true)).astype(
                bags.dtype, copy=False
            )
            yield bags if counted(size, law.values) else _listed(bags, size)
        else:
            bags = np.concatenate([bags, pool.members(noise, size - before, len(true))], axis=1)
            yield np.sort(bags, axis=1)
        before = size


def _listed(counts: Bags, size: int) -> Bags:
    """Counted bags as lists of their members, ascending."""
    values = np.arange(counts.shape[1], dtype=np.min_scalar_type(counts.shape[1]))
    return np.repeat(np.tile(values, len(counts)), counts.reshape(-1)).reshape(-1, size)


def _beyond(law: PoolLaw, bags: Bags) -> npt.NDArray[np.bool_]:
    """Which bags hold some value more often than its cap."""
    if law.caps is None:
        return np.zeros(len(bags), bool)
    caps = np.array(law.caps)
    if counted(law.size, law.values):
        return np.asarray(np.any(bags > caps, axis=1))
    beyond = np.zeros(len(bags), bool)
    for cap in {cap for cap in law.caps if cap < law.size}:
        # In ascending order, one member more than the cap ends where the same value began.
        begins = bags[:, :-cap]
        same: npt.NDArray[np.bool_] = (bags[:, cap:] == begins) & (caps[begins] == cap)
        beyond |= np.any(same, axis=1)
    return beyond


# The private book of a release that can be updated: who was published, with which true value, and
# what was shown.

BOOK = "book.parquet"  # its name in a folder that was not saved yet
_KEY = b"scumble book"
_OWN = 3  # columns before those that are shown


class PrivateRecordWriter:
    """Writes a book that only its owner can read."""

    def __init__(self, path: Path, attributes: Sequence[Attribute]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._schema = _schema(attributes)
        self._writer = pq.ParquetWriter(self._file, self._schema)

    def __enter__(self) -> PrivateRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._file.close()

    def add(
        self,
        people: pa.Array,
        true: Codes,
        present: npt.NDArray[np.bool_],
        shown: Sequence[Codes],
    ) -> None:
        """Add records: who, the code of the true value, whether they are in the release, and the
        codes of all columns that they show.
        """
        columns = [people, true, present, *shown]
        arrays = [
            pa.array(column).cast(field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class PrivateRecord:
    """A book in memory. A record has an entry for each true value that it ever had in the release,
    and at most one of them is present.
    """

    def __init__(self, path: Path) -> None:
        try:
            table = pq.read_table(path, partitioning=None)
            written = json.loads(table.schema.metadata[_KEY])
            self.attributes = Schema.from_dict(written).attributes
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise ReleaseError("The book cannot be read: it is damaged, or no book.") from None
        self.people = pa.concat_arrays(table["id"].chunks or [pa.array([], pa.large_binary())])
        self.true: Codes = table["true"].to_numpy()
        self.present: npt.NDArray[np.bool_] = table["present"].to_numpy().copy()
        self.shown: list[Codes] = [
            table.column(place).to_numpy().astype(attribute.code_type)
            for place, attribute in enumerate(self.attributes, start=_OWN)
        ]

    def here(self) -> pa.Array:
        """Who is in the release."""
        return self.people.filter(pa.array(self.present))

    def shown_now(self) -> list[Codes]:
        """What the release shows, by column."""
        return [column[self.present] for column in self.shown]

    def show(self, entries: npt.NDArray[Any], columns: Sequence[Codes]) -> None:
        """Let entries come back, with these columns."""
        self.present[entries] = True
        for column, new in zip(self.shown, columns, strict=True):
            column[entries] = new


def _schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """Columns by place, since a published one may be called as one of the book's own."""
    own = [("id", pa.large_binary()), ("true", pa.uint32()), ("present", pa.bool_())]
    shown = [(f"shown {place}", pa.uint64()) for place in range(len(attributes))]
    written = json.dumps(Schema(tuple(attributes)).to_dict()).encode()
    return pa.schema([*own, *shown], metadata={_KEY: written})


# Aroma releases that go on: records come, go, and come back as they were.

_OTHER = (
    "The book does not fit the release: it lists other records. Give the book that was saved with "
    "this release; if saving was interrupted, it lies beside the old one, its name begins with a "
    "dot and ends with .new."
)


def insert(
    evidence: Records,
    published: Path,
    rows: Rows,
    identifier: str,
    noise: Keystream,
    path: Path,
    folder: Path,
) -> Records:
    """View and book with further records: old bags for those that have an entry, new ones else."""
    [channel] = evidence.channels
    if not isinstance(channel, MultisetChannel) or not isinstance(channel.law, PoolLaw):
        raise ReleaseError("Only a release by Aroma can be updated.")
    book = _checked(path, published / evidence.file)
    if book.attributes != shown_attributes(rows.schema, channel):
        raise ReleaseError(_OTHER)
    people, others, true = _joined(rows, identifier)
    entries = _entries(book, people, true)
    known = entries >= 0
    bags = draw(noise, channel.law, true)
    bags[known] = np.stack(book.shown[len(others) :], axis=1)[entries[known]]
    shown = [*others, *bags.T]
    book.show(entries[known], [column[known] for column in shown])
    fresh = [column[~known] for column in shown]
    with PrivateRecordWriter(folder / BOOK, book.attributes) as writer:
        writer.add(book.people, book.true, book.present, book.shown)
        present = np.ones(len(fresh[0]), bool)
        writer.add(people.filter(pa.array(~known)), true[~known], present, fresh)
    with view_writer(folder, book.attributes) as view:
        view.add(book.shown_now())
        view.add(fresh)
    return replace(evidence, rows=view.rows)


def delete(
    evidence: Records, published: Path, ids: Iterable[Any], path: Path, folder: Path
) -> Records:
    """View and book without some records: their entries stay, so that they can come back."""
    listed = list(ids)
    if not listed:
        raise ParameterError("There are no identifiers to delete.")
    book = _checked(path, published / evidence.file)
    try:
        gone = identifiers(pa.array(listed))
    except pa.ArrowException:
        raise ParameterError("The identifiers to delete must be all text or all numbers.") from None
    if gone.null_count or not _inside(gone, book.here()).all():
        raise ParameterError(
            "Some of the identifiers to delete are not in the release. Nothing was deleted."
        )
    book.present &= ~_inside(book.people, gone)
    with PrivateRecordWriter(folder / BOOK, book.attributes) as writer:
        writer.add(book.people, book.true, book.present, book.shown)
    with view_writer(folder, book.attributes) as view:
        view.add(book.shown_now())
    return replace(evidence, rows=view.rows)


def _checked(path: Path, view: Path) -> PrivateRecord:
    """The book, refused unless it lists just what the release shows."""
    book = PrivateRecord(path)
    published = pq.read_table(view, partitioning=None)
    names = [attribute.name for attribute in book.attributes]
    if published.column_names != names:
        raise ReleaseError(_OTHER)
    radix = CellKeys([attribute.size for attribute in book.attributes])
    shown = [attribute.encode(published[attribute.name])[0] for attribute in book.attributes]
    if not np.array_equal(sort_keys(radix.pack(shown)), sort_keys(radix.pack(book.shown_now()))):
        raise ReleaseError(_OTHER)
    return book


def _joined(rows: Rows, identifier: str) -> Batch:
    """All rows at once."""
    found = [batch for batch in batches(rows, identifier) if len(batch[0])]
    if not found:
        raise SourceError("There are no records to insert.")
    people = pa.concat_arrays([people for people, _, _ in found])
    others = [np.concatenate(parts) for parts in zip(*(o for _, o, _ in found), strict=True)]
    return people, others, np.concatenate([true for _, _, true in found])


def _entries(book: PrivateRecord, people: pa.Array, true: Codes) -> npt.NDArray[np.int64]:
    """The entry of each record with its true value, or -1; refused for one that is there."""
    if _inside(people, book.here()).any():
        raise SourceError(
            "Some of the records to insert are in the release already; delete them first. "
            "Nothing was inserted."
        )
    entries = pc.index_in(_keys(people, true), _keys(book.people, book.true))
    found: npt.NDArray[np.int64] = entries.fill_null(-1).to_numpy().astype(np.int64)
    return found


def _keys(people: pa.Array, true: Codes) -> pa.Array:
    """A true value and a person as one text of bytes: the value in four, then the person."""
    values = pa.array(true.astype(">u4").view("V4"), pa.binary(4)).cast(pa.large_binary())
    return pc.binary_join_element_wise(values, people, pa.scalar(b"", pa.large_binary()))


def _inside(people: pa.Array, others: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(people, others).to_numpy(zero_copy_only=False)
    return found
