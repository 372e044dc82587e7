"""Laws as tables of intervals, for answers that leave the process that made them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scumble.public.estimate import Estimate, Law

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9999)
_PLAIN = (int, float, str, Fraction, Enum, np.ndarray, np.generic, type(None))
Row = tuple[float, float, float]


@dataclass(frozen=True)
class TabulatedIntervals:
    """The law of an estimate whose intervals are known at some levels.

    `levels` has a level and its interval in each row, in ascending order; for another level, the
    interval of the next higher one is used, which holds at least as often. `noise` is the same for
    the noise alone, `typical` for typical tables, and `limits` are the bounds of the estimate; all
    three only where the evidence has bounds.
    """

    stderr: float
    levels: tuple[Row, ...]
    noise: tuple[Row, ...] = ()
    limits: tuple[float, float] | None = None
    typical: tuple[Row, ...] = ()

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return _at_least(self.levels, level)


@dataclass(frozen=True)
class TabulatedBounds(TabulatedIntervals):
    """Intervals at some levels of an estimate that has bounds."""

    @property
    def bounds(self) -> tuple[float, float]:
        return self.limits or (-math.inf, math.inf)

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        return _at_least(self.noise, level)

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval by a model of typical tables; it is not guaranteed."""
        return _at_least(self.typical or self.levels, level)


def _at_least(table: Sequence[Row], level: float) -> tuple[float, float]:
    """Return the interval of the lowest level in the table that is at least `level`."""
    found = (limits for known, *limits in table if known >= level - 1e-12)
    low, high = next(found, (-math.inf, math.inf))
    return low, high


def tabulate(estimate: Estimate, levels: Sequence[float]) -> TabulatedIntervals:
    """Return the law of an estimate as its intervals at some levels."""
    rows = tuple((level, *estimate.interval(level)) for level in levels)
    if estimate.bounds is None:
        return TabulatedIntervals(estimate.stderr, rows)
    noise = tuple((level, *estimate.noise_interval(level)) for level in levels)
    typical = tuple((level, *estimate.typical_interval(level)) for level in levels)
    return TabulatedBounds(estimate.stderr, rows, noise, estimate.bounds, typical)


def portable_law(estimate: Estimate) -> Law:
    """Return the law of an estimate, for a pickle: a table of its intervals if it is computed from
    the release.
    """
    return estimate.law if _is_plain(estimate.law) else tabulate(estimate, _LEVELS)


def _is_plain(value: Any) -> bool:
    """Return whether a value is made of numbers and texts alone."""
    if isinstance(value, (tuple, list, frozenset)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(_is_plain(part) for item in value.items() for part in item)
    if is_dataclass(value):
        return all(_is_plain(getattr(value, each.name)) for each in fields(value))
    return isinstance(value, _PLAIN)
