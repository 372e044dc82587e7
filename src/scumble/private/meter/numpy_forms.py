"""The numpy form of the loop of trees of contexts (see `kernels`)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def longest_contexts(
    codes: Array, place: Array, children: Array, end: int, nodes: Array, before: Array
) -> None:
    """Write the longest split context before each symbol, and the code before that context."""
    nodes[:] = 0
    at = np.arange(len(codes))
    back = 1
    while len(at):
        code = np.where(place[at] >= back, codes[at - back], end)
        before[at] = code
        child = children[nodes[at] * (end + 1) + code]
        at = at[child >= 0]
        nodes[at] = child[child >= 0]
        back += 1
