"""Priority sampling (Duffield, Lund, Thorup, 2007) of noisy cells, those of a domain of any size
among them.

A cell of noisy count v has a ticket, uniform among the numbers 1 to 2^bits, and the priority
|v| · 2^bits / ticket. It is at least 2^level exactly if the ticket is at most |v| · 2^(bits-level):
a ticket has as many equally likely values there as threshold sampling with tau = 2^level has lots.
So cells of high priority are found without the others, level by level downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.exponential import Enclosure, quotient
from scumble.private.sampling.integers import integers
from scumble.private.sampling.passing import Sampled
from scumble.private.sampling.source import Source
from scumble.private.sampling.sparse import Keys, scattered

BITS = 64
_CLOSE = 1e-14  # quotients of floating point are that good, and a little better


@dataclass(frozen=True)
class Lottery:
    """Cells with their noisy counts and tickets (from 0 on: one less than in the text)."""

    keys: Keys
    values: NDArray[Any]
    tickets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def only(self, rows: NDArray[Any]) -> Lottery:
        return Lottery(self.keys[rows], self.values[rows], self.tickets[rows])

    def __add__(self, other: Lottery) -> Lottery:
        return Lottery(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.tickets, other.tickets]),
        )

    def passing(self, level: int, bits: int = BITS) -> NDArray[np.bool_]:
        """Which priorities are 2^level at least."""
        lots = self.tickets >> self.tickets.dtype.type(bits - level) if level else 0
        held: NDArray[np.bool_] = np.asarray(lots < np.abs(self.values), bool)
        return held


def tickets(source: Source, size: int, bits: int = BITS) -> NDArray[Any]:
    """Independent tickets: uint64 up to 64 bits, Python integers beyond."""
    return integers(source, 1 << bits, size)


@dataclass(frozen=True)
class _Between:
    """A cell passes below, given that it does not pass above."""

    below: Sampled
    above: Sampled

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        (low, high), (least, most) = self.below.chance(precision), self.above.chance(precision)
        return quotient((low - most, high - least), (one - most, one - least), precision)


def empty_cells(
    source: Source, capacities: Sequence[int], scale: Fraction, level: int, bits: int = BITS
) -> Lottery:
    """The cells of an empty table whose priority is 2^level at least."""
    rule = Sampled(scale, 1 << level)
    keys = scattered(source, capacities, rule)
    values, found = _kept(source, rule, len(keys), level, bits)
    return Lottery(keys, values, found)


def more_cells(
    source: Source, capacities: Sequence[int], scale: Fraction, level: int, bits: int = BITS
) -> Lottery:
    """Cells whose priority is 2^level at least and below 2^(level + 1), as those of an empty
    table are of which it is known that they are below the latter.
    """
    here = Sampled(scale, 1 << level)
    keys = scattered(source, capacities, _Between(here, Sampled(scale, 2 << level)))
    found = Lottery(keys[:0], np.empty(0, np.int64), tickets(source, 0, bits))
    while len(found) < len(keys):
        place = len(found)
        rest = keys[place:]
        drawn = Lottery(rest, *_kept(source, here, len(rest), level, bits))
        drawn = drawn.only(~drawn.passing(level + 1, bits))
        kept = Lottery(keys[place : place + len(drawn)], drawn.values, drawn.tickets)
        found = found + kept
    return found


def _kept(
    source: Source, rule: Sampled, size: int, level: int, bits: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Noises that are kept, and their tickets: the lot is the first `level` bits of it."""
    values, lots = rule.lots(source, size)
    rest = integers(source, 1 << (bits - level), size)
    if bits > BITS:
        return values, lots.astype(object) * (1 << (bits - level)) + rest.astype(object)
    return values, (lots.astype(np.uint64) << np.uint64(bits - level) if level else 0) | rest


def drawn(cells: Lottery, size: int, bits: int = BITS) -> tuple[NDArray[np.intp], Fraction]:
    """The rows of the `size` cells of highest priority, in order, and the priority of the next one;
    0 if there is none.

    Of equal priorities the cell that comes first in the domain is higher. Floating point sorts out
    what is clear; the rest is compared exactly.
    """
    if len(cells) <= size:
        return np.arange(len(cells)), Fraction(0)
    about = np.abs(cells.values).astype(float) / (cells.tickets.astype(float) + 1)
    last = np.partition(about, len(about) - size - 1)[len(about) - size - 1]
    sure = np.flatnonzero(about > last * (1 + _CLOSE))
    close = np.flatnonzero(np.abs(about - last) <= last * _CLOSE)
    ranked = sorted(close.tolist(), key=lambda row: (-_exact(cells, row), _place(cells, row)))
    chosen = [*sure.tolist(), *ranked[: size - len(sure)]]
    threshold = _exact(cells, ranked[size - len(sure)]) * (1 << bits)
    return np.sort(np.array(chosen, np.intp)), threshold


def _exact(cells: Lottery, row: int) -> Fraction:
    return Fraction(abs(int(cells.values[row])), int(cells.tickets[row]) + 1)


def _place(cells: Lottery, row: int) -> tuple[int, ...]:
    key = cells.keys[row]
    return (int(key),) if cells.keys.ndim == 1 else tuple(key.tolist())
