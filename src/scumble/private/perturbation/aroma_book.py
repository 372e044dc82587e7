"""The private book of a release that can be updated: who was published, with which true value, and
what was shown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import ReleaseError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema

BOOK = "book.parquet"  # its name in a folder that was not saved yet
_KEY = b"scumble book"
_OWN = 3  # columns before those that are shown

Codes = npt.NDArray[Any]


class BookWriter:
    """Writes a book that only its owner can read."""

    def __init__(self, path: Path, attributes: Sequence[Attribute]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._schema = _schema(attributes)
        self._writer = pq.ParquetWriter(self._file, self._schema)

    def __enter__(self) -> BookWriter:
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


class Book:
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
