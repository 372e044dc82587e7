"""The loops of `kernels` in numpy, with the same results from the same bits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt


def count_cells(
    codes: npt.NDArray[Any],
    _sizes: npt.NDArray[np.int64],
    _constant: npt.NDArray[np.bool_],
    _ends: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Add each row to its cell in every table."""
    for table, (first, last) in enumerate(pairwise(starts.tolist())):
        cells = np.zeros(codes.shape[1], np.int64)
        for place, stride in zip(places[table], strides[table], strict=True):
            if stride:
                cells += codes[place].astype(np.int64) * stride
        counts[first:last] += np.bincount(cells, minlength=last - first).astype(np.uint32)


def clause_sums(
    places: npt.NDArray[np.int32],
    terms: npt.NDArray[np.float64],
    truths: npt.NDArray[np.bool_],
    clauses: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    out: npt.NDArray[np.float64],
) -> None:
    """Write the sums of the cells for which all clauses of each question hold."""
    for question in range(len(starts) - 1):
        holds: Any = np.ones(places.shape[1], bool)
        for row, begin in clauses[starts[question] : starts[question + 1]]:
            holds &= truths[begin + places[row]]
        for term in range(len(terms)):
            # The loop adds one cell after the other, and so does this function.
            out[question, term] = np.bincount(holds, terms[term], 2)[1]
