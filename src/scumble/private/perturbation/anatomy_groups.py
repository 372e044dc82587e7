"""Records put into groups in which every value occurs at most once (Anatomy's algorithm)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.private.perturbation import anatomy_kernels
from scumble.private.sampling.bits import CHUNK
from scumble.private.sampling.integers import integers
from scumble.private.sampling.shuffle import shuffle
from scumble.private.sampling.source import Source

LEFT_OUT = -1

Codes = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


def counted(codes: Codes, size: int) -> Counts:
    """How often each code from 0 to size - 1 occurs."""
    counts = np.zeros(size, np.int64)
    anatomy_kernels.tally(codes, counts)
    return counts


def eligible(counts: Counts, least: int) -> bool:
    """Whether no value has more than one in `least` of the records."""
    return int(counts.max(initial=0)) * least <= int(counts.sum())


def capped(counts: Counts, least: int) -> Counts:
    """The most records of each value that can be kept so that the kept ones are eligible.

    A cap t on all values is allowed if t·l is at most Σ min(count, t). This sum divided by t falls
    with t, so that the caps that are allowed are those up to a largest one, and it keeps the most:
    what is eligible with a largest number t of records of a value keeps at most Σ min(count, t).
    """
    low, high = 0, int(counts.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if middle * least <= int(np.minimum(counts, middle).sum()):
            low = middle
        else:
            high = middle - 1
    return np.minimum(counts, low)


def grouped(
    source: Source, codes: Codes, counts: Counts, kept: Counts, least: int
) -> tuple[Numbers, int]:
    """The group of each record, `LEFT_OUT` for one that is not kept, and the number of groups.

    While `least` values have records left, a group takes one record of each of the `least` most
    frequent ones; ties are decided by chance. If `kept` is eligible, this makes as many groups as
    fit into the records, and leaves at most `least - 1` records, all of different values; each of
    them goes to a random group that lacks its value (Xiao and Tao, VLDB 2006, properties 1 to 3).
    Which record of a value goes where is decided last, by a shuffle for each value, so that it
    depends on nothing else.
    """
    number = int(kept.sum()) // least
    starts = np.concatenate([[0], np.cumsum(counts)])
    groups: Numbers = np.full(len(codes), LEFT_OUT, np.int32)  # a list of groups for each value
    if number:
        order = np.argsort(-kept, kind="stable")
        left = kept[order]
        members = _formed(source, order, left, number, least)
        free = starts[:-1].copy()
        anatomy_kernels.list_groups(members, free, groups)
        for value in order[left > 0]:
            groups[free[value]] = _lacking(source, groups[starts[value] : free[value]], number)
    shuffle(source, groups, starts)
    out: Numbers = np.empty(len(codes), np.int32)
    anatomy_kernels.deal(codes, starts[:-1].copy(), groups, out)
    return out, number


def _formed(
    source: Source, order: Counts, left: Counts, number: int, least: int
) -> npt.NDArray[Any]:
    """The values of each group. `left` becomes what no group took."""
    members = np.empty((number, least), np.min_scalar_type(len(order)))
    words = np.empty(min(CHUNK, number * least) + 2 * least, np.uint64)
    made = 0
    while made < number:
        source.fill(words)
        made = anatomy_kernels.form(words, order, left, members, made)
    return members


def _lacking(source: Source, having: Numbers, number: int) -> int:
    """A random group but those that have the value; there is one, since at most as many records of
    a value are kept as there are groups, and this is one of them.
    """
    lacking = np.ones(number, bool)
    lacking[having] = False
    candidates = np.flatnonzero(lacking)
    return int(candidates[int(integers(source, len(candidates), 1)[0])])
