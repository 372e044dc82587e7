"""The channel of uniform perturbation: keep a code, or replace it by one drawn uniformly from
all.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import probability, whole
from scumble.private.sampling.bernoulli import bernoulli
from scumble.private.sampling.bits import MOST, Cuts, chunks, sweep
from scumble.private.sampling.integers import integers
from scumble.private.sampling.source import Source


def keep_or_replace(source: Source, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """Each code with probability `keep`, otherwise a uniform one of 0 to `size - 1`; same type of
    array.

    Codes must be unsigned and below `size`; they are not looked at beyond being copied. The
    replacement may be the same code again.
    """
    keep = probability("keep_or_replace", "keep", keep)
    size = whole("keep_or_replace", "size", size, least=1)
    codes = np.ascontiguousarray(codes)
    if keep == 1 or size == 1:
        return codes.copy()
    if size < MOST:
        return _by_table(source, codes, size, keep)
    return _by_parts(source, codes, size, keep)


def _by_table(source: Source, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """One 16-bit draw decides a row; the few that hit a cut are decided by more bits."""
    from scumble.private.sampling import kernels

    cuts, table = _channel(size, keep)
    out = np.empty_like(codes)

    def decide(part: slice, prefixes: NDArray[np.uint16], pending: NDArray[np.int64]) -> int:
        return int(kernels.replace(codes[part], prefixes, table, size, out[part], pending))

    rows, prefixes = sweep(source, len(codes), decide)
    outcomes = cuts.decide(source, prefixes)
    out[rows] = np.where(outcomes == 0, codes[rows], outcomes - 1)
    return out


@lru_cache(maxsize=64)
def _channel(size: int, keep: Fraction) -> tuple[Cuts, NDArray[Any]]:
    """The cuts (outcome 0 keeps, outcome k + 1 replaces by k) and the table of the compiled
    loop.
    """
    share = (1 - keep) / size
    cuts = Cuts.rational([keep + code * share for code in range(size)])
    # To the loop, entries below `size` are codes, `size` says keep, and `size + 1` is left open.
    entries = np.concatenate([[size], np.arange(size), [size + 1]])
    return cuts, entries[cuts.table].astype(np.uint8 if size <= 254 else np.uint16)


def _by_parts(source: Source, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """First which rows to replace, then by what: for domains too large for a table."""
    out = codes.copy()
    for part in chunks(len(codes)):
        rows = np.flatnonzero(bernoulli(source, 1 - keep, part.stop - part.start))
        out[part][rows] = integers(source, size, len(rows))
    return out
