"""The files of an Aroma release: rows with their bags, and a private book if it is to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.evidence.channels import BagChannel
from scumble.model.evidence.evidence import Records
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.aroma_bags import draw, draw_nested
from scumble.private.perturbation.aroma_book import BOOK, BookWriter
from scumble.private.perturbation.bag_columns import bag_attributes, bag_channel
from scumble.private.sampling.source import Source
from scumble.private.tables.rows import Rows
from scumble.private.tables.writer import RECORDS, ViewWriter

_COMPRESSION = "zstd"  # bags are small numbers, which it packs into half of what others need

Codes = npt.NDArray[Any]
# Identifiers (nulls without a book), the columns that stay as they are, and the true values.
Batch = tuple[pa.Array, list[Codes], Codes]


def write(law: PoolLaw, rows: Rows, identifier: str | None, noise: Source, folder: Path) -> Records:
    """One view, and its book if records have an identifier."""
    channel = _channel(rows.schema, law)
    columns = shown_attributes(rows.schema, channel)
    with ExitStack() as stack:
        view = stack.enter_context(view_writer(folder, columns))
        book = None
        if identifier is not None:
            book = stack.enter_context(BookWriter(folder / BOOK, columns))
        for people, others, true in batches(rows, identifier):
            shown = [*others, *draw(noise, law, true).T]
            view.add(shown)
            if book is not None:
                book.add(people, true, np.ones(len(true), bool), shown)
    _remark(rows, folder, channel)
    return _records(rows.schema, channel, view.rows)


def write_levels(
    laws: Sequence[PoolLaw], rows: Rows, noise: Source, folders: Mapping[int, Path]
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
    radix = schema.radix(sensitive)
    stream: Iterator[tuple[pa.Array, list[Codes]]]
    if identifier is None:
        stream = ((pa.nulls(len(codes[0])), codes) for codes in rows.batches(names))
    else:
        stream = rows.identified(identifier, names)
    for people, codes in stream:
        yield people, codes[: len(others)], radix.pack(codes[len(others) :]).astype(np.int64)


def shown_attributes(schema: Schema, channel: BagChannel) -> tuple[Attribute, ...]:
    """The columns of the file."""
    others = [attribute for attribute in schema.published if attribute.role != "sensitive"]
    return (*others, *bag_attributes(channel, most=channel.law.size))


def view_writer(folder: Path, attributes: Sequence[Attribute]) -> ViewWriter:
    """The writer of the one file."""
    return ViewWriter(folder / RECORDS, attributes, compression=_COMPRESSION)


def _channel(schema: Schema, law: PoolLaw) -> BagChannel:
    """How bags are published."""
    return bag_channel(schema, law)


def _records(schema: Schema, channel: BagChannel, rows: int) -> Records:
    """What is published: all attributes can be asked about."""
    return Records(RECORDS, tuple(a.name for a in schema.published), (channel,), rows)


def bytes_per_row(path: Path, channel: BagChannel) -> float:
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


def _remark(rows: Rows, folder: Path, channel: BagChannel) -> None:
    size = bytes_per_row(folder / RECORDS, channel)
    rows.remark(f"The {channel.law.size} values of a row take {size:.1f} bytes in the file.")
