"""Sorted runs of cell keys, on disk or in memory, and their merge in constant memory.

A run on disk is a plain file of words of 32 or 64 bits. It is read by its places and never mapped
into memory: mapped pages would count as memory of the process as long as the run is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.private.tables.sorted_keys import Keys, sort_keys

SAMPLE = 256  # every key at a multiple of this place is kept in memory


@dataclass(frozen=True)
class StoredRun:
    """A sorted run in a file.

    `samples` are the keys at the places 0, `SAMPLE`, 2 `SAMPLE`, ...
    """

    path: Path
    rows: int
    words: int
    samples: Keys

    @classmethod
    def write(cls, path: Path, keys: Keys) -> StoredRun:
        """Write sorted keys. The file gets its name when it is complete."""
        part = path.with_name(f"{path.name}.part")
        try:
            keys.tofile(part)
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        words = 1 if keys.ndim == 1 else keys.shape[1]
        return cls(path, len(keys), words, keys[::SAMPLE].copy())

    def __len__(self) -> int:
        return self.rows

    def read(self, begin: int, end: int) -> Keys:
        """Return the keys at these places."""
        kind = self.samples.dtype
        size = (min(end, self.rows) - begin) * self.words
        if size <= 0:
            return np.empty(0 if self.words == 1 else (0, self.words), kind)
        found = np.fromfile(self.path, kind, size, offset=kind.itemsize * begin * self.words)
        return found if self.words == 1 else found.reshape(-1, self.words)


class Run:
    """The keys of a run from `begin` to `end`, read in steps and taken from the front."""

    def __init__(self, run: StoredRun | Keys, begin: int = 0, end: int | None = None) -> None:
        self._run = run
        self._next = begin
        self._end = len(run) if end is None else end
        self._held = self._read(0)

    def hold(self, size: int) -> Keys:
        """Return the next keys, at least `size // 2` of them unless the run ends before."""
        if self.ahead and 2 * len(self._held) < size:
            self._held = np.concatenate([self._held, self._read(size - len(self._held))])
        return self._held

    @property
    def ahead(self) -> bool:
        """Whether keys follow that are not held."""
        return self._next < self._end

    def take(self, number: int) -> Keys:
        """Return the first keys that are held, and drop them."""
        found, self._held = self._held[:number], self._held[number:]
        return found

    def _read(self, number: int) -> Keys:
        begin, self._next = self._next, min(self._next + number, self._end)
        if isinstance(self._run, StoredRun):
            return self._run.read(begin, self._next)
        return self._run[begin : self._next]


def merge_sorted(runs: Sequence[Run], chunk: int) -> Iterator[Keys]:
    """Yield all keys of sorted runs in order, in pieces of `chunk` keys; the last may be shorter.

    About two chunks are in memory, whatever the number and the length of the runs.
    """
    return regrouped(_merged(runs, max(1, chunk // max(1, len(runs)))), chunk)


def _merged(runs: Sequence[Run], step: int) -> Iterator[Keys]:
    """Yield the keys in order, in pieces of any size.

    Of every run, the next `step` keys are held. All keys up to the least of the last held ones are
    there: nothing that is still to be read can come before them.
    """
    left = list(runs)
    while left:
        held = [run.hold(step) for run in left]
        lasts = [keys[-1:] for run, keys in zip(left, held, strict=True) if run.ahead]
        if lasts:
            bound = sort_keys(np.concatenate(lasts))[:1]
            ends = [int(_places(keys, bound, "right")[0]) for keys in held]
        else:
            ends = [len(keys) for keys in held]
        parts = [run.take(end) for run, end in zip(left, ends, strict=True) if end]
        if len(parts) > 1:
            yield sort_keys(np.concatenate(parts), merge=True, reuse=True)
        else:
            yield from parts
        left = [run for run in left if run.ahead or len(run.hold(0))]


def regrouped(parts: Iterable[Keys], chunk: int) -> Iterator[Keys]:
    """Yield the same keys in pieces of exactly `chunk`; the last one may be shorter."""
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


def cut_at_ranks(runs: Sequence[StoredRun], ranks: Sequence[int]) -> list[list[int]]:
    """Return, for every rank, one place in each run.

    The keys before the places are the `rank` smallest ones of all runs. Ranks lie between 0 and the
    number of keys, and do not descend. Keys of the same value are taken from the first runs first,
    so that places do not descend either.
    """
    samples = sort_keys(np.concatenate([run.samples for run in runs]))
    total = sum(len(run) for run in runs)
    return [
        [len(run) for run in runs] if rank == total else _cut(runs, samples, rank) for rank in ranks
    ]


def _cut(runs: Sequence[StoredRun], samples: Keys, rank: int) -> list[int]:
    """Return the places that cut off the `rank` smallest keys, of more than `rank`.

    At most m `SAMPLE` keys are smaller than the sample number m of all runs, and more than
    (m + 1 - len(runs)) `SAMPLE` are at most as large. So the key of this rank, counted from 0, lies
    between two samples that are known beforehand, and few keys lie strictly between them.
    """
    low = samples[rank // SAMPLE :][:1]
    high = samples[(rank + 1) // SAMPLE + len(runs) :][:1]
    spans = [_between(run, low, high) for run in runs]
    after = [begin for begin, _ in spans]
    if rank < sum(after):
        below = _all_places(runs, low, "left")
    elif rank >= sum(begin + len(keys) for begin, keys in spans):
        below = [begin + len(keys) for begin, keys in spans]
        after = _all_places(runs, high, "right")
    else:
        between = sort_keys(np.concatenate([keys for _, keys in spans]))
        key = between[rank - sum(after) :][:1]
        below = [begin + int(_places(keys, key, "left")[0]) for begin, keys in spans]
        after = [begin + int(_places(keys, key, "right")[0]) for begin, keys in spans]
    missing = rank - sum(below)
    places = []
    for begin, end in zip(below, after, strict=True):
        taken = min(end - begin, missing)
        places.append(begin + taken)
        missing -= taken
    return places


def _between(run: StoredRun, low: Keys, high: Keys) -> tuple[int, Keys]:
    """Return the keys of a run that are above `low` and below `high`, if there is a `high`, and the
    place of the first of them. One part of the file is read.
    """
    first = max(0, int(_places(run.samples, low, "right")[0]) - 1)
    last = int(_places(run.samples, high, "left")[0]) if len(high) else len(run.samples)
    keys = run.read(first * SAMPLE, max(first + 1, last) * SAMPLE)
    begin = int(_places(keys, low, "right")[0])
    end = int(_places(keys, high, "left")[0]) if len(high) else len(keys)
    return first * SAMPLE + begin, keys[begin:end]


def _all_places(runs: Sequence[StoredRun], key: Keys, side: Any) -> list[int]:
    """Return the exact place of a key in every run, by its samples and one block of the file."""
    found = []
    for run in runs:
        block = int(_places(run.samples, key, side)[0]) - 1
        inside = run.read(block * SAMPLE, (block + 1) * SAMPLE) if block >= 0 else None
        place = 0 if inside is None else block * SAMPLE + int(_places(inside, key, side)[0])
        found.append(place)
    return found


def _places(run: Keys, keys: Keys, side: Any) -> npt.NDArray[np.intp]:
    return np.searchsorted(_comparable(run), _comparable(keys), side)


def _comparable(keys: Keys) -> npt.NDArray[Any]:
    """Return keys as single items that compare in lexicographic order."""
    if keys.ndim == 1:
        return keys
    fields = np.dtype([(f"word{place}", np.uint64) for place in range(keys.shape[1])])
    return np.ascontiguousarray(keys).view(fields).reshape(-1)
