"""Numba loops that count rows into contingency tables.

Import this module only where a loop runs: compiling takes time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.compiled import kernel

# Rows at a time: their codes and cells stay in the first-level cache for all tables.
_BLOCK = 2048


@kernel
def count_cells(
    codes: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Add each row to its cell in every table. The cells of table t begin at `starts[t]`."""
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                counts[cells[row]] += np.uint32(1)


@kernel
def count_members(
    codes: npt.NDArray[Any],
    multisets: npt.NDArray[Any],
    listed: bool,
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
) -> None:
    """Add the members of each row's multiset to its cells, of which there is one for every value.

    If `listed`, a multiset is a list of its members; else it has the multiplicity of each value.
    """
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        for table in range(len(places)):
            size = _place(codes, begin, places[table], strides[table], starts[table], cells)
            for row in range(size):
                multiset, cell = multisets[begin + row], cells[row]
                for place in range(len(multiset)):
                    if listed:
                        counts[cell + multiset[place]] += np.uint64(1)
                    else:
                        counts[cell + place] += np.uint64(multiset[place])


@kernel
def _place(
    codes: npt.NDArray[Any],
    begin: int,
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    start: int,
    cells: npt.NDArray[np.uint32],
) -> int:
    """Write the cells of a block of rows in one table into `cells`; return the number of rows."""
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
