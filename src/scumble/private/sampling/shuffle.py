"""Items in a uniformly random order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.bits import CHUNK
from scumble.private.sampling.source import Source


def shuffle(source: Source, items: NDArray[Any], starts: NDArray[np.int64]) -> None:
    """Put the items of each part, `items[starts[k]:starts[k + 1]]`, into a random order of their
    own, in place; all orders are equally likely, exactly.

    Parts must follow each other and cover all items.
    """
    from scumble.private.sampling import shuffle_kernels

    parts, part, row = len(starts) - 1, 0, 0
    words = np.empty(min(len(items) + 1, CHUNK), np.uint64)
    while part < parts:
        source.fill(words)
        part, row = shuffle_kernels.exchange(words, items, starts, part, row)
