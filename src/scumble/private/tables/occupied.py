"""Occupied cells: the cells of a product of attributes that have rows, without the product."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

_WAITING = 1 << 22  # keys that wait, at least, before they are made one with those known


@dataclass(frozen=True)
class Occupied:
    """Keys in order, each once (a row of words where one word is too small), and their counts."""

    keys: Keys
    counts: Counts


def occupied(batches: Iterable[Keys]) -> Occupied:
    """The cells that rows are in, given the keys of the rows, in one batch or more.

    Memory is in the number of occupied cells and of a few million rows.
    """
    known: Occupied | None = None
    pieces: list[Occupied] = []
    waiting = 0
    for keys in batches:
        pieces.append(_counted(keys, np.ones(len(keys), np.int64)))
        waiting += len(pieces[-1].keys)
        if waiting > _WAITING and (known is None or waiting > len(known.keys)):
            known, pieces, waiting = _together(known, pieces), [], 0
    return _together(known, pieces)


def _together(known: Occupied | None, pieces: list[Occupied]) -> Occupied:
    all_ = pieces if known is None else [known, *pieces]
    if len(all_) == 1:
        return all_[0]
    keys = np.concatenate([piece.keys for piece in all_])
    return _counted(keys, np.concatenate([piece.counts for piece in all_]))


def _counted(keys: Keys, counts: Counts) -> Occupied:
    order = np.argsort(keys) if keys.ndim == 1 else np.lexsort(keys.T[::-1])
    ordered = keys[order]
    differs = ordered[1:] != ordered[:-1]
    first = np.ones(len(keys), bool)
    first[1:] = differs if keys.ndim == 1 else differs.any(axis=1)
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]
    return Occupied(ordered[starts], sums)
