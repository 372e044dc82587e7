"""Noise of the empty cells of a huge domain, drawn only for cells that a rule publishes.

`passing_cells` draws which cells pass, each independently with the same irrational probability,
without visiting the domain. `FilterRule` and `SampleRule` draw the noise of the passing cells. The
last part is priority sampling of noisy cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.bits import CHUNK, Cuts, bernoulli, chunks, integers
from scumble.private.sampling.counts import poisson
from scumble.private.sampling.noise import Enclosure, exponential, floors, geometric, quotient
from scumble.private.sampling.source import Keystream

Chance = Callable[[int], Enclosure]  # encloses an irrational probability times 2**precision
# Keys of cells in order: one number each, or a row of numbers (the most significant first) where
# 64 bits are too few.
Keys = NDArray[np.uint64]

_DENSE = Fraction(1, 4)  # from this probability on, cells are visited one by one
_CLOSE_BITS = 40  # leading bits in which the bound of a probability agrees with it


class CellSieve(Protocol):
    """A rule by which cells pass independently; equal sieves have the same probability."""

    def chance(self, precision: int) -> Enclosure:
        """Enclose the probability that a cell passes, times 2^precision; it is irrational."""
        ...

    def __hash__(self) -> int: ...


def passing_cells(source: Keystream, capacities: Sequence[int], sieve: CellSieve) -> Keys:
    """Return the keys of the cells that pass, in order. The parts of a key are below `capacities`
    (each at most 2^64).

    Each cell is taken independently with a rational probability B just above the probability p of
    the sieve; each taken cell stays with probability p/B. So the number of passing cells is
    binomial, and they are a uniform choice.
    """
    bound, stays = _tables(sieve)
    if bound >= _DENSE:
        return _one_by_one(source, prod(capacities), stays)
    taken = _distinct(_thrown(source, capacities, bound))
    return np.take(taken, np.flatnonzero(stays.draw(source, len(taken)) == 0), axis=0)


@lru_cache(maxsize=32)
def _tables(sieve: CellSieve) -> tuple[Fraction, Cuts]:
    """Return the fraction B, and the Bernoulli law of p/B (of p itself where many cells pass)."""
    bound = _just_above(sieve.chance)
    if bound >= _DENSE:
        return bound, _cut(sieve.chance)

    def share(precision: int) -> Enclosure:
        low, high = sieve.chance(precision)
        above, below = bound.denominator, bound.numerator
        return low * above // below, -(-high * above // below)

    return bound, _cut(share)


def _thrown(source: Keystream, capacities: Sequence[int], chance: Fraction) -> Keys:
    """Return keys of cells, with repeats, among which each cell is with exactly probability b, the
    parameter `chance`.

    A Poisson number of draws is uniform over the domain, so that the numbers of draws at the cells
    are independent Poisson variables. One of mean -ln(1 - b) = b + b²/2 + b³/3 + ... is above 0
    with probability b. A draw gets an order k, geometric with ratio b, and stays with probability
    1/k: with b/(1 - b) draws per cell in the mean, those of order k that stay are b^k/k.
    """
    count = poisson(source, prod(capacities) * chance / (1 - chance))
    staying = np.ones(count, bool)
    rows = np.flatnonzero(bernoulli(source, chance, count))
    order = 2
    while len(rows):
        # 1/k is the product of 1/2, 2/3, ... up to (k - 1)/k: one coin for each further order.
        passed = bernoulli(source, Fraction(order - 1, order), len(rows))
        staying[rows[~passed]] = False
        rows = rows[passed]
        rows = rows[bernoulli(source, chance, len(rows))]
        order += 1
    left = int(np.count_nonzero(staying))
    words = [integers(source, capacity, left) for capacity in capacities]
    return words[0] if len(words) == 1 else np.stack(words, axis=1)


def _one_by_one(source: Keystream, cells: int, passes: Cuts) -> Keys:
    parts = [np.empty(0, np.uint64)]
    for part in chunks(cells, CHUNK):
        passed = np.flatnonzero(passes.draw(source, part.stop - part.start) == 0)
        parts.append((passed + part.start).astype(np.uint64))
    return np.concatenate(parts)


def _cut(chance: Chance) -> Cuts:
    """Return the distribution with outcome 0 of the irrational probability `chance`."""
    return Cuts(lambda bits: (floors(lambda precision: [chance(precision)], bits), [False]))


def _just_above(chance: Chance) -> Fraction:
    """Return a fraction above the probability, by a relative difference below 2^-40."""
    bits = 64
    while True:
        [whole] = floors(lambda precision: [chance(precision)], bits)
        if whole >> _CLOSE_BITS:
            return Fraction(whole + 1, 1 << bits)
        bits *= 2


def _distinct(keys: Keys) -> Keys:
    """Return the different keys in order."""
    if keys.ndim == 1:
        return np.unique(keys)
    ordered = keys[np.lexsort(keys.T[::-1])]
    first = np.ones(len(ordered), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[first]


# --- rules: the probability that an empty cell is published, and its noise then ------------------
#
# With a = e^(-1/scale) the noise is v with probability (1 - a)/(1 + a) · a^|v|.

_INT64 = 1 << 63


class EmptyCellRule(CellSieve, Protocol):
    """A publication rule for empty cells. The probability that a cell passes is irrational, because
    e^(-1/scale) is transcendental.
    """

    def draw(self, source: Keystream, size: int) -> NDArray[Any]:
        """Return independent noises of `size` cells that pass."""
        ...


@dataclass(frozen=True)
class FilterRule:
    """Publish noise of at least `theta` >= 1; with `both`, also noise of at most -theta.

    A cell passes with probability a^theta/(1 + a), or twice that. The excess over theta is
    geometric.
    """

    scale: Fraction
    theta: int
    both: bool = False

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        times = 2 if self.both else 1
        low, high = exponential(self.theta / self.scale, precision)
        below = exponential(1 / self.scale, precision)
        return quotient((times * low, times * high), (one + below[0], one + below[1]), precision)

    def draw(self, source: Keystream, size: int) -> NDArray[Any]:
        values = geometric(source, self.scale, size) + self.theta
        return _signed(source, values) if self.both else values


@dataclass(frozen=True)
class SampleRule:
    """Publish noise v with probability min(|v|/tau, 1).

    That is min(|v|, tau) out of tau numbered lots. So the pair of |v| and the lot that kept it has
    a probability proportional to a^|v| for every lot of at most |v|. The lot alone, from 1 to tau,
    is then a truncated geometric variable, which is the remainder of a geometric variable by tau;
    and |v| - lot is geometric. A cell passes with probability 2a(1 - a^tau) / (tau (1 - a²)).
    """

    scale: Fraction
    tau: int

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        ratio = exponential(1 / self.scale, precision)
        square = exponential(2 / self.scale, precision)
        last = exponential((self.tau + 1) / self.scale, precision)
        above = (2 * (ratio[0] - last[1]), 2 * (ratio[1] - last[0]))
        below = (self.tau * (one - square[1]), self.tau * (one - square[0]))
        return quotient(above, below, precision)

    def draw(self, source: Keystream, size: int) -> NDArray[Any]:
        return self.lots(source, size)[0]

    def lots(self, source: Keystream, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return independent noises of `size` cells that pass, and their lots, counted from 0."""
        lots = geometric(source, self.scale, size)
        if self.tau < _INT64 or lots.dtype == object:
            lots = lots % self.tau
        values = geometric(source, self.scale, size) + lots + 1
        return _signed(source, values), lots


