"""Strategies that are known beforehand: cells, hierarchies of intervals, and Haar's wavelet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scumble.model.designs.strategy import Integers, Strategy, whole

FANOUTS = (2, 4, 8, 16, 32, 64)


def identity(cells: int) -> Strategy:
    """Every cell by itself."""
    from scipy.sparse import eye_array

    return whole("cells", eye_array(cells, dtype=np.int64))


def hierarchy(cells: int, fanout: int) -> Strategy:
    """Every cell, every interval of `fanout` cells, of `fanout`² cells, ..., and all cells."""
    return whole(hierarchy_name(fanout), _stacked(cells, widths(cells, fanout)))


def hierarchy_name(fanout: int) -> str:
    """How it is called among others."""
    return f"hierarchy of fan-out {fanout}"


def widths(cells: int, fanout: int) -> list[int]:
    """The widths of the intervals of a hierarchy, from 1 to one that holds all cells."""
    found = [1]
    while found[-1] < cells:
        found.append(found[-1] * fanout)
    return found


def intervals(cells: int, widths: Sequence[int]) -> Integers:
    """One row of ones and zeros for every interval of some widths."""
    return np.asarray(_stacked(cells, widths).toarray(), np.int64)


def wavelet(cells: int) -> Strategy:
    """The sum of all cells; and of every interval, halved again and again, left half less right."""
    from scipy.sparse import csr_array

    rows, columns, entries = [np.zeros(cells, np.int64)], [np.arange(cells)], [np.ones(cells, int)]
    level, row = [(0, cells)], 1
    while level:
        below = []
        for begin, end in level:
            if end - begin < 2:
                continue
            middle = (begin + end + 1) // 2
            rows.append(np.full(end - begin, row))
            columns.append(np.arange(begin, end))
            entries.append(np.where(np.arange(begin, end) < middle, 1, -1))
            below += [(begin, middle), (middle, end)]
            row += 1
        level = below
    places = np.concatenate(rows), np.concatenate(columns)
    return whole("wavelet", csr_array((np.concatenate(entries), places), shape=(row, cells)))


def _stacked(cells: int, widths: Sequence[int]) -> Any:
    from scipy.sparse import csr_array

    every = np.arange(cells)
    firsts = np.cumsum([0, *(-(-cells // width) for width in widths)])
    rows = np.concatenate(
        [first + every // width for first, width in zip(firsts, widths, strict=False)]
    )
    ones = np.ones(len(rows), np.int64)
    return csr_array((ones, (rows, np.tile(every, len(widths)))), shape=(firsts[-1], cells))
