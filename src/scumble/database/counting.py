"""True counts and sums over boxes of a private table, which is held as codes.

Where the space is small, a table of cumulative counts answers every box in a few look-ups; else the
rows are compared with the box, all of them every time, so that the time tells nothing about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.engine.rows import Rows
from scumble.publishers.runs import in_order
from scumble.radix import Radix

Box = npt.NDArray[np.int64]
Boxes = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger]
Integers = npt.NDArray[np.int64]

MOST_CELLS = 1 << 25  # of a table of cumulative counts: 256 MiB


class Counter:
    """The rows of a table as codes of some attributes."""

    def __init__(self, columns: Iterable[Codes], sizes: Iterable[int]) -> None:
        self._columns = list(columns)
        self._sizes = tuple(sizes)
        self.rows = len(self._columns[0])
        small = prod(self._sizes) <= MOST_CELLS
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

    def counts(self, boxes: Boxes) -> Integers:
        """How many rows are in each box."""
        if self._cumulative is not None:
            return np.array([self._looked_up(box) for box in boxes], np.int64)
        return np.array([np.count_nonzero(self._inside(box)) for box in boxes], np.int64)

    def sums(self, boxes: Boxes, axis: int, amounts: Integers) -> Integers:
        """For each box the sum of `amounts` at the code that each of its rows has of an
        attribute.
        """
        of_rows = amounts[self._columns[axis]]
        return np.array([of_rows[self._inside(box)].sum() for box in boxes], np.int64)

    def fingerprint(self, key: bytes) -> str:
        """A digest of the rows in any order; the secret key keeps it from being guessed."""
        keys = in_order(Radix(self._sizes).pack(self._columns))
        digest = hashlib.blake2b(repr(self._sizes).encode(), key=key, digest_size=16)
        digest.update(np.ascontiguousarray(keys).data)
        return digest.hexdigest()

    def _inside(self, box: Box) -> npt.NDArray[np.bool_]:
        inside = np.ones(self.rows, bool)
        for column, size, (low, high) in zip(self._columns, self._sizes, box, strict=True):
            if (low, high) != (0, size - 1):
                inside &= (column >= low) & (column <= high)
        return inside

    def _cumulated(self) -> Integers:
        """Counts of all rows with codes below, with a row of zeros at the start of each axis."""
        flat = np.ravel_multi_index([c.astype(np.intp) for c in self._columns], self._sizes)
        cells = np.bincount(flat, minlength=prod(self._sizes)).reshape(self._sizes)
        table = np.zeros([size + 1 for size in self._sizes], np.int64)
        table[(slice(1, None),) * len(self._sizes)] = cells
        for axis in range(len(self._sizes)):
            np.cumsum(table, axis=axis, out=table)
        return table

    def _looked_up(self, box: Box) -> int:
        """Inclusion and exclusion over the corners of the box."""
        total = 0
        for corner in product((0, 1), repeat=len(box)):
            place = tuple(
                high + 1 if end else low for end, (low, high) in zip(corner, box, strict=True)
            )
            sign = -1 if (len(box) - sum(corner)) % 2 else 1
            total += sign * int(self._cumulative[place])  # type: ignore[index]  # asked before
        return total
