"""Sorting of cell keys, and sets of tuples as sorted keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scumble.model.errors import PromiseError, named, setting
from scumble.model.schema.cell_keys import CellKeys
from scumble.private.tables.rows import Rows

# One word per key, or one row of words per key, the first word most significant. A single word may
# have 32 bits.
Keys = npt.NDArray[np.unsignedinteger[Any]]
_NARROW = (1 << 32) - 1


def sort_keys(keys: Keys, *, merge: bool = False, reuse: bool = False) -> Keys:
    """Return the keys sorted; `merge` says that they are a few sorted runs, one after the other.
    With `reuse`, the array that is given may be changed, and the result may be that array.

    Keys of several words are sorted by the first word, then ties are: three times as fast. The
    stable algorithm finds sorted runs and merges them. Keys of one word are sorted by vector
    instructions, which takes less time than a merge, and half as long again if 32 bits suffice.
    """
    if keys.ndim == 1:
        if keys.dtype == np.uint64 and len(keys) and keys.max() <= _NARROW:
            return sort_keys(keys.astype(np.uint32), reuse=True).astype(np.uint64)
        ordered = keys if reuse else keys.copy()
        ordered.sort()
        return ordered
    kind: Literal["stable", "quicksort"] = "stable" if merge else "quicksort"
    ordered = keys[np.argsort(keys[:, 0], kind=kind)]
    same = ordered[1:, 0] == ordered[:-1, 0]
    if same.any():
        tied = np.append(same, False) | np.insert(same, 0, False)
        ties = ordered[tied]
        ordered[tied] = ties[np.lexsort(ties.T[::-1])]
    return ordered


# Sets of tuples as sorted keys.

Mask = npt.NDArray[np.bool_]
Duplicates = Literal["error", "collapse"]


def unique_keys(keys: Keys) -> Keys:
    """Return the distinct keys, sorted."""
    ordered = sort_keys(keys)
    return ordered[_firsts(ordered)]


def packed_rows(rows: Rows, names: Sequence[str]) -> Keys:
    """Return the keys of all rows, in their order."""
    radix = rows.schema.cell_keys(names)
    none = radix.pack([np.empty(0, rows.schema[name].code_type) for name in names])
    return np.concatenate([none, *map(radix.pack, rows.batches(names))])


def isin_sorted(keys: Keys, others: Keys) -> Mask:
    """Return a mask of the keys that are in `others`; both are sorted and distinct."""
    found = np.zeros(len(keys), bool)
    if keys.ndim == 1:
        places = np.searchsorted(keys, others)
        inside = places < len(keys)
        places = places[inside]
        found[places[keys[places] == others[inside]]] = True
        return found
    # Few keys share their first word with `others`: only these are compared in full.
    rows = np.flatnonzero(np.isin(keys[:, 0], others[:, 0]))
    joined = np.concatenate([keys[rows], others])
    order = np.lexsort(joined.T[::-1])
    same = ~_firsts(joined[order])[1:]
    pairs = np.minimum(order[:-1][same], order[1:][same])
    found[rows[pairs]] = True
    return found


def true_tuples(
    rows: Rows,
    duplicates: Duplicates,
    multiplicity: int,
    sorted_rows: Callable[[Sequence[str]], Keys],
) -> Keys:
    """Return the table as a set of tuples over its published columns, as sorted keys.

    `sorted_rows` returns the keys of all rows, sorted.

    With a `multiplicity` above 1, equal rows are numbered, and the number is one more column.
    Otherwise, equal rows are an error, or are counted once if `duplicates` is "collapse".
    """
    names = [attribute.name for attribute in rows.schema.published]
    plain = rows.schema.cell_keys(names)
    keys = sorted_rows(names)
    firsts = _firsts(keys)
    if multiplicity > 1:
        numbered = CellKeys([*plain.sizes, multiplicity])
        return numbered.pack([*plain.unpack(keys), _occurrences(firsts, multiplicity)])
    if firsts.all():
        return keys
    if duplicates == "error":
        raise PromiseError(
            "Some rows of the table are equal, and AlphaBeta publishes a set. Give a "
            f"{named('multiplicity')}, the largest number of equal rows, so that all rows are "
            f"counted; with {setting('duplicates', 'collapse')} equal rows are made one, and "
            "answers count different rows only."
        )
    times = f" ({int(np.count_nonzero(~firsts))} rows)" if rows.reveal else ""
    rows.remark(f"Equal rows were made one{times}: the release counts different rows.")
    return keys[firsts]


def _occurrences(firsts: Mask, multiplicity: int) -> npt.NDArray[Any]:
    """Return the number of each key among equal ones, from 0; `firsts` marks new keys."""
    places = np.arange(len(firsts))
    numbers = places - np.maximum.accumulate(np.where(firsts, places, 0))
    if numbers.max(initial=0) >= multiplicity:
        raise PromiseError(
            f"Some row of the table occurs more than {multiplicity} times, which "
            f"{setting('multiplicity', multiplicity)} does not allow. Give a larger one."
        )
    return numbers.astype(np.uint64)


def _firsts(ordered: Keys) -> Mask:
    """Return a mask of the keys that differ from the one before."""
    first = np.ones(len(ordered), bool)
    differs = ordered[1:] != ordered[:-1]
    first[1:] = differs if ordered.ndim == 1 else differs.any(axis=1)
    return first


# --- sorted runs ----------------------------------------------------------------------------------
#
# Sorted runs of cell keys, on disk or in memory, and their merge in constant memory.
#
# A run on disk is a plain file of words of 32 or 64 bits. It is read by its places and never mapped
# into memory: mapped pages would count as memory of the process as long as the run is open.


@dataclass(frozen=True)
class StoredRun:
    """A sorted run in a file."""

    path: Path
    rows: int
    words: int
    kind: np.dtype[Any]

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
        return cls(path, len(keys), words, keys.dtype)

    def __len__(self) -> int:
        return self.rows

    def read(self, begin: int, end: int) -> Keys:
        """Return the keys at these places."""
        size = max(0, min(end, self.rows) - begin) * self.words
        offset = self.kind.itemsize * begin * self.words
        found = np.fromfile(self.path, self.kind, size, offset=offset)
        return found if self.words == 1 else found.reshape(-1, self.words)


class Run:
    """The keys of a run, read in steps and taken from the front."""

    def __init__(self, run: StoredRun | Keys) -> None:
        self._run = run
        self._next = 0
        self._end = len(run)
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


def _places(run: Keys, keys: Keys, side: Any) -> npt.NDArray[np.intp]:
    return np.searchsorted(_comparable(run), _comparable(keys), side)


def _comparable(keys: Keys) -> npt.NDArray[Any]:
    """Return keys as single items that compare in lexicographic order."""
    if keys.ndim == 1:
        return keys
    fields = np.dtype([(f"word{place}", np.uint64) for place in range(keys.shape[1])])
    return np.ascontiguousarray(keys).view(fields).reshape(-1)
