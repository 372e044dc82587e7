"""Rows that are matched with others by the cell that they are in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def match_cells(wanted: Integers, held: Integers, generator: np.random.Generator) -> Integers:
    """Return for each wanted cell the place of a row that is in it, each row about as often as the
    others of its cell; of a cell without rows, that of any row.
    """
    order = generator.permutation(len(held))
    order = order[np.argsort(held[order], kind="stable")]
    cells, starts, sizes = np.unique(held[order], return_index=True, return_counts=True)
    if not len(cells):
        return np.zeros(0, np.int64)
    place = np.searchsorted(cells, wanted).clip(max=len(cells) - 1)
    there = cells[place] == wanted
    turn = _turns(wanted)
    found = order[starts[place] + turn % sizes[place]]
    anyone = generator.integers(len(held), size=len(wanted))
    return np.where(there, found, anyone)


def _turns(values: Integers) -> Integers:
    """Return how often each value occurred before."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(starts, len(values)))
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - np.repeat(starts, sizes)
    return found
