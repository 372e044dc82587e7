"""Aroma releases that go on: records come, go, and come back as they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, ReleaseError, SourceError
from scumble.model.evidence.channels import BagChannel
from scumble.model.evidence.evidence import Records
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.schema.cell_keys import Radix
from scumble.private.perturbation.aroma_bags import draw
from scumble.private.perturbation.aroma_book import BOOK, Book, BookWriter
from scumble.private.perturbation.aroma_views import Batch, batches, shown_attributes, view_writer
from scumble.private.sampling.source import Source
from scumble.private.tables.persons import identifiers
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import in_order

_OTHER = (
    "The book does not fit the release: it lists other records. Give the book that was saved with "
    "this release; if saving was interrupted, it lies beside the old one, its name begins with a "
    "dot and ends with .new."
)

Codes = npt.NDArray[Any]


def insert(
    evidence: Records,
    published: Path,
    rows: Rows,
    identifier: str,
    noise: Source,
    path: Path,
    folder: Path,
) -> Records:
    """View and book with further records: old bags for those that have an entry, new ones else."""
    [channel] = evidence.channels
    if not isinstance(channel, BagChannel) or not isinstance(channel.law, PoolLaw):
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
    with BookWriter(folder / BOOK, book.attributes) as writer:
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
    with BookWriter(folder / BOOK, book.attributes) as writer:
        writer.add(book.people, book.true, book.present, book.shown)
    with view_writer(folder, book.attributes) as view:
        view.add(book.shown_now())
    return replace(evidence, rows=view.rows)


def _checked(path: Path, view: Path) -> Book:
    """The book, refused unless it lists just what the release shows."""
    book = Book(path)
    published = pq.read_table(view, partitioning=None)
    names = [attribute.name for attribute in book.attributes]
    if published.column_names != names:
        raise ReleaseError(_OTHER)
    radix = Radix([attribute.size for attribute in book.attributes])
    shown = [attribute.encode(published[attribute.name])[0] for attribute in book.attributes]
    if not np.array_equal(in_order(radix.pack(shown)), in_order(radix.pack(book.shown_now()))):
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


def _entries(book: Book, people: pa.Array, true: Codes) -> npt.NDArray[np.int64]:
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
