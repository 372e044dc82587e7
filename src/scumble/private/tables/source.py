"""Source protocol, safe errors, one part of a table.

Source: what every table can do, and how a complaint about one becomes a safe sentence.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from scumble.model.errors import ParameterError, SourceError
from scumble.model.schema.attribute import Attribute

BATCH_ROWS = 1 << 18

_COMPLAINTS = (
    *(duckdb.Error, pa.ArrowException, OSError),
    *(ValueError, TypeError, EOFError, OverflowError),
)
_SENTENCES = (
    (r"unicode|utf-?8", "it is not UTF-8 text"),
    (r"unterminated quote", "a quote is opened and not closed"),
    (r"expected number of columns", "a line has another number of fields than the header"),
    (r"invalid state", "its lines do not all end alike (dos2unix makes them so), or it is damaged"),
    (r"line size|line .* too long", "a line is too long"),
    (r"gzip|compressed", "its gzip compression is damaged"),
    (r"convert|expected (bytes|a string)", "its values are of several types; make them all text"),
    (r"lock|different configuration", "another connection holds it open"),
    (r"permission denied", "permission is denied"),
)

Result = TypeVar("Result")


class Source(ABC):
    """A private table that can be read as a stream of Arrow record batches."""

    description: str
    columns: list[str]
    rows: int | None = None  # exact and private: for progress bars only
    hint: str = ""  # what may be wrong if a column is not there

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in the order of the rows, in batches of about `BATCH_ROWS` rows."""

    def require(self, columns: Sequence[str], *, reveal: bool = False) -> None:
        """Refuse columns that the table does not have.

        Names that nobody asked for are shown only with `reveal`: where a header line is lacking,
        they are the values of a person.
        """
        lost = [name for name in columns if name not in self.columns]
        if lost:
            found = [name for name in columns if name in self.columns]
            shown = f", among them {_listed(found)}" if found else ""
            shown = f": {_listed(self.columns)}" if reveal else shown
            count = f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"
            raise SourceError(
                f"{self.description} has no column {_listed(lost)}. "
                f"It has {count}{shown}.{self._letters(lost) or self.hint}"
            )

    def _letters(self, lost: Sequence[str]) -> str:
        """A hint, if a name is there but for upper and lower case."""
        letters = {name.lower() for name in lost}
        near = [name for name in self.columns if name.lower() in letters]
        return f" Upper and lower case count: it has {_listed(near)}." if near else ""


def distinct(description: str, names: Sequence[str], hint: str = "") -> list[str]:
    """The names of columns, which must differ; which they are may be private."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SourceError(
                f"{description} has two columns of the same name, the columns "
                f"{names.index(name) + 1} and {place + 1}.{hint}"
            )
    return list(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def attempt(description: str, action: Callable[[], Result]) -> Result:
    """Do it; a complaint that may quote private content becomes one sentence without it."""
    try:
        return action()
    except SourceError:
        raise
    except _COMPLAINTS as error:
        reason = _reason(error)
    except RuntimeError as error:
        if "interrupted" not in str(error).lower():
            raise
        raise KeyboardInterrupt from None  # DuckDB's word for ctrl-C
    # Raised out here so that not even the hidden context of the exception holds the content.
    raise SourceError(f"{description} cannot be read: {reason}.")


def guarded(description: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, cut to at most `BATCH_ROWS` rows, complaints made safe as in `attempt`."""
    while (batch := attempt(description, lambda: next(batches, None))) is not None:
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


# A part of a private table: the rows with one value of one attribute, and no others.


class PartOfSource(Source):
    """Whether a row belongs to the part depends on that row alone. A row without a value, or with
    one outside the domain, belongs to none.
    """

    def __init__(self, source: Source, attribute: Attribute, value: object) -> None:
        self.source = source
        self.attribute = attribute
        self.code, self.label = _found(attribute, value)
        self.description = source.description
        self.columns = source.columns
        self.hint = source.hint
        self.require([attribute.name])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the rows that belong to the part."""
        name = self.attribute.name
        for batch in self.source.batches(list(dict.fromkeys([*columns, name]))):
            encode = partial(self.attribute.encode, batch.column(name))
            codes, strays = attempt(f"Column '{name}'", encode)
            kept = (codes == self.code) & ~strays
            yield batch.select(list(columns)).filter(pa.array(kept))


def _found(attribute: Attribute, value: object) -> tuple[int, str]:
    """The code of a value, and how the domain spells it."""
    if attribute.domain is None:
        raise ParameterError.of("publish", "part", "of a column with a domain", attribute.name)
    try:
        codes, strays = attribute.encode(pa.array([value]))
    except (pa.ArrowException, ValueError, TypeError):
        codes, strays = np.zeros(1, np.int64), np.ones(1, bool)
    label = attribute.decode(codes)[0].as_py()
    if strays[0] or label is None:
        allowed = f"a value of '{attribute.name}' ({attribute.describe()})"
        raise ParameterError.of("publish", "part", allowed, value)
    return int(codes[0]), str(label)
