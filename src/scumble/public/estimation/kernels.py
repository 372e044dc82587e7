"""Numba loops that count the members of multisets into contingency tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.compiled import kernel

# Rows at a time: their codes and cells stay in the first-level cache for all tables.
_BLOCK = 2048


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
    inner = _strides_by_column(places, strides, len(codes))
    cells = np.empty(_BLOCK, np.uint32)
    for begin in range(0, codes.shape[1], _BLOCK):
        size = min(_BLOCK, codes.shape[1] - begin)
        for table in range(len(places)):
            _place(codes, begin, begin + size, inner[table], cells[:size])
            for row in range(size):
                multiset, cell = multisets[begin + row], starts[table] + cells[row]
                for place in range(len(multiset)):
                    if listed:
                        counts[cell + multiset[place]] += np.uint64(1)
                    else:
                        counts[cell + place] += np.uint64(multiset[place])


@kernel
def _strides_by_column(
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    columns: int,
) -> npt.NDArray[np.int64]:
    """Return by table and column the stride of the column; 0 where the table has it not."""
    found = np.zeros((len(places), columns), np.int64)
    for table in range(len(places)):
        for axis in range(places.shape[1]):
            found[table, places[table, axis]] += strides[table, axis]
    return found


@kernel
def _place(
    codes: npt.NDArray[Any],
    begin: int,
    end: int,
    strides: npt.NDArray[np.int64],
    cells: npt.NDArray[np.uint32],
) -> None:
    """Write the sums of codes times strides of the rows from `begin` to `end` into `cells`."""
    cells[:] = 0
    # Column by column this is arithmetic that the compiler turns into vector instructions.
    for column in range(len(strides)):
        stride = np.uint32(strides[column])
        if stride:
            own = codes[column, begin:end]
            for row in range(len(own)):
                cells[row] += stride * np.uint32(own[row])
