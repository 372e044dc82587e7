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
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
) -> None:
    """Add each row's bag, given by how often it holds each value, to its cells, one for a value."""
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                cell = cells[row]
                for value in range(bags.shape[1]):
                    counts[cell + value] += np.uint64(bags[begin + row, value])


@_compiled
def count_listed(
    codes: npt.NDArray[Any],
    bags: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
) -> None:
    """The same for bags that are lists of values."""
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                for member in range(bags.shape[1]):
                    counts[cells[row] + bags[begin + row, member]] += np.uint64(1)


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
