"""Partitions of a row of counts into buckets whose counts are nearly equal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Buckets:
    """All intervals whose length is a power of two, of a row of so many counts: what partitions are
    made of. They are numbered by length, then by begin.
    """

    size: int

    @cached_property
    def lengths(self) -> Integers:
        return 1 << np.arange(self.size.bit_length())

    @cached_property
    def starts(self) -> Integers:
        """The number of the first interval of each length."""
        return np.cumsum([0, *(self.size - self.lengths + 1)])[:-1]

    @property
    def many(self) -> int:
        return int((self.size - self.lengths + 1).sum())

    def deviations(self, counts: Integers) -> Integers:
        """For each interval the sum of distances of its counts from their median, a whole number.

        It is the least Σ |count - m| over all m. For every m that sum changes by at most 1 if one
        of the counts does, so the least one does too.
        """
        from scumble.model.designs import partition_kernels

        values, ranks = np.unique(counts, return_inverse=True)
        out = np.zeros(self.many, np.int64)
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            part = out[start : start + self.size - length + 1]
            partition_kernels.deviations(ranks, values, length, part)
        return out

    def cheapest(self, costs: Integers) -> Integers:
        """The last place of every bucket of the cheapest partition; of equally cheap ones, that
        with the shortest last bucket, then the shortest before it, and so on.
        """
        from scumble.model.designs import partition_kernels

        last = np.zeros(self.size + 1, np.int64)
        partition_kernels.cheapest(costs, self.starts, self.lengths, last)
        ends, end = [], self.size
        while end:
            ends.append(end - 1)
            end -= int(last[end])
        return np.array(ends[::-1], np.int64)
