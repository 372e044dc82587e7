"""Source: the interface of a private table, error messages without private content, table parts."""

from __future__ import annotations

import csv
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import ParameterError, SourceError, setting
from scumble.model.long_work import interruptible
from scumble.model.privacy.sampling import Sample
from scumble.model.schema.attribute import Attribute

BATCH_ROWS = 1 << 18
# Rows of a unit of work: of a Parquet file, the adjacent row groups that reach this number; of all
# other sources, blocks of exactly this number. A change would change what a fixed seed publishes.
UNIT_ROWS = 1 << 20

LINE_LIMIT = 2_000_000  # bytes of a line of CSV, as DuckDB sets it

_READ_ERRORS = (
    *(pa.ArrowException, OSError, ValueError, TypeError, EOFError, OverflowError),
    *(csv.Error, zlib.error),
)
_SENTENCES = (
    (r"field larger than", "a name in its header line has more than 131,072 characters"),
    (
        r"disabled (by|through) configuration|external access|in the \w+ extension|extension.*not",
        "a view or macro in it reads outside of the file, which is refused; make it a table first",
    ),
    (
        r"unicode|utf-?8",
        "it is not UTF-8 text (iconv -f windows-1252 -t utf-8 converts a Windows or Latin-1 file)",
    ),
    (r"unterminated quote", "a quote is opened and not closed"),
    (r"expected number of columns", "a line has another number of fields than the header"),
    (r"invalid state", "its lines do not all end alike (dos2unix makes them so), or it is damaged"),
    (
        r"line size|line .* too long",
        f"a line is longer than {LINE_LIMIT:,} bytes, as if a line break or a quote were missing",
    ),
    (r"not a gzipped file", "its name ends in .gz and it is not compressed; rename it"),
    (r"gzip|compressed", "its gzip compression is damaged"),
    (r"convert|expected (bytes|a string)", "its values are of several types; make them all text"),
    (r"lock|different configuration", "another connection holds it open"),
    (r"permission denied", "permission is denied"),
    (r"no such file", "a file of it is not there, or not on a machine that is to read it"),
)

Result = TypeVar("Result")


class Source(ABC):
    """A private table that can be read as a stream of Arrow record batches.

    `description` names it in messages. `rows` is its exact number of rows, if it is known without
    reading; it is private and for progress bars only. `hint` is added to the message about a
    missing column. `first` is the number of rows of the table before the first one of this source,
    for messages that name a row. `grouped` says whether its rows are baskets, `part` which part of
    a table it is, and `sample` how its people were drawn, if they were.
    """

    description: str
    columns: list[str]
    rows: int | None = None
    hint: str = ""
    first: int = 0
    grouped: bool = False
    sample: Sample | None = None

    @property
    def part(self) -> PartOfSource | None:
        return None

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns in the order of the rows, in batches of at most `BATCH_ROWS` rows."""

    def unit_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches with the number of the unit of work that each belongs to.

        Units are numbered from 0 in the order of the rows. Here they are blocks of `UNIT_ROWS`.
        """
        return blocks(self.batches(columns), UNIT_ROWS)

    def units(self) -> list[TablePiece] | None:
        """Return the units of work, if each can be read by itself in another process."""
        return None

    def ordered(self) -> Source:
        """Return the same table in an order that follows from its rows, if there is one."""
        return self

    def drawn(self, columns: Sequence[str]) -> AbstractContextManager[None]:
        """Draw the people of a sample, if this is one, and forget at the end who was drawn.

        `columns` are some of the table.
        """
        return nullcontext()

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """End a snapshot of a database. The table cannot be read after that."""

    def distinct(
        self, columns: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]] | None:
        """Return the different rows of these columns and how often each occurs, if the source can
        count them itself.
        """
        return None

    def require(self, columns: Sequence[str], *, reveal: bool = False) -> None:
        """Raise `SourceError` if the table lacks one of the columns.

        The other names of the table are shown only with `reveal`: in a file without a header line
        they are the values of a person.
        """
        absent = [name for name in columns if name not in self.columns]
        if absent:
            found = [name for name in columns if name in self.columns]
            shown = f", among them {_listed(found)}" if found else ""
            shown = f": {_listed(self.columns)}" if reveal else shown
            count = f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"
            hint = self._case_hint(absent) or f" Check the spelling.{self.hint}"
            raise SourceError(
                f"{self.description} has no column {_listed(absent)}. It has {count}{shown}.{hint}"
            )

    def _case_hint(self, absent: Sequence[str]) -> str:
        """Return a hint if a column differs from an absent name only by case."""
        lower = {name.lower() for name in absent}
        near = [name for name in self.columns if name.lower() in lower]
        return f" Upper and lower case count: it has {_listed(near)}." if near else ""


