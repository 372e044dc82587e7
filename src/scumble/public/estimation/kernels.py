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


def _cells_counted(codes: npt.NDArray[Any], *others: Any) -> int:
    return int(codes.shape[1]) * len(others[-2]) + len(others[-1])


@kernel(numpy_form=numpy_forms.count_cells, steps=_cells_counted, nanoseconds=5)
def count_cells(
    codes: npt.NDArray[Any],
    sizes: npt.NDArray[np.int64],
    constant: npt.NDArray[np.bool_],
    ends: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Add each row to its cell in every table. The cells of table t begin at `starts[t]`.

    `sizes` are the numbers of codes of the columns. Rows come in stretches, which end at `ends`, in
    which the columns of `constant` have one code. What the other columns add to the cell of a row
    is often the same in several tables, and is then computed, or counted, once.
    """
    inner = _inner_strides(places, strides, constant)
    order, firsts = _same_lines(inner)
    spans = 1 + (inner * (sizes - 1)).sum(axis=1)  # more than the inner columns can add to a cell
    first = np.empty(len(places), np.int64)
    cells, few = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    begin = 0
    for stop in ends:
        while begin < stop:
            end = min(stop, begin + _BLOCK)
            for table in range(len(places)):
                first[table] = starts[table]
                for axis in range(places.shape[1]):
                    if constant[places[table, axis]]:
                        code = np.int64(codes[places[table, axis], begin])
                        first[table] += strides[table, axis] * code
            for kind in range(len(firsts) - 1):
                tables = order[firsts[kind] : firsts[kind + 1]]
                span, some = spans[tables[0]], cells[: end - begin]
                if span > 1:
                    _place(codes, begin, end, inner[tables[0]], some)
                _count_block(some, span, first, tables, few, counts)
            begin = end


@kernel
def _inner_strides(
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    constant: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Return by table and column the stride of a column that is not constant; 0 for the others."""
    found = np.zeros((len(places), len(constant)), np.int64)
    for table in range(len(places)):
        for axis in range(places.shape[1]):
            if not constant[places[table, axis]]:
                found[table, places[table, axis]] += strides[table, axis]
    return found


@kernel
def _same_lines(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lines of a matrix, equal ones beside each other, and where each kind begins."""
    order, firsts = np.empty(len(numbers), np.int64), np.empty(len(numbers) + 1, np.int64)
    listed = np.zeros(len(numbers), np.bool_)
    size = kinds = 0
    for line in range(len(numbers)):
        if listed[line]:
            continue
        firsts[kinds] = size
        kinds += 1
        for other in range(line, len(numbers)):
            column = 0
            while column < numbers.shape[1] and numbers[other, column] == numbers[line, column]:
                column += 1
            if column == numbers.shape[1]:
                listed[other] = True
                order[size] = other
                size += 1
    firsts[kinds] = size
    return order, firsts[: kinds + 1]


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


@kernel
def _count_block(
    cells: npt.NDArray[np.uint32],
    span: int,
    first: npt.NDArray[np.int64],
    tables: npt.NDArray[np.int64],
    few: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Count rows in some tables, from the cell `first` of each on. `cells` are below `span`."""
    if span == 1:
        for table in tables:
            counts[first[table]] += np.uint32(len(cells))
    elif len(tables) > 1 and span <= min(len(few), 2 * len(cells)):
        few[:span] = 0
        for row in range(len(cells)):
            few[cells[row]] += np.uint32(1)
        for table in tables:
            here = counts[first[table] : first[table] + span]
            for cell in range(span):
                here[cell] += few[cell]
    else:
        for table in tables:
            begin = np.uint32(first[table])
            for row in range(len(cells)):
                counts[begin + cells[row]] += np.uint32(1)


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
    inner = _inner_strides(places, strides, np.zeros(len(codes), np.bool_))
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
