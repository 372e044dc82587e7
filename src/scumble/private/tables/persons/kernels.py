"""Numba loops over the identifiers of rows. Import this module only where a loop runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


@kernel
def _slot(number: int, numbers: Array, counts: Array) -> Any:
    """Return where a number is in a hash table, or the empty place where it belongs.

    Places with count 0 are empty. The length of the table is a power of 2.
    """
    last = np.uint64(len(numbers) - 1)
    mixed = np.uint64(number)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    place = (mixed >> np.uint64(32)) & last
    while counts[place] and numbers[place] != number:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def keep_first(
    people: Array, there: Array, most: int, numbers: Array, counts: Array, keep: Array
) -> int:
    """Write to `keep` which rows are among the first `most` of their person; rows that are not
    `there` are not. The hash table of `numbers` has how many rows of each person were kept before.
    Returns the number of new persons.
    """
    new = 0
    for row in range(len(people)):
        keep[row] = False
        if not there[row]:
            continue
        place = _slot(people[row], numbers, counts)
        if counts[place] == 0:
            numbers[place] = people[row]
            new += 1
        if counts[place] < most:
            counts[place] += 1
            keep[row] = True
    return new


@kernel
def rehash(numbers: Array, counts: Array, new_numbers: Array, new_counts: Array) -> None:
    """Write a hash table into an empty one of another length."""
    for place in range(len(numbers)):
        if counts[place]:
            to = _slot(numbers[place], new_numbers, new_counts)
            new_numbers[to], new_counts[to] = numbers[place], counts[place]
