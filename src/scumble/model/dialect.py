"""Dialect: how a sentence names a parameter, as Python writes it or as another front does.

Sentences are made where something is noticed, and read by somebody far away: in a program, or at a
command line, where `outside='drop'` cannot be typed. A front says once how it calls parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction

_SHOWN = 120  # characters of what was given


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


_spoken: ContextVar[Dialect] = ContextVar("dialect", default=Dialect())  # noqa: B039  # no state


@contextmanager
def speaking(dialect: Dialect) -> Iterator[None]:
    """All sentences that are made here are in this dialect."""
    before = _spoken.set(dialect)
    try:
        yield
    finally:
        _spoken.reset(before)


def spoken() -> Dialect:
    """The dialect of who will read a sentence that is made now."""
    return _spoken.get()


def named(parameter: str) -> str:
    """A parameter in the words of who reads it: `outside`, or `--outside`."""
    return spoken().name(parameter)


def setting(parameter: str, value: object) -> str:
    """A parameter with a value in the words of who reads it."""
    return spoken().setting(parameter, value)
