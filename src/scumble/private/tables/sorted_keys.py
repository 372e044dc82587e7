"""Sorting of cell keys, merging of sorted runs in constant memory, and sets of tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scumble.model.errors import PromiseError, named, setting
from scumble.model.schema.cell_keys import CellKeys
from scumble.private.tables.rows import Rows

# One word per key, or one row of words per key, the first word most significant.
Keys = npt.NDArray[np.uint64]


def sort_keys(keys: Keys) -> Keys:
    """Return the keys sorted.

    Keys of several words are sorted by the first word, then ties are: three times as fast.
    """
    if keys.ndim == 1:
        return np.sort(keys)
    ordered = keys[np.argsort(keys[:, 0])]
    same = ordered[1:, 0] == ordered[:-1, 0]
    if same.any():
        tied = np.append(same, False) | np.insert(same, 0, False)
        ties = ordered[tied]
        ordered[tied] = ties[np.lexsort(ties.T[::-1])]
    return ordered


def merge_sorted(runs: Sequence[Keys], chunk: int) -> Iterator[Keys]:
    """Yield all keys of sorted runs in order, in pieces of `chunk` keys."""
    return regrouped(runs if len(runs) == 1 else _ranges(runs, chunk), chunk)


def merge_ranges(runs: Sequence[Keys], size: int) -> list[list[int]]:
    """Return places that cut all sorted runs into ranges of about `size` keys in all.

    Each element has one place for every run. Keys before it are smaller than all after it. The
    first places are 0 and the last ones the lengths of the runs.
    """
    step = max(1, size // (4 * len(runs)))
    samples = sort_keys(np.concatenate([run[::step] for run in runs]))
    cuts = np.unique(samples[4 * len(runs) :: 4 * len(runs)], axis=0)
    places = [_places(run, cuts, "left") for run in runs]
    inner = [[int(own[place]) for own in places] for place in range(len(cuts))]
    return [[0] * len(runs), *inner, [len(run) for run in runs]]


def _ranges(runs: Sequence[Keys], chunk: int) -> Iterator[Keys]:
    """Yield the keys in order, in ranges that are cut at the same keys in every run.

    Cuts are taken from each run at steps short enough that at most about `chunk` keys lie between
    two of them. Only a cut itself may occur in many rows; these keys are equal and take no memory.
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
        yield sort_keys(np.concatenate([run[end[place] : stop[place]] for run, end, stop in parts]))


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


def _places(run: Keys, cuts: Keys, side: Any) -> npt.NDArray[np.intp]:
    return np.searchsorted(_comparable(run), _comparable(cuts), side)


def _comparable(keys: Keys) -> npt.NDArray[Any]:
    """Return keys as single items that compare in lexicographic order."""
    if keys.ndim == 1:
        return keys
    fields = np.dtype([(f"word{place}", np.uint64) for place in range(keys.shape[1])])
    return np.ascontiguousarray(keys).view(fields).reshape(-1)


# Sets of tuples as sorted keys.

Mask = npt.NDArray[np.bool_]
Duplicates = Literal["error", "collapse"]


def unique_keys(keys: Keys) -> Keys:
    """Return the distinct keys, sorted."""
    ordered = sort_keys(keys)
    return ordered[_firsts(ordered)]


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
    batches: Callable[[Sequence[str]], Iterator[list[npt.NDArray[Any]]]] | None = None,
) -> Keys:
    """Return the table as a set of tuples over its published columns, as sorted keys.

    `batches` reads the codes; without it, the rows do.

    With a `multiplicity` above 1, equal rows are numbered, and the number is one more column.
    Otherwise, equal rows are an error, or are counted once if `duplicates` is "collapse".
    """
    attributes = rows.schema.published
    names = [attribute.name for attribute in attributes]
    plain = rows.schema.cell_keys(names)
    none = plain.pack([np.empty(0, attribute.code_type) for attribute in attributes])
    keys = sort_keys(np.concatenate([none, *map(plain.pack, (batches or rows.batches)(names))]))
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
