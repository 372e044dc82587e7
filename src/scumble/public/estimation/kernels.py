"""Compiled loops of the estimators. Import this module only where one runs: compiling is slow."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

# Rows at a time: their codes and cells stay in the first-level cache for all tables.
_BLOCK = 2048
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def count_cells(
    codes: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Add each row to its cell in every table: the cells of table t begin at starts[t]."""
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                counts[cells[row]] += np.uint32(1)


@_compiled
def count_members(
    codes: npt.NDArray[Any],
    bags: npt.NDArray[Any],
    listed: bool,
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
) -> None:
    """Add each row's bag to its cells, of which there is one for every value. A bag is a list of
    its members, or tells how often it holds each value.
    """
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                bag, cell = bags[begin + row], cells[row]
                for place in range(len(bag)):
                    if listed:
                        counts[cell + bag[place]] += np.uint64(1)
                    else:
                        counts[cell + place] += np.uint64(bag[place])


@_compiled
def _place(
    codes: npt.NDArray[Any],
    begin: int,
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    start: int,
    cells: npt.NDArray[np.uint32],
) -> int:
    """Find the cells of a block of rows in one table. How many rows that are."""
    size = int(min(_BLOCK, codes.shape[1] - begin))
    cells[:] = start
    # Column by column this is arithmetic that the compiler turns into vector instructions.
    for axis in range(len(places)):
        stride = np.uint32(strides[axis])
        if stride:
            column = codes[places[axis], begin : begin + size]
            for row in range(size):
                cells[row] += stride * np.uint32(column[row])
    return size
