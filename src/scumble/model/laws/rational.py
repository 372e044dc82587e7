"""Checks of the exact numbers that samplers and laws are given."""

from __future__ import annotations

from fractions import Fraction

from scumble.model.errors import ParameterError


def probability(owner: str, parameter: str, value: Fraction | int) -> Fraction:
    """An exact number from 0 to 1."""
    if not _exact(value) or not 0 <= value <= 1:
        raise ParameterError.of(owner, parameter, "a Fraction from 0 to 1", value)
    return Fraction(value)


def positive(owner: str, parameter: str, value: Fraction | int) -> Fraction:
    """An exact number above 0."""
    if not _exact(value) or value <= 0:
        raise ParameterError.of(owner, parameter, "a Fraction above 0", value)
    return Fraction(value)


def whole(owner: str, parameter: str, value: int, least: int = 0) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError.of(owner, parameter, f"a whole number of at least {least}", value)
    return value


def _exact(value: object) -> bool:
    return isinstance(value, Fraction | int) and not isinstance(value, bool)
