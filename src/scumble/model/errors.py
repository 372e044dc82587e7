"""The exceptions of scumble, the dialect in which a message names a parameter, and which known
name a user probably meant.

The error tree, with the exit code of each class on the command line:

    ScumbleError              1   base of all errors that scumble raises on purpose; what the system
                                  refuses while a result is written ends with 1 in all classes
    ├── ParameterError        2   a parameter of a mechanism or function is not allowed
    │   └── MissingViewError  2   a release cannot do this, though others can
    ├── SchemaError           3   a schema is invalid, or lacks a requested attribute
    ├── SourceError           4   a table cannot be read
    │   ├── ChangedError      4   a table changed while it was read
    │   └── DomainError       4   a value lies outside its public domain
    ├── QueryError            5   a question cannot be parsed or is not supported
    ├── ReleaseError          6   a release is missing or damaged, or a place cannot be used
    │   └── OutputExistsError 6   what is to be written exists already
    ├── PromiseError          7   the privacy promise does not allow the request
    └── LedgerError           8   a ledger cannot be used, or was tampered with

No message contains a private value or an exact count, unless the owner asked for it (`reveal`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction

_SHOWN = 120  # the longest excerpt in a message, in characters


class ScumbleError(Exception):
    """Base of all errors that scumble raises on purpose."""

    exit_code = 1


class ParameterError(ScumbleError, ValueError):
    """A parameter is not allowed."""

    exit_code = 2

    @classmethod
    def of(cls, owner: str, parameter: str, allowed: str, given: object) -> ParameterError:
        """Return the error for a bad parameter: one sentence, the same everywhere.

        `owner` is the class or function, `allowed` completes "must be ...", and `given` is the
        value received. The names are written in the current dialect.
        """
        dialect = current_dialect()
        sentence = f"{dialect.subject(owner, parameter)} must be {allowed}."
        return cls(f"{sentence} Got {dialect.given(given)} instead.")


class MissingViewError(ParameterError, AttributeError):
    """A release cannot do what releases by other mechanisms can: it lacks a view of theirs."""


class SchemaError(ScumbleError, ValueError):
    """A schema is invalid, or lacks a requested attribute."""

    exit_code = 3


class SourceError(ScumbleError):
    """A table cannot be read."""

    exit_code = 4


class ChangedError(SourceError):
    """A table changed while it was read. Noise may have been drawn for its first version."""


class DomainError(SourceError, ValueError):
    """A value lies outside the public domain of its column."""

    def __init__(self, message: str, *, column: str, row: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row


class QueryError(ScumbleError, ValueError):
    """A question cannot be parsed or is not supported.

    With `text`, `line` and `column` (counted from 1), the message shows the line of the question
    and a caret under the column.
    """

    exit_code = 5

    def __init__(
        self, message: str, *, text: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        super().__init__(message + _pointer(text, line, column))


class ReleaseError(ScumbleError):
    """A release is missing or damaged, or cannot be written to a place."""

    exit_code = 6


class OutputExistsError(ReleaseError):
    """What is to be written exists already, and was not replaced."""

    @classmethod
    def of(cls, place: object, instead: str = "") -> OutputExistsError:
        """Return the error for a place. `instead` says what to do where nothing is replaced."""
        how = instead or f"Use {setting('force', True)} to replace it."
        return cls(f"{place} already exists. {how}")


class PromiseError(ScumbleError):
    """The privacy promise does not allow the request."""

    exit_code = 7


class LedgerError(ScumbleError):
    """A ledger is missing, damaged, in use, tampered with, or has another promise."""

    exit_code = 8


def _pointer(text: str, line: int | None, column: int | None) -> str:
    """Return the source line with a caret under its column; both are counted from 1."""
    if line is None or column is None:
        return ""
    lines = text.splitlines() or [""]
    source = lines[min(line, len(lines)) - 1].replace("\t", " ")
    begin = max(0, column - 1 - _SHOWN // 2)  # of a long line, show the part around the caret
    caret = " " * (column - 1 - begin) + "^"
    return f" (line {line}, column {column})\n  {source[begin : begin + _SHOWN]}\n  {caret}"


@contextmanager
def writing(place: object, kind: type[ScumbleError] = ScumbleError) -> Iterator[None]:
    """Raise what the system refuses while `place` is written as one sentence that names `place`.

    The exit code is that of all refusals of the system, whatever the `kind` of the error.
    """
    try:
        yield
    except OSError as error:
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        # Arrow has words of its own in `strerror`, with a path.
        told = os.strerror(error.errno) if error.errno else error.strerror
        reason = "a file is in the way" if in_the_way else told or "no reason is given"
        refused = kind(f"'{place}' cannot be written: {reason}.")
        refused.exit_code = ScumbleError.exit_code
        raise refused from None


# Dialects.
#
# A message is written deep inside the package and read in a program or at a command line, where
# `outside='drop'` cannot be typed. Each front sets once how messages name parameters.


class Dialect:
    """How messages name parameters and show values: here, as Python writes them.

    Other fronts override these methods.
    """

    def name(self, parameter: str) -> str:
        """Return the name of a parameter: `outside`."""
        return parameter

    def setting(self, parameter: str, value: object) -> str:
        """Return a parameter with a value: `outside='drop'`."""
        return f"{parameter}={value!r}"

    def subject(self, owner: str, parameter: str) -> str:
        """Return the subject of a sentence about a parameter of `owner`."""
        return f"The '{parameter}' parameter of {owner}"

    def given(self, value: object) -> str:
        """Return a value as it was written, or its type if it is not a short literal.

        A whole table must not get into a message.
        """
        if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int)) for each in value):
            text = self.listed(value)
            return text if len(text) <= _SHOWN else f"{len(value)} items"
        if value is None or isinstance(value, (str, int, float, complex, Fraction, Decimal)):
            text = self.literal(value)
            return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        return f"an object of type {type(value).__name__}"

    def listed(self, values: list[str | int] | tuple[str | int, ...]) -> str:
        """Return a list of short values."""
        return repr(values)

    def literal(self, value: object) -> str:
        """Return a number, a text or None."""
        return repr(value)


_dialect: ContextVar[Dialect] = ContextVar("dialect", default=Dialect())  # noqa: B039  # no state


@contextmanager
def using_dialect(dialect: Dialect) -> Iterator[None]:
    """Write all messages inside the `with` block in this dialect."""
    before = _dialect.set(dialect)
    try:
        yield
    finally:
        _dialect.reset(before)


def set_dialect(dialect: Dialect) -> None:
    """Write all messages of this thread in this dialect from now on."""
    _dialect.set(dialect)


def current_dialect() -> Dialect:
    """Return the dialect in force."""
    return _dialect.get()


def named(parameter: str) -> str:
    """Return the name of a parameter in the current dialect: `outside`, or `--outside`."""
    return current_dialect().name(parameter)


def setting(parameter: str, value: object) -> str:
    """Return a parameter with a value in the current dialect."""
    return current_dialect().setting(parameter, value)


_LONGEST_COUNT = 10**12  # from here on, powers of ten


def large(number: float | Fraction) -> str:
    """Return a large number for a sentence, in three digits: with commas, or a power of ten.

    >>> large(75_123_456), large(4e18)
    ('75,100,000', '4e+18')
    """
    rounded = f"{float(number):.3g}"
    return rounded if number >= _LONGEST_COUNT else f"{float(rounded):,.0f}"


# Which name was meant.

_SHORTEST = 3  # letters of a word that may be a part of a longer name
_LONGEST = 100  # letters of a word that may be a slip


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a user probably meant by a word; None if none is near.

    A name is near if a slip or two (of one letter, or two exchanged ones) lie between, if it begins
    with the word up to a slip, or if it is the only one that contains the word. Case is ignored.

    >>> nearest_name("Agee", ["Gender", "AgeInYears"])
    'AgeInYears'
    """
    names, lower = list(known), word.casefold()
    if len(lower) > _LONGEST:
        return None
    slips, letters = 1 + len(lower) // 6, set(lower)
    ranked: list[tuple[float, int]] = []
    for place, name in enumerate(names):
        other = name.casefold()
        if len(letters.difference(other)) > slips or len(other) < len(lower) - slips:
            continue
        if len(other) <= len(lower) + slips and (whole := _slips(lower, other)) <= slips:
            if whole < len(lower):
                ranked.append((whole, place))
        elif len(lower) >= _SHORTEST and (begins := _slips(lower, other[: len(lower)])) <= 1:
            ranked.append((slips + begins + len(other) / 1e4, place))  # the shortest of them
    if ranked:
        return names[min(ranked)[1]]
    inside = [name for name in names if lower in name.casefold()]
    return inside[0] if len(inside) == 1 and len(lower) >= _SHORTEST else None


def _slips(one: str, other: str) -> int:
    """Return how many letters must be put in, left out, replaced or exchanged with the next."""
    one, other = _without_same_start(one, other)
    one, other = _without_same_start(one[::-1], other[::-1])
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                least = min(least, earlier[j - 2] + 1)
            row.append(least)
    return row[-1]


def _without_same_start(one: str, other: str) -> tuple[str, str]:
    """Return two texts without the letters at their start that are the same."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    same = min(len(one), len(other)) if same is None else same
    return one[same:], other[same:]
