"""Counts whose conditions on rows and on values are apart: the groups behind each answer, counted
by how many of their rows and values satisfy it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.public.estimation.anatomy.groups_kinds import Kinds
from scumble.public.estimation.anatomy.groups_law import GroupedCount
from scumble.public.estimation.anatomy.groups_layout import Layout

Integers = npt.NDArray[np.int64]

# Keys that are written down at a time.
_BLOCK = 1 << 20


def counts(layout: Layout, rows: Kinds, values: Kinds) -> Iterator[tuple[int, int, GroupedCount]]:
    """The law of the count for every kind of row and of value that meet."""
    radix = np.array([values.size, layout.most_rows + 1, layout.most_values + 1, len(layout.sorts)])
    if rows.size * np.prod(radix.astype(object)) >= 1 << 63:
        raise QueryError("The answer would have too many groups. Group by fewer attributes.")
    codes, times = _codes(layout, rows, values, radix)
    digits = []
    for base in radix[::-1]:
        codes, digit = np.divmod(codes, base)
        digits.append(digit)
    sort, value_times, row_times, column = digits
    ends = np.flatnonzero(np.diff(codes * values.size + column, append=-1)) + 1
    for begin, end in pairwise([0, *ends.tolist()]):
        part = slice(begin, end)
        law = GroupedCount(
            row_times[part], value_times[part], layout.sorts[sort[part]], times[part]
        )
        yield int(codes[begin]), int(column[begin]), law


def _codes(
    layout: Layout, rows: Kinds, values: Kinds, radix: Integers
) -> tuple[Integers, Integers]:
    """Keys, numbers of rows and of values, and sort of the groups, as one number each, sorted; and
    how many groups have it.
    """
    from scumble.public.estimation.anatomy.kernels import count_keys

    most = min(layout.most_rows, rows.size) * min(layout.most_lines, values.size)
    step = max(_BLOCK // max(most, 1), 1)
    # Each pair of types is compiled for itself: let there be two.
    kind = np.result_type(rows.of, values.of)
    shown, hidden = (each.of.astype(kind, copy=False) for each in (rows, values))

    def count(first: int) -> tuple[Integers, Integers]:
        codes = np.empty(step * most, np.int64)
        written = count_keys(
            (first, min(first + step, layout.groups)),
            (layout.rows.starts, shown),
            (layout.values.starts, hidden),
            layout.counts,
            layout.sort,
            radix,
            codes,
        )
        found = pa.array(codes[:written]).value_counts()
        return found.field("values").to_numpy(), found.field("counts").to_numpy()

    nothing = np.empty(0, np.int64)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [(nothing, nothing), *pool.map(count, range(0, layout.groups, step))]
    codes, places = np.unique(np.concatenate([part for part, _ in found]), return_inverse=True)
    times = np.zeros(len(codes), np.int64)
    np.add.at(times, places, np.concatenate([part for _, part in found]))
    return codes, times
