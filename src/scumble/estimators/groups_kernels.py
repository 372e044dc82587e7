"""The inner loops over rows and groups, compiled by numba on first use."""

from __future__ import annotations

from typing import Any

import numba

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def count_hits(bits: Array, offset: int, groups: Array, wanted: Array, found: Array) -> None:
    """Add to the number of each group that is wanted its rows whose bit is set."""
    for row in range(len(groups)):
        place = row + offset
        # The flags of all groups are small enough for a cache, their numbers are not.
        if (bits[place >> 3] >> (place & 7)) & 1 and wanted[groups[row]]:
            found[groups[row]] += 1


@_compiled
def add_up(groups: Array, counts: Array, totals: Array) -> None:
    """Add the counts to the totals of their groups."""
    for line in range(len(groups)):
        totals[groups[line]] += counts[line]
