"""Compiled loops of the estimators. Import this module only where one of them runs: compiling is slow."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def count_cells(
    codes: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Add each row to its cell in every table: table t counts cells from starts[t] on."""
    tables, width = places.shape
    rows = codes.shape[1]
    for table in range(tables):
        begin = starts[table]
        first = codes[places[table, 0]]
        second = codes[places[table, min(1, width - 1)]]
        third = codes[places[table, min(2, width - 1)]]
        one, two, three = strides[table, 0], np.int64(0), np.int64(0)
        if width > 1:
            two = strides[table, 1]
        if width > 2:
            three = strides[table, 2]
        for row in range(rows):
            cell = begin + one * first[row] + two * second[row] + three * third[row]
            for axis in range(3, width):
                cell += strides[table, axis] * codes[places[table, axis], row]
            counts[cell] += 1
