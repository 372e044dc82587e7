"""Whole numbers from 0 to below a bound, all equally likely."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import whole
from scumble.private.sampling.bits import chunks
from scumble.private.sampling.source import Source

_WORD = 1 << 64


def integers(source: Source, bound: int, size: int) -> NDArray[Any]:
    """Independent uniform numbers below `bound`: uint64 up to 2**64, Python integers beyond.

    The high word of word * bound is the number; a low word below 2**64 mod bound is refused and
    drawn again, which leaves every number exactly the same share (Lemire, 2019).
    """
    bound = whole("integers", "bound", bound, least=1)
    if bound > _WORD:
        return _long(source, bound, size)
    if bound == _WORD:
        return source.words(size)
    from scumble.private.sampling import kernels

    out = np.empty(size, np.uint64)
    refuse = np.uint64(_WORD % bound)
    for part in chunks(size):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            words = source.words(len(rows))
            count = kernels.scale(words, np.uint64(bound), refuse, target, rows)
            rows = rows[:count]
    return out


def _long(source: Source, bound: int, size: int) -> NDArray[Any]:
    """The same beyond 64 bits, by drawing as many bits as the bound has until they lie below it."""
    bits = (bound - 1).bit_length()
    out = np.empty(size, object)
    for row in range(size):
        number = source.bits(bits)
        while number >= bound:
            number = source.bits(bits)
        out[row] = number
    return out
