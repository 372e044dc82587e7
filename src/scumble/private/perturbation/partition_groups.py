"""The split of a table into sub-tables with few sensitive values each: balance, rearrange, merge,
and deal the rows to the sub-tables.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ChangedError, PromiseError
from scumble.model.privacy.guarantee import gamma_for_rho
from scumble.model.schema.cell_keys import CellKeys, smallest_unsigned
from scumble.private.engines.engine import CHANGED, Made
from scumble.private.sampling.randomized_response import keep_or_replace
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import Urns

# Most array elements to read in the search for an order: one or two seconds.
_WORK = 5 * 10**6


@dataclass(frozen=True)
class Part:
    """A sub-table: the number of rows of each value, and the probability to keep a value.

    `domain` are the values that its rows may show. A value that does not occur has no entry in
    `counts`.
    """

    counts: Mapping[int, int]
    domain: tuple[int, ...]
    keep: Fraction

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def split(counts: Mapping[int, int], rho1: Fraction, rho2: Fraction) -> list[Part] | None:
    """Return the parts of a table with these counts, or None if no value has at most ρ1 of the
    rows.

    One part for the whole table is among the candidates. It keeps the promise, since ρ1 < ρ2.
    """
    rows = sum(counts.values())
    rare = {value: count for value, count in counts.items() if count <= rho1 * rows}
    if not rare:
        return None
    frequent = {value: count for value, count in counts.items() if value not in rare}
    groups = balanced(rare, frequent)
    merging = Merging(groups, rare, float(rho2))
    order = best_order(groups, merging.cost, max(1, _WORK // merging.work))
    return [
        bound_part(_joined([groups[place] for place in part]), rare, rho2)
        for part in merging.parts(order)
    ]


def bound_part(counts: Mapping[int, int], rare: Collection[int], rho2: Fraction) -> Part:
    """Return a part whose channel lets the posterior of its most frequent rare value rise from its
    share of the part to ρ2.
    """
    domain = tuple(sorted(counts))
    share = Fraction(
        max(count for value, count in counts.items() if value in rare), sum(counts.values())
    )
    if share >= rho2:
        raise PromiseError("No split of the table keeps the promise; allow a larger rho2.")
    return Part(counts, domain, keep_for(gamma_for_rho(share, rho2), len(domain)))


def keep_for(gamma: Fraction, values: int) -> Fraction:
    """Return p = (γ − 1)/(m − 1 + γ), the retention with amplification γ over m values."""
    return (gamma - 1) / (values - 1 + gamma)


def gamma_of(keep: Fraction, values: int) -> Fraction:
    """Return γ = 1 + p·m/(1−p), the inverse of `keep_for`."""
    return 1 + keep * values / (1 - keep)


def _joined(groups: Sequence[Mapping[int, int]]) -> Counts:
    joined: Counts = {}
    for group in groups:
        for value, count in group.items():
            joined[value] = joined.get(value, 0) + count
    return joined


# Balancing: rows are cut into groups of few values each, in which no rare value is much more
# frequent than in the whole table.

# The number of rows of each value.
Counts = dict[int, int]

# Real tables need about 20 groups. The cost of trying orders and merges is quadratic in the groups.
MOST_GROUPS = 200


def balanced(rare: Mapping[int, int], frequent: Mapping[int, int]) -> list[Counts]:
    """Return groups as numbers of rows by value: rare values balanced, frequent ones spread."""
    groups = _balance(rare)
    _spread(frequent, groups)
    return groups


def balance_level(counts: Mapping[int, int]) -> int:
    """Return θ, the largest whole number such that no value has more than 1/θ of the rows."""
    return sum(counts.values()) // max(counts.values())


def _balance(rare: Mapping[int, int]) -> list[Counts]:
    """Return groups, each with the same number of rows of each of the θ most frequent values.

    That number is the largest that leaves the remaining rows θ-balanced. So every group is
    θ-balanced, and θ values are left as long as any row is. Of equally frequent values the smaller
    one comes first.
    """
    theta = balance_level(rare)
    rest = sum(rare.values())
    values = np.array(sorted(rare))
    top, base = max(rare.values()), len(values)
    # One sort key for each value, in this order; it grows as rows are taken.
    counts = np.array([rare[value] for value in values.tolist()])
    keys = np.sort((top - counts) * base + np.arange(base))
    groups: list[Counts] = []
    while len(keys):
        most, others = keys[:theta], keys[theta:]
        left = top - keys // base
        following = int(left[theta]) if len(others) else 0
        height = _height(rest, theta, int(left[0]), int(left[theta - 1]), following)
        if height == 0 or len(groups) == MOST_GROUPS - 1:
            groups.append(dict(zip(values[keys % base].tolist(), left.tolist(), strict=True)))
            break
        groups.append(dict.fromkeys(values[most % base].tolist(), height))
        rest -= theta * height
        again = most[left[:theta] > height] + height * base
        keys = np.sort(np.concatenate([again, others]), kind="stable")  # two runs: quickly merged
    return groups


def _height(rest: int, theta: int, first: int, last: int, following: int) -> int:
    """Return how many rows of each of the θ most frequent values can be taken at most so that the
    remaining rows are θ-balanced.

    The condition is σ(μθ) ≥ μθ, both sides times θ. If it fails, the next value is the limit.
    """
    if rest - theta * max(first - last, following) >= theta * last:
        return last
    return rest // theta - following


def _spread(frequent: Mapping[int, int], groups: list[Counts]) -> None:
    """Add the rows of frequent values to the groups in proportion to their sizes; the last group
    gets the remainder.

    Groups are filled one after the other, the most frequent value first, so that a group gets few
    values.
    """
    sizes = [sum(group.values()) for group in groups]
    balanced_rows, spread_rows = sum(sizes), sum(frequent.values())
    free = [size * spread_rows // balanced_rows for size in sizes]
    place = 0
    for value, count in sorted(frequent.items(), key=lambda item: (-item[1], item[0])):
        while count:
            while free[place] == 0 and place < len(groups) - 1:
                place += 1
            taken = count if place == len(groups) - 1 else min(count, free[place])
            groups[place][value] = groups[place].get(value, 0) + taken
            free[place] -= taken
            count -= taken


# Rearranging: orders of the groups in which neighbours have values in common.

Order = tuple[int, ...]


def best_order(
    groups: Sequence[Mapping[int, int]], cost: Callable[[Order], float], most: int
) -> Order:
    """Return the order of lowest cost among the reverse Cuthill–McKee orders from every start, or
    from the `most` least connected starts.

    Groups that share no value, directly or through others, are in different components. The
    component with the least connected group comes first. The start in each component is chosen in
    turn, with the starts of the others fixed.
    """
    near = _neighbours(groups)
    walks = [_walk(near, start) for start in _starts(near)]
    best = _reversed(walks)
    lowest = cost(best)
    for place, walk in enumerate(walks):
        for start in sorted(walk, key=lambda start: (len(near[start]), start))[:most]:
            tried = [*walks[:place], _walk(near, start), *walks[place + 1 :]]
            found = cost(_reversed(tried))
            if found < lowest:
                walks, best, lowest = tried, _reversed(tried), found
    return best


def _neighbours(groups: Sequence[Mapping[int, int]]) -> list[set[int]]:
    """Return for each group those that share a value with it: where A·Aᵀ is not zero."""
    holders = defaultdict(list)
    for place, group in enumerate(groups):
        for value in group:
            holders[value].append(place)
    near: list[set[int]] = [set() for _ in groups]
    for places in holders.values():
        if len(places) > 1:
            for place in places:
                near[place].update(places)
    return [found - {place} for place, found in enumerate(near)]


def _starts(near: Sequence[set[int]]) -> list[int]:
    """Return one start in each component: a group with the fewest neighbours."""
    starts, seen = [], set[int]()
    for place in sorted(range(len(near)), key=lambda place: len(near[place])):
        if place not in seen:
            starts.append(place)
            seen.update(_walk(near, place))
    return starts


def _walk(near: Sequence[set[int]], start: int) -> list[int]:
    """Return the Cuthill–McKee order: breadth first, groups with fewer neighbours first."""
    walk, seen = [start], {start}
    for place in walk:  # the list grows during the loop
        found = sorted(near[place] - seen, key=lambda other: (len(near[other]), other))
        walk += found
        seen.update(found)
    return walk


def _reversed(walks: Sequence[Sequence[int]]) -> Order:
    return tuple(place for walk in walks for place in walk)[::-1]


# Merging: neighbouring groups are joined to the parts with the lowest error bound together.

Table = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def error_bound(sizes: Sequence[int], keeps: Sequence[float], delta: float) -> float:
    """Return ε(Part) = Σ |Tᵢ|/|T| · a/(√|Tᵢ|·pᵢ), a = 2·√ln(2/δ).

    The error of the estimated share of a value is below it with probability at least 1−δ. Proof:
    the estimate is a sum of independent weights, those of a part in an interval of length 1/pᵢ; by
    Hoeffding the probability of an error of ε is at most 2·exp(−2·|T|²ε²/Σ|Tᵢ|/pᵢ²), and |T|²ε² =
    a²·(Σ√|Tᵢ|/pᵢ)² ≥ a²·Σ|Tᵢ|/pᵢ².
    """
    factor = 2 * math.sqrt(math.log(2 / delta)) / sum(sizes)
    return factor * sum(math.sqrt(n) / p for n, p in zip(sizes, keeps, strict=True))


class Merging:
    """Finds the best merge of neighbours, for any order of the groups.

    The cost is the sum of √|Tᵢ|/pᵢ over the parts: the error bound up to a factor that all merges
    share. Floating point only decides the choice; the promise of the chosen parts is computed
    exactly elsewhere. `work` is roughly the number of array elements read for one order.
    """

    def __init__(
        self, groups: Sequence[Mapping[int, int]], rare: Collection[int], rho2: float
    ) -> None:
        self._rho2 = rho2
        self._sizes = np.array([sum(group.values()) for group in groups])
        times = Counter(value for group in groups for value in group)
        # Values in one group only do not depend on the order: their number and their largest count.
        own = [{v: n for v, n in group.items() if times[v] == 1} for group in groups]
        self._own = np.array([len(counts) for counts in own])
        self._own_largest = np.array(
            [max((n for v, n in counts.items() if v in rare), default=0) for counts in own]
        )
        shared = [
            (value, place, count, value in rare)
            for place, group in enumerate(groups)
            for value, count in group.items()
            if times[value] > 1
        ]
        self._shared = np.array(shared, np.int64).reshape(-1, 4)
        self.work = len(groups) ** 2 + sum(number**2 for number in times.values() if number > 1)

    def cost(self, order: Sequence[int]) -> float:
        """Return the cost of the best merge in this order."""
        return self._best(order)[0]

    def parts(self, order: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the groups of each part of the best merge in this order."""
        _, begins = self._best(order)
        parts: list[tuple[int, ...]] = []
        end = len(order)
        while end:
            parts.append(tuple(order[begins[end - 1] : end]))
            end = begins[end - 1]
        return parts[::-1]

    def _best(self, order: Sequence[int]) -> tuple[float, list[int]]:
        """Return the lowest cost, and for every end where the last part begins (dynamic
        programming).
        """
        costs = self._costs(order)
        best, begins = [0.0], []
        for end in range(len(order)):
            options = np.array(best) + costs[: end + 1, end]
            begins.append(int(np.argmin(options)))
            best.append(float(options[begins[-1]]))
        return best[-1], begins

    def _costs(self, order: Sequence[int]) -> Table:
        """Return √n/p for every run of neighbours, from the group of the matrix row to that of the
        column, with 1/p = m/(γ−1) + 1; infinite where γ would not be above 1.
        """
        sizes = np.cumsum([0, *self._sizes[list(order)]])
        rows = np.maximum(sizes[None, 1:] - sizes[:-1, None], 1)
        values, largest = self._runs(order)
        share = largest / rows
        margin = np.maximum(self._rho2 - share, 0)
        with np.errstate(divide="ignore"):
            costs: Table = np.sqrt(rows) * (values * share * (1 - self._rho2) / margin + 1)
        return costs

    def _runs(self, order: Sequence[int]) -> tuple[Whole, Whole]:
        """Return the number of values in each run of neighbours, and the number of rows of the most
        frequent rare value in it.
        """
        size, groups = len(order), list(order)
        where = np.argsort(groups)
        values, places, counts, rare = self._shared.T
        places = where[places]
        sorting = np.lexsort((places, values))
        values, places = values[sorting], places[sorting]
        counts, rare = counts[sorting], rare[sorting].astype(bool)
        distinct = _distinct(size, self._own[groups], values, places)
        largest = np.diag(self._own_largest[groups])
        _note(largest, values[rare], places[rare], counts[rare])
        # A longer run contains what its shorter runs contain.
        longer = np.maximum.accumulate(largest[::-1], axis=0)[::-1]
        return distinct, np.maximum.accumulate(longer, axis=1)