class TablePiece(Source):
    """A stable piece of a table that can be read by itself, and be sent to another process.

    `number` is its place among the units of the table, from 0.
    """

    number: int

    def unit_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all batches with the number of this unit."""
        return ((self.number, batch) for batch in self.batches(columns))


def blocks(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut batches at every multiple of `size` rows; yield each piece with the number of its
    block.
    """
    start = 0
    for batch in batches:
        offset = 0
        while offset < batch.num_rows:
            taken = min(batch.num_rows - offset, size - start % size)
            yield start // size, batch.slice(offset, taken)
            offset, start = offset + taken, start + taken


def check_distinct(description: str, names: Sequence[str], hint: str = "") -> list[str]:
    """Return the names of the columns; raise `SourceError` if two are equal.

    The message gives their positions only, because the names may be private.
    """
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if first.setdefault(name, place) != place:
            raise SourceError(
                f"{description} has two columns of the same name, the columns "
                f"{first[name]} and {place}.{hint}"
            )
    return list(names)


def choose_table(
    description: str, tables: Sequence[tuple[str, str]], wanted: str | None, main: str
) -> tuple[str, str]:
    """Return schema and name of the wanted table of a database; without a wish, of the only one.

    `tables` are all of them; `main` is the schema that need not be named.
    """
    full = {f"{schema}.{name}": (schema, name) for schema, name in tables}
    shown = {name.removeprefix(f"{main}."): table for name, table in full.items()}
    if wanted is None and len(shown) == 1:
        return next(iter(shown.values()))
    chosen = shown.get(wanted or "") or full.get(wanted or "")
    if chosen is None:
        have = _listed(list(shown)) or "none"
        lacks = (
            f"several tables; name one with {setting('table', 'NAME')}"
            if wanted is None
            else f"no table {wanted!r}"
        )
        raise SourceError(f"{description} has {lacks}. Its tables: {have}.")
    return chosen


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def read_safely(description: str, action: Callable[[], Result]) -> Result:
    """Return `action()`; errors that may quote private content become a `SourceError` without."""
    try:
        with interruptible():
            return action()
    except SourceError:
        raise
    except _read_errors() as error:
        reason = _reason(error)
    # Raised outside of the except clause, so that the context of the exception is not kept either.
    raise SourceError(f"{description} cannot be read: {reason}.")


def _read_errors() -> tuple[type[Exception], ...]:
    """Return the errors of all readers. DuckDB is slow to import, and may not be in use."""
    known = sys.modules.get("duckdb")
    return _READ_ERRORS if known is None else (*_READ_ERRORS, known.Error)


def read_batches(description: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches in slices of at most `BATCH_ROWS` rows; errors are as in `read_safely`."""
    while (batch := read_safely(description, lambda: next(batches, None))) is not None:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _reason(error: BaseException) -> str:
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    place = f" (line {line[1]})" if line else ""
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, text, re.IGNORECASE):
            return sentence + place
    return "it is damaged, or not what its name says" + place


class PartOfSource(Source):
    """The rows of a table in which one attribute has one value.

    Whether a row belongs to the part depends on that row alone. A row whose value is missing or
    outside the domain belongs to no part.
    """

    def __init__(self, source: Source, attribute: Attribute, value: object) -> None:
        self.source = source
        self.grouped = source.grouped
        self.attribute = attribute
        self.code, self.label = _code_and_label(attribute, value)
        self.description = source.description
        self.columns = source.columns
        self.hint = source.hint
        self.require([attribute.name])

    @property
    def part(self) -> PartOfSource:
        return self

    def ordered(self) -> Source:
        """Return the same part, in the order of the whole table."""
        found = copy(self)
        found.source = self.source.ordered()
        return found

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the rows of the part."""
        name = self.attribute.name
        for batch in self.source.batches(list(dict.fromkeys([*columns, name]))):
            encode = partial(self.attribute.encode, batch.column(name))
            codes, outside = read_safely(f"Column '{name}'", encode)
            kept = (codes == self.code) & ~outside
            yield batch.select(list(columns)).filter(pa.array(kept))


def _code_and_label(attribute: Attribute, value: object) -> tuple[int, str]:
    """Return the code of a value and its label in the domain."""
    if attribute.domain is None:
        raise ParameterError.of("publish", "part", "of a column with a domain", attribute.name)
    try:
        codes, outside = attribute.encode(pa.array([value]))
    except (pa.ArrowException, ValueError, TypeError):
        codes, outside = np.zeros(1, np.int64), np.ones(1, bool)
    label = attribute.decode(codes)[0].as_py()
    if outside[0] or label is None:
        allowed = f"a value of '{attribute.name}' ({attribute.describe()})"
        raise ParameterError.of("publish", "part", allowed, value)
    return int(codes[0]), str(label)
