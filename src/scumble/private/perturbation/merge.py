"""Merging: neighbouring groups joined to the parts whose errors are bounded lowest together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def error_bound(sizes: Sequence[int], keeps: Sequence[float], delta: float) -> float:
    """ε(Part) = Σ |Tᵢ|/|T| · a/(√|Tᵢ|·pᵢ), a = 2·√ln(2/δ).

    The estimated share of a value is off by less with probability 1−δ at least. Proof: the estimate
    is a sum of independent weights, those of a part in an interval of length 1/pᵢ; by Hoeffding
    the probability of an error of ε is at most 2·exp(−2·|T|²ε²/Σ|Tᵢ|/pᵢ²), and
    |T|²ε² = a²·(Σ√|Tᵢ|/pᵢ)² ≥ a²·Σ|Tᵢ|/pᵢ².
    """
    factor = 2 * math.sqrt(math.log(2 / delta)) / sum(sizes)
    return factor * sum(math.sqrt(n) / p for n, p in zip(sizes, keeps, strict=True))


class Merging:
    """The best merge of neighbours, for any order of the groups.

    What is added up and made small is √|Tᵢ|/pᵢ over the parts: the bound, but for a factor that all
    merges share. Floating point serves to choose only: what is promised of the chosen parts is
    computed exactly elsewhere. `work` is how many numbers are looked at for one order, roughly.
    """

    def __init__(
        self, groups: Sequence[Mapping[int, int]], rare: Collection[int], rho2: float
    ) -> None:
        self._rho2 = rho2
        self._sizes = np.array([sum(group.values()) for group in groups])
        times = Counter(value for group in groups for value in group)
        # Values of one group only are the same in every order: their number and the largest count.
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
        """What the best merge in this order comes to."""
        return self._best(order)[0]

    def parts(self, order: Sequence[int]) -> list[tuple[int, ...]]:
        """The groups of each part of the best merge in this order."""
        _, begins = self._best(order)
        parts: list[tuple[int, ...]] = []
        end = len(order)
        while end:
            parts.append(tuple(order[begins[end - 1] : end]))
            end = begins[end - 1]
        return parts[::-1]

    def _best(self, order: Sequence[int]) -> tuple[float, list[int]]:
        """The lowest cost, and where the last part begins for every end: dynamic programming."""
        costs = self._costs(order)
        best, begins = [0.0], []
        for end in range(len(order)):
            options = np.array(best) + costs[: end + 1, end]
            begins.append(int(np.argmin(options)))
            best.append(float(options[begins[-1]]))
        return best[-1], begins

    def _costs(self, order: Sequence[int]) -> Table:
        """√n/p for every run of neighbours, from the row's to the column's, 1/p = m/(γ−1) + 1;
        infinite where γ would not be above 1.
        """
        sizes = np.cumsum([0, *self._sizes[list(order)]])
        rows = np.maximum(sizes[None, 1:] - sizes[:-1, None], 1)
        values, largest = self._runs(order)
        share = largest / rows
        room = np.maximum(self._rho2 - share, 0)
        with np.errstate(divide="ignore"):
            costs: Table = np.sqrt(rows) * (values * share * (1 - self._rho2) / room + 1)
        return costs

    def _runs(self, order: Sequence[int]) -> tuple[Whole, Whole]:
        """How many values each run of neighbours has, and how often the most frequent rare one
        occurs in it.
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
        # Longer runs have what shorter ones have.
        longer = np.maximum.accumulate(largest[::-1], axis=0)[::-1]
        return distinct, np.maximum.accumulate(longer, axis=1)


def _distinct(size: int, own: Whole, values: Whole, places: Whole) -> Whole:
    """How many values the runs have, given the places of each shared value in order.

    A value counts anew in the runs that begin after its place before, at its place at the latest,
    and end at its place or later: the corners of these ranges are noted, and summed up.
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
    """Note the sum of each value in the runs from any of its places to another, by their
    distance.
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
