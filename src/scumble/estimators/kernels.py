"""Compiled loops of the estimators. Import this module only where one runs: compiling is slow."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

# Rows at a time: their codes and cells stay in the first-level cache for all tables.
_BLOCK = 2048


@numba.njit(cache=True, nogil=True)
def count_cells(
    codes: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Add each row to its cell in every table: the cells of table t begin at starts[t]."""
    tables, width = places.shape
    rows = codes.shape[1]
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - begin)
        for table in range(tables):
            cells[:] = starts[table]
            # Column by column this is arithmetic that the compiler turns into vector instructions.
            for axis in range(width):
                stride = np.uint32(strides[table, axis])
                if stride:
                    column = codes[places[table, axis], begin : begin + size]
                    for row in range(size):
                        cells[row] += stride * np.uint32(column[row])
            for row in range(size):
                counts[cells[row]] += np.uint32(1)
