"""Source: what every table can do, and how a complaint about one becomes a safe sentence."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import duckdb
import pyarrow as pa

from scumble.errors import SourceError

BATCH_ROWS = 1 << 18

_COMPLAINTS = (duckdb.Error, pa.ArrowException, OSError, ValueError, TypeError, EOFError)
_SENTENCES = (
    (r"unicode|utf-?8", "it is not UTF-8 text"),
    (r"unterminated quote", "a quote is opened and not closed"),
    (r"expected number of columns", "a line has another number of fields than the header"),
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

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in the order of the rows, in batches of about `BATCH_ROWS` rows."""

    def require(self, columns: Sequence[str]) -> None:
        """Refuse columns that the table does not have."""
        lost = [name for name in columns if name not in self.columns]
        if lost:
            have = ", ".join(repr(name) for name in self.columns)
            wanted = ", ".join(repr(name) for name in lost)
            raise SourceError(f"{self.description} has no column {wanted}. It has {have}.")


def attempt(description: str, action: Callable[[], Result]) -> Result:
    """Do it; a complaint that may quote private content becomes one sentence without it."""
    try:
        return action()
    except SourceError:
        raise
    except _COMPLAINTS as error:
        reason = _reason(error)
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