def _signed(source: Keystream, values: NDArray[Any]) -> NDArray[Any]:
    return np.where(integers(source, 2, len(values)) == 1, values, -values)


# --- priority sampling (Duffield, Lund, Thorup, 2007) of noisy cells -----------------------------
#
# A cell of noisy count v has a ticket, uniform among the numbers 1 to 2^bits, and the priority
# |v| · 2^bits / ticket. The priority is at least 2^level exactly if the ticket is at most
# |v| · 2^(bits-level): a ticket has as many equally likely values there as threshold sampling with
# tau = 2^level has lots. So cells of high priority are found without the others, level by level
# downwards.

BITS = 64
_CLOSE_QUOTIENT = 1e-14  # bound on the relative error of a floating-point quotient


@dataclass(frozen=True)
class PrioritizedCells:
    """Cells with their noisy counts and tickets (counted from 0, unlike in the text above)."""

    keys: Keys
    values: NDArray[Any]
    tickets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def only(self, rows: NDArray[Any]) -> PrioritizedCells:
        return PrioritizedCells(self.keys[rows], self.values[rows], self.tickets[rows])

    def __add__(self, other: PrioritizedCells) -> PrioritizedCells:
        return PrioritizedCells(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.tickets, other.tickets]),
        )

    def passing(self, level: int, bits: int = BITS) -> NDArray[np.bool_]:
        """Return which priorities are at least 2^level."""
        lots = self.tickets >> self.tickets.dtype.type(bits - level) if level else 0
        held: NDArray[np.bool_] = np.asarray(lots < np.abs(self.values), bool)
        return held


