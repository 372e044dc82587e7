"""Compiled loops over intervals of counts. Import this module only where one runs: compiling is
slow.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def _add(counts: Array, sums: Array, rank: int, many: int, amount: int) -> None:
    """Into two trees of partial sums by rank (Fenwick)."""
    place = rank + 1
    while place < len(counts):
        counts[place] += many
        sums[place] += amount
        place += place & -place


@_compiled
def deviations(ranks: Array, values: Array, length: int, out: Array) -> None:
    """For every interval of one length the sum of distances of its numbers from their median;
    number i is values[ranks[i]], `values` rising.
    """
    size = len(values)
    counts, sums = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    highest = 1
    while 2 * highest <= size:
        highest *= 2
    wanted = (length + 1) // 2
    total = 0
    for end in range(len(ranks)):
        value = values[ranks[end]]
        total += value
        _add(counts, sums, ranks[end], 1, value)
        begin = end - length + 1
        if begin > 0:
            gone = values[ranks[begin - 1]]
            total -= gone
            _add(counts, sums, ranks[begin - 1], -1, -gone)
        if begin >= 0:
            # Down the tree to the median: `below` numbers, of the sum `amount`, are less than it.
            place, below, amount, step = 0, 0, 0, highest
            while step:
                if place + step <= size and below + counts[place + step] < wanted:
                    place += step
                    below += counts[place]
                    amount += sums[place]
                step //= 2
            median = values[place]
            out[begin] = median * below - amount + (total - amount) - median * (length - below)


@_compiled
def cheapest(costs: Array, starts: Array, lengths: Array, last: Array) -> None:
    """The length of the last interval in the cheapest partition of each prefix, the shortest of
    equally good ones; costs[starts[k] + i] is that of the interval from i of length lengths[k].
    """
    size = len(last) - 1
    best = np.zeros(size + 1, np.int64)
    for end in range(1, size + 1):
        for kind in range(len(lengths)):
            begin = end - lengths[kind]
            if begin < 0:
                break
            cost = best[begin] + costs[starts[kind] + begin]
            if kind == 0 or cost < best[end]:
                best[end] = cost
                last[end] = lengths[kind]
