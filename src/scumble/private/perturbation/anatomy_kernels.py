"""The inner loops of Anatomy, compiled by numba on first use. All are linear in the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel
from scumble.private.sampling.kernels import uniform_below

Array = Any


@kernel
def form(words: Array, order: Array, left: Array, members: Array, made: int) -> int:
    """Fill rows of `members`, from row `made` on, with the values that have the most records left,
    until all rows are filled or `words` are used up. Return the number of rows filled.

    `order` lists the values, most frequent first, and `left` their numbers of records. Of the
    values that tie for the last places a random choice is taken. It is swapped to the end of the
    tie, so that `left` stays sorted: a group costs its size and two binary searches. If the words
    end inside a group, the next call begins it again with new words.
    """
    size = members.shape[1]
    place = 0
    while made < len(members):
        start, end = _tie(left, size - 1)
        taken = size - start
        for pick in range(taken):
            last = end - 1 - pick
            offset, place = uniform_below(words, place, np.uint64(last - start + 1))
            if place < 0:
                return made
            other = start + np.int64(offset)
            order[last], order[other] = order[other], order[last]
        for column in range(size):
            value = column if column < start else end - size + column
            members[made, column] = order[value]
            left[value] -= 1
        made += 1
    return made


@kernel
def _tie(left: Array, place: int) -> tuple[int, int]:
    """Return the limits of the run of numbers equal to `left[place]`, in a descending sequence."""
    number = left[place]
    low, high = 0, place
    while low < high:
        middle = (low + high) // 2
        if left[middle] > number:
            low = middle + 1
        else:
            high = middle
    start = low
    low, high = place + 1, len(left)
    while low < high:
        middle = (low + high) // 2
        if left[middle] < number:
            high = middle
        else:
            low = middle + 1
    return start, low


@kernel
def list_groups(members: Array, free: Array, groups: Array) -> None:
    """Append the number of each group to the list of each of its values. `free` holds the next free
    position of each list.
    """
    for group in range(members.shape[0]):
        for column in range(members.shape[1]):
            value = members[group, column]
            groups[free[value]] = group
            free[value] += 1


@kernel
def deal(codes: Array, places: Array, groups: Array, out: Array) -> bool:
    """Assign to each row the next group in the list of its value. `places` holds the next position
    of each list in `groups`. Return False if a position lies beyond all lists.
    """
    for row in range(len(codes)):
        value = codes[row]
        if places[value] >= len(groups):
            return False
        out[row] = groups[places[value]]
        places[value] += 1
    return True
