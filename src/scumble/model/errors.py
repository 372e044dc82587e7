"""Everything that scumble raises on purpose, and the exit code each becomes on the command line.

    ScumbleError              1   something scumble noticed and can explain
    ├── ParameterError        2   a parameter of a mechanism or function is not allowed
    ├── SchemaError           3   a schema is wrong, or does not have what was asked for
    ├── SourceError           4   a table cannot be read
    │   └── DomainError       4   a value lies outside its public domain
    ├── QueryError            5   a question is not understood or not supported
    ├── ReleaseError          6   a release folder is missing, damaged, or in the way
    ├── PromiseError          7   the privacy promise does not allow it
    └── LedgerError           8   a ledger cannot be used, or was tampered with

No message carries a private value or an exact count, unless the owner asked to have it revealed.
"""

from __future__ import annotations

from scumble.model import dialect

_SHOWN = 120  # characters of a line of SQL


class ScumbleError(Exception):
    """Base of all errors that scumble raises on purpose."""

    exit_code = 1


class ParameterError(ScumbleError, ValueError):
    """A parameter is not allowed."""

    exit_code = 2

    @classmethod
    def of(cls, owner: str, parameter: str, allowed: str, given: object) -> ParameterError:
        """The one sentence used for every bad parameter, in the words of who gave it."""
        words = dialect.spoken()
        sentence = f"{words.subject(owner, parameter)} must be {allowed}."
        return cls(f"{sentence} Got {words.given(given)} instead.")


class SchemaError(ScumbleError, ValueError):
    """A schema is wrong, or does not have what was asked for."""

    exit_code = 3


class SourceError(ScumbleError):
    """A table cannot be read."""

    exit_code = 4


class DomainError(SourceError, ValueError):
    """A value lies outside the public domain of its column."""

    def __init__(self, message: str, *, column: str, row: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row


class QueryError(ScumbleError, ValueError):
    """A question is not understood or not supported; shows where, with a caret."""

    exit_code = 5

    def __init__(
        self, message: str, *, text: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        super().__init__(message + _pointer(text, line, column))


class ReleaseError(ScumbleError):
    """A release folder is missing, damaged, or in the way."""

    exit_code = 6


class PromiseError(ScumbleError):
    """The privacy promise does not allow what was asked."""

    exit_code = 7


class LedgerError(ScumbleError):
    """A ledger is missing, damaged, in the way or in use, was tampered with, or belongs to another
    promise.
    """

    exit_code = 8


def _pointer(text: str, line: int | None, column: int | None) -> str:
    """The source line with a caret under its column (both count from 1)."""
    if line is None or column is None:
        return ""
    lines = text.splitlines() or [""]
    source = lines[min(line, len(lines)) - 1].replace("\t", " ")
    begin = max(0, column - 1 - _SHOWN // 2)  # of a long line, the part around the caret
    caret = " " * (column - 1 - begin) + "^"
    return f" (line {line}, column {column})\n  {source[begin : begin + _SHOWN]}\n  {caret}"
