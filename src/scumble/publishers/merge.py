"""Merging: neighbouring groups joined to the parts whose errors are bounded lowest together."""

from __future__ import annotations

import math
from collections import defaultdict
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
    computed exactly elsewhere.
    """

    def __init__(
        self, groups: Sequence[Mapping[int, int]], rare: Collection[int], rho2: float
    ) -> None:
        self._rho2 = rho2
        self._sizes = np.array([sum(group.values()) for group in groups])
        holders: dict[int, dict[int, int]] = defaultdict(dict)
        for place, group in enumerate(groups):
            for value, count in group.items():
                holders[value][place] = count
        # Values of one group only are the same in every order: their number and the largest count.
        self._own = np.zeros(len(groups), np.int64)
        self._own_largest = np.zeros(len(groups), np.int64)
        self._shared: list[tuple[bool, dict[int, int]]] = []
        for value, counts in holders.items():
            if len(counts) > 1:
                self._shared.append((value in rare, counts))
                continue
            [(place, count)] = counts.items()
            self._own[place] += 1
            if value in rare:
                self._own_largest[place] = max(count, self._own_largest[place])

    @property
    def work(self) -> int:
        """How many numbers are looked at for one order, roughly."""
        return len(self._sizes) ** 2 + sum(10 * len(counts) for _, counts in self._shared)

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
        size = len(order)
        where = {group: place for place, group in enumerate(order)}
        corners = np.zeros((size + 1, size + 1), np.int64)
        places = np.arange(size)
        corners[0, :size] = self._own[list(order)]
        corners[places + 1, places] = -self._own[list(order)]
        largest = np.diag(self._own_largest[list(order)])
        for is_rare, counts in self._shared:
            found = np.array(sorted(where[group] for group in counts))
            # It counts anew in the runs that begin after its place before, and end at its place or
            # later: where these begin and end is noted, and summed up below.
            corners[np.concatenate([[0], found[:-1] + 1]), found] += 1
            corners[found + 1, found] -= 1
            if is_rare:
                _note(largest, found, np.array([counts[order[place]] for place in found]))
        values = corners.cumsum(axis=0).cumsum(axis=1)[:size, :size]
        longer = np.maximum.accumulate(largest[::-1], axis=0)[::-1]
        return values, np.maximum.accumulate(longer, axis=1)


def _note(largest: Whole, found: Whole, counts: Whole) -> None:
    """Note a value's sum in the runs from any of its places to another; longer runs have it too."""
    sums = np.cumsum(counts)
    runs = np.triu(sums[None, :] - sums[:, None] + counts[:, None])
    corner = np.ix_(found, found)
    largest[corner] = np.maximum(largest[corner], runs)
