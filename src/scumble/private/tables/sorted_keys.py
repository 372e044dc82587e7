"""Sorted runs: keys in order by sorting pieces, and the merge of the pieces in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# One word per key, or one row of words per key with the first word counting most.
Keys = npt.NDArray[np.uint64]


def in_order(keys: Keys) -> Keys:
    """Keys sorted; of several words, the first decides nearly all, which is three times as fast."""
    if keys.ndim == 1:
        return np.sort(keys)
    ordered = keys[np.argsort(keys[:, 0])]
    same = ordered[1:, 0] == ordered[:-1, 0]
    if same.any():
        tied = np.append(same, False) | np.insert(same, 0, False)
        ties = ordered[tied]
        ordered[tied] = ties[np.lexsort(ties.T[::-1])]
    return ordered


def merged(runs: Sequence[Keys], chunk: int) -> Iterator[Keys]:
    """All keys of sorted runs in order, in pieces of `chunk` keys."""
    return _regrouped(runs if len(runs) == 1 else _ranges(runs, chunk), chunk)


def _ranges(runs: Sequence[Keys], chunk: int) -> Iterator[Keys]:
    """Keys in order, cut at the same keys in every run.

    Cuts are taken from each run so often that the keys between two of them are few; only a cut
    itself can stand for many rows, and these are all equal and take no memory.
    """
    step = max(1, chunk // len(runs))
    cuts = np.unique(np.concatenate([run[::step] for run in runs]), axis=0)
    starts = [_places(run, cuts, "left") for run in runs]
    ends = [_places(run, cuts, "right") for run in runs]
    stops = [np.append(start[1:], len(run)) for start, run in zip(starts, runs, strict=True)]
    for place, cut in enumerate(cuts):
        equal = sum(int(end[place] - start[place]) for start, end in zip(starts, ends, strict=True))
        yield np.broadcast_to(cut, (equal, *cut.shape))
        parts = zip(runs, ends, stops, strict=True)
        yield in_order(np.concatenate([run[end[place] : stop[place]] for run, end, stop in parts]))


def _regrouped(parts: Iterable[Keys], chunk: int) -> Iterator[Keys]:
    """The same keys in pieces of exactly `chunk`, but for the last."""
    waiting: list[Keys] = []
    missing = chunk
    for part in parts:
        while len(part) >= missing:
            waiting.append(part[:missing])
            part = part[missing:]
            yield np.concatenate(waiting)
            waiting, missing = [], chunk
        if len(part):
            waiting.append(part)
            missing -= len(part)
    if waiting:
        yield np.concatenate(waiting)


def _places(run: Keys, cuts: Keys, side: Any) -> npt.NDArray[np.intp]:
    return np.searchsorted(_comparable(run), _comparable(cuts), side)


def _comparable(keys: Keys) -> npt.NDArray[Any]:
    """Keys as single items that compare in the right order."""
    if keys.ndim == 1:
        return keys
    fields = np.dtype([(f"word{place}", np.uint64) for place in range(keys.shape[1])])
    return np.ascontiguousarray(keys).view(fields).reshape(-1)