def draw_tickets(source: Keystream, size: int, bits: int = BITS) -> NDArray[Any]:
    """Return independent tickets: uint64 up to 64 bits, Python integers beyond."""
    return integers(source, 1 << bits, size)


@dataclass(frozen=True)
class _Between:
    """The probability that a cell passes the rule `below`, given that it fails the rule `above`."""

    below: SampleRule
    above: SampleRule

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        (low, high), (least, most) = self.below.chance(precision), self.above.chance(precision)
        return quotient((low - most, high - least), (one - most, one - least), precision)


def high_priority_cells(
    source: Keystream, capacities: Sequence[int], scale: Fraction, level: int, bits: int = BITS
) -> PrioritizedCells:
    """Return the cells of an empty table whose priority is at least 2^level."""
    rule = SampleRule(scale, 1 << level)
    keys = passing_cells(source, capacities, rule)
    values, found = _kept(source, rule, len(keys), level, bits)
    return PrioritizedCells(keys, values, found)


def next_priority_cells(
    source: Keystream, capacities: Sequence[int], scale: Fraction, level: int, bits: int = BITS
) -> PrioritizedCells:
    """Return the cells of an empty table whose priority is at least 2^level, given that all
    priorities are below 2^(level + 1).
    """
    here = SampleRule(scale, 1 << level)
    keys = passing_cells(source, capacities, _Between(here, SampleRule(scale, 2 << level)))
    found = PrioritizedCells(keys[:0], np.empty(0, np.int64), draw_tickets(source, 0, bits))
    while len(found) < len(keys):
        place = len(found)
        rest = keys[place:]
        drawn = PrioritizedCells(rest, *_kept(source, here, len(rest), level, bits))
        drawn = drawn.only(~drawn.passing(level + 1, bits))
        kept = PrioritizedCells(keys[place : place + len(drawn)], drawn.values, drawn.tickets)
        found = found + kept
    return found


def _kept(
    source: Keystream, rule: SampleRule, size: int, level: int, bits: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return noises that are kept, and their tickets: the lot is the first `level` bits of a
    ticket.
    """
    values, lots = rule.lots(source, size)
    rest = integers(source, 1 << (bits - level), size)
    if bits > BITS:
        return values, lots.astype(object) * (1 << (bits - level)) + rest.astype(object)
    return values, (lots.astype(np.uint64) << np.uint64(bits - level) if level else 0) | rest


def priority_sample(
    cells: PrioritizedCells, size: int, bits: int = BITS
) -> tuple[NDArray[np.intp], Fraction]:
    """Return the rows of the `size` cells of highest priority, in order, and the priority of the
    next cell (0 if there is none).

    Of equal priorities the cell that comes first in the domain is higher. Floating point decides
    the clear cases; the others are compared exactly.
    """
    if len(cells) <= size:
        return np.arange(len(cells)), Fraction(0)
    about = np.abs(cells.values).astype(float) / (cells.tickets.astype(float) + 1)
    last = np.partition(about, len(about) - size - 1)[len(about) - size - 1]
    sure = np.flatnonzero(about > last * (1 + _CLOSE_QUOTIENT))
    close = np.flatnonzero(np.abs(about - last) <= last * _CLOSE_QUOTIENT)
    ranked = sorted(close.tolist(), key=lambda row: (-_exact(cells, row), _place(cells, row)))
    chosen = [*sure.tolist(), *ranked[: size - len(sure)]]
    threshold = _exact(cells, ranked[size - len(sure)]) * (1 << bits)
    return np.sort(np.array(chosen, np.intp)), threshold


def _exact(cells: PrioritizedCells, row: int) -> Fraction:
    return Fraction(abs(int(cells.values[row])), int(cells.tickets[row]) + 1)


def _place(cells: PrioritizedCells, row: int) -> tuple[int, ...]:
    key = cells.keys[row]
    return (int(key),) if cells.keys.ndim == 1 else tuple(key.tolist())
