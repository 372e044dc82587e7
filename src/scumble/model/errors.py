"""Every exception, and the dialect in which a message names a parameter.

Everything that scumble raises on purpose, and the exit code each becomes on the command line.

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

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction

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
        words = current_dialect()
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


# Dialect: how a sentence names a parameter, as Python writes it or as another front does.
#
# Sentences are made where something is noticed, and read by somebody far away: in a program, or
# at a command line, where `outside='drop'` cannot be typed. A front says once how it calls
# parameters.


class Dialect:
    """The words of Python; fronts have their own."""

    def name(self, parameter: str) -> str:
        """A parameter: `outside`."""
        return parameter

    def setting(self, parameter: str, value: object) -> str:
        """A parameter with a value: `outside='drop'`."""
        return f"{parameter}={value!r}"

    def subject(self, owner: str, parameter: str) -> str:
        """A parameter of something, at the beginning of a sentence."""
        return f"The '{parameter}' parameter of {owner}"

    def given(self, value: object) -> str:
        """A value as it was written, or its type: a whole table must not get into a message."""
        if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int)) for each in value):
            text = self.listed(value)
            return text if len(text) <= _SHOWN else f"{len(value)} items"
        if value is None or isinstance(value, (str, int, float, complex, Fraction, Decimal)):
            text = self.literal(value)
            return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        return f"an object of type {type(value).__name__}"

    def listed(self, values: list[str | int] | tuple[str | int, ...]) -> str:
        """Several short values."""
        return repr(values)

    def literal(self, value: object) -> str:
        """A number, a text, or nothing."""
        return repr(value)


_dialect: ContextVar[Dialect] = ContextVar("dialect", default=Dialect())  # noqa: B039  # no state


@contextmanager
def using_dialect(dialect: Dialect) -> Iterator[None]:
    """All sentences that are made here are in this dialect."""
    before = _dialect.set(dialect)
    try:
        yield
    finally:
        _dialect.reset(before)


def current_dialect() -> Dialect:
    """The dialect of who will read a sentence that is made now."""
    return _dialect.get()


def named(parameter: str) -> str:
    """A parameter in the words of who reads it: `outside`, or `--outside`."""
    return current_dialect().name(parameter)


def setting(parameter: str, value: object) -> str:
    """A parameter with a value in the words of who reads it."""
    return current_dialect().setting(parameter, value)
