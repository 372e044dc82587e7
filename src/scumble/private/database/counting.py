"""True counts and sums over boxes of a private table, which is held as codes.

Where the space is small, a table of cumulative counts answers every box in a few look-ups; else the
rows are compared with the box, all of them every time, so that the time tells nothing about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.schema.cell_keys import Radix
from scumble.private.database.space import Box, Boxes
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import in_order

Codes = npt.NDArray[np.unsignedinteger]
Integers = npt.NDArray[np.int64]

MOST_CELLS = 1 << 23  # of a table of cumulative counts: 64 MiB
_MOST_CORNERS = 1 << 10  # of a box; with more, to compare all rows is faster
_HALF = 1 << 26  # amounts are added up in two halves, which no number of rows makes overflow


class Counter:
    """The rows of a table as codes of some attributes."""

    def __init__(self, columns: Iterable[Codes], sizes: Iterable[int]) -> None:
        self._columns = list(columns)
        self._sizes = tuple(sizes)
        self.rows = len(self._columns[0])
        small = prod(size + 1 for size in self._sizes) <= MOST_CELLS
        self._cumulative = self._cumulated() if small else None

    @classmethod
    def over(cls, rows: Rows, names: Iterable[str]) -> Counter:
        """Read all rows; what lies outside its domain is treated as the rows say."""
        listed = list(names)
        batches = list(rows.batches(listed))
        attributes = [rows.schema[name] for name in listed]
        columns = [
            np.concatenate([np.empty(0, attribute.code_type), *(batch[at] for batch in batches)])
            for at, attribute in enumerate(attributes)
        ]
        return cls(columns, [attribute.size for attribute in attributes])

    def counts(self, boxes: Boxes) -> list[int]:
        """How many rows are in each box."""
        table = self._cumulative
        if table is None or 1 << int((boxes[:, :, 0] > 0).any(axis=0).sum()) > _MOST_CORNERS:
            return [int(np.count_nonzero(self._inside(box))) for box in boxes]
        cells = table.reshape(-1)
        return [
            sum(map(cells.item, added)) - sum(map(cells.item, taken))
            for added, taken in map(self._corners, boxes.tolist())
        ]

    def sums(self, boxes: Boxes, axis: int, amounts: Integers) -> list[int]:
        """For each box the sum of the amounts that its rows have by their codes of an attribute."""
        high, low = np.divmod(amounts, _HALF)
        column = self._columns[axis]
        high_of_rows, low_of_rows = high[column], low[column]
        found = []
        for box in boxes:
            inside = self._inside(box)  # multiplied by, since a selection would take its size
            halves = (int((part * inside).sum()) for part in (high_of_rows, low_of_rows))
            found.append(next(halves) * _HALF + next(halves))
        return found

    def fingerprint(self, key: bytes) -> str:
        """A digest of the rows in any order; the secret key keeps it from being guessed."""
        keys = in_order(Radix(self._sizes).pack(self._columns))
        digest = hashlib.blake2b(repr(self._sizes).encode(), key=key, digest_size=16)
        digest.update(np.ascontiguousarray(keys).data)
        return digest.hexdigest()

    def _inside(self, box: Box) -> npt.NDArray[np.bool_]:
        inside = np.ones(self.rows, bool)
        for column, size, (low, high) in zip(self._columns, self._sizes, box.tolist(), strict=True):
            if (low, high) != (0, size - 1):
                inside &= (column >= low) & (column <= high)
        return inside

    def _corners(self, box: list[list[int]]) -> tuple[list[int], list[int]]:
        """Where in the table the counts of a box's corners stand: to be added, to be taken away.

        Most questions have one box with a few corners, for which arrays take longer.
        """
        added, taken = [0], list[int]()
        for size, (low, high) in zip(self._sizes, box, strict=True):
            one = [place * (size + 1) + high + 1 for place in added]
            other = [place * (size + 1) + high + 1 for place in taken]
            if low:  # nothing lies below a box that begins at 0
                one += [place * (size + 1) + low for place in taken]
                other += [place * (size + 1) + low for place in added]
            added, taken = one, other
        return added, taken

    def _cumulated(self) -> Integers:
        """Counts of all rows with codes below, with a row of zeros at the start of each axis."""
        flat = np.ravel_multi_index([c.astype(np.intp) for c in self._columns], self._sizes)
        cells = np.bincount(flat, minlength=prod(self._sizes)).reshape(self._sizes)
        table = np.zeros([size + 1 for size in self._sizes], np.int64)
        table[(slice(1, None),) * len(self._sizes)] = cells
        for axis in range(len(self._sizes)):
            np.cumsum(table, axis=axis, out=table)
        return table