def _distinct(size: int, own: Whole, values: Whole, places: Whole) -> Whole:
    """Return the number of values in each run, given the sorted positions of each shared value.

    An occurrence of a value at position p, with the previous one at q, is the first in all runs
    that begin in (q, p] and end at p or later. The corners of these ranges are marked and summed
    up.
    """
    corners = np.zeros((size + 1, size + 1), np.int64)
    everywhere = np.arange(size)
    corners[0, :size] += own
    corners[everywhere + 1, everywhere] -= own
    again = values[1:] == values[:-1]
    begins = np.zeros_like(places)
    begins[1:][again] = places[:-1][again] + 1
    np.add.at(corners, (begins, places), 1)
    np.add.at(corners, (places + 1, places), -1)
    return corners.cumsum(axis=0).cumsum(axis=1)[:size, :size]


def _note(largest: Whole, values: Whole, places: Whole, counts: Whole) -> None:
    """Raise `largest` to the number of rows of each value in the runs between any two of its
    positions, by their distance.
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    begins = np.arange(len(values))
    for distance in range(len(largest)):
        begins = begins[begins + distance < len(values)]
        begins = begins[values[begins] == values[begins + distance]]
        if not len(begins):
            break
        ends = begins + distance
        sums = before[ends + 1] - before[begins]
        np.maximum.at(largest, (places[begins], places[ends]), sums)


# Dealing: rows are assigned to the parts at random, and sent through the channel of their part.

Cells = npt.NDArray[np.uint64]


class Deal:
    """Assigns the rows of a table to the parts.

    Each value has an urn with one ball for each row of that value in each part. Every row draws a
    ball from the urn of its value, so the rows of a value in a part are a uniformly random choice.
    Units of work deal alone: first, `shares` draws the balls that each unit gets for its rows.
    """

    def __init__(self, parts: Sequence[Part], cells: int) -> None:
        self._parts = list(parts)
        holders: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            for value in part.counts:
                holders.setdefault(value, []).append(number)
        self._urn = np.full(cells, -1, np.int64)
        self._urn[list(holders)] = np.arange(len(holders))
        self._balls = [
            [parts[number].counts[value] for number in held] for value, held in holders.items()
        ]
        # For each compartment of an urn: a part, and the position of the value in its domain.
        pairs = [(number, value) for value, held in holders.items() for number in held]
        places = [{value: place for place, value in enumerate(part.domain)} for part in parts]
        self._part = np.array([number for number, _ in pairs], smallest_unsigned(len(parts)))
        largest = max(len(part.domain) for part in parts)
        self._place = np.array([places[n][value] for n, value in pairs], smallest_unsigned(largest))

    def shares(
        self, source: Keystream, units: Mapping[int, tuple[Cells, Whole]]
    ) -> dict[int, Whole]:
        """Return for every unit the balls of its urns by compartment. `units` has the cells of each
        unit and their numbers of rows, which must add up to the rows of the parts.

        The balls of the first unit are drawn from the urns without replacement, then those of the
        next one. The last unit gets what is left.
        """
        urns, found = Urns(self._balls), {}
        for place, (unit, (cells, counts)) in enumerate(units.items(), start=1):
            wanted = np.zeros(len(self._balls), np.int64)
            wanted[self._urn[cells.astype(np.int64)]] = counts
            found[unit] = urns.rest() if place == len(units) else urns.take(source, wanted)
        return found

    def urns(self, share: Whole) -> Urns:
        """Return the urns of a unit, given its balls by compartment."""
        ends = np.cumsum([len(urn) for urn in self._balls])[:-1]
        return Urns([part.tolist() for part in np.split(share, ends)])

    def through(
        self, noise: Keystream, cells: Cells, balls: Urns
    ) -> tuple[npt.NDArray[Any], Cells]:
        """Return the part of each row, and the cell that it shows. `balls` are the urns of the unit
        of these rows.
        """
        urns = self._urn[cells.astype(np.int64)]
        if (urns < 0).any():
            raise ChangedError(CHANGED)
        try:
            drawn = balls.draw(noise, urns)
        except LookupError:
            raise ChangedError(CHANGED) from None
        numbers, places = self._part[drawn], self._place[drawn]
        shown = np.empty_like(cells)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._parts)))
        for part, rows in zip(self._parts, np.split(order, ends[:-1]), strict=True):
            domain = np.array(part.domain, np.uint64)
            kept = keep_or_replace(noise, places[rows], len(domain), part.keep)
            shown[rows] = domain[kept]
        return numbers, shown


@dataclass(frozen=True)
class DealKernel:
    """Deals the rows of a unit: `sensitive` are the places of the sensitive columns.

    The part of a row becomes its last column.
    """

    deal: Deal
    radix: CellKeys
    sensitive: tuple[int, ...]

    def __call__(
        self, stream: Keystream, pieces: Iterator[list[npt.NDArray[Any]]], given: Whole | None
    ) -> Iterator[Made]:
        if given is None:  # a unit that had no rows when they were counted
            if any(len(columns[0]) for columns in pieces):
                raise ChangedError(CHANGED)
            return
        urns = self.deal.urns(given)
        for columns in pieces:
            hidden = [columns[place] for place in self.sensitive]
            numbers, shown = self.deal.through(stream, self.radix.pack(hidden), urns)
            types = [np.dtype(column.dtype) for column in hidden]
            for place, codes in zip(self.sensitive, self.radix.unpack(shown, types), strict=True):
                columns[place] = codes
            yield ([*columns, numbers],)
        if urns.left:
            raise ChangedError(CHANGED)
