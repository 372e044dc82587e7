"""Numba loops that count rows into contingency tables, and that add up cells.

Import this module only where a loop runs: compiling takes time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.compiled import kernel
from scumble.public.estimation import numpy_forms

# Rows at a time: their codes and cells stay in the first-level cache for all tables.
_BLOCK = 2048


def _cells_counted(codes: npt.NDArray[Any], places: npt.NDArray[np.int64], *others: Any) -> int:
    return int(codes.shape[1]) * len(places) + len(others[-1])


@kernel(numpy_form=numpy_forms.count_cells, steps=_cells_counted, nanoseconds=5)
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


def _cells_read(places: npt.NDArray[np.int32], *others: Any) -> int:
    return int(places.shape[1]) * len(others[-1])


@kernel(numpy_form=numpy_forms.clause_sums, steps=_cells_read, nanoseconds=18)
def clause_sums(
    places: npt.NDArray[np.int32],
    terms: npt.NDArray[np.float64],
    truths: npt.NDArray[np.bool_],
    clauses: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    out: npt.NDArray[np.float64],
) -> None:
    """Write to `out`, by question, the sums of `terms` over the cells for which all its clauses
    hold.

    Question q has the clauses from `starts[q]` to before `starts[q + 1]`. A clause is a row of
    `places`, which has the place of each cell among the combinations of values of its attributes,
    and the place at which its truth for these combinations begins in `truths`.
    """
    cells = places.shape[1]
    chosen, sums = np.empty(cells, np.int64), np.empty(len(terms))
    by_cell = terms.T.copy()
    for question in range(len(starts) - 1):
        count = cells
        for clause in range(starts[question], starts[question + 1]):
            row, begin = clauses[clause]
            left, count = count, 0
            if clause == starts[question]:
                for cell in range(cells):  # no branches, which the processor could not predict
                    chosen[count] = cell
                    count += truths[begin + places[row, cell]]
            else:
                for cell in chosen[:left]:
                    chosen[count] = cell
                    count += truths[begin + places[row, cell]]
        if starts[question] == starts[question + 1]:
            chosen[:] = np.arange(cells)
        sums[:] = 0.0
        for cell in chosen[:count]:
            for term in range(len(terms)):
                sums[term] += by_cell[cell, term]
        out[question] = sums
