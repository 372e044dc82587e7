"""The numpy form of the loop of trees of contexts (see `kernels`)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def context_sums(
    codes: Array,
    offsets: Array,
    length: int,
    unit: int,
    children: Array,
    slots: Array,
    end: int,
    sums: Array,
) -> None:
    """Add the weights of the symbols of sequences to the sums of their contexts."""
    read, place, _, weight = symbols(codes, offsets, length, unit, end)
    nodes, before = longest_contexts(read, place, children, end)
    slot = slots[nodes * (end + 1) + before]
    inside = slot >= 0
    np.add.at(sums, slot[inside] * (end + 1) + read[inside], weight[inside])


def symbols(
    codes: Array, offsets: Array, length: int, unit: int, end: int
) -> tuple[Array, Array, Array, Array]:
    """Return the first `length` symbols of every sequence, its end among them, the number of
    symbols of the sequence before each, the number of symbols of the sequences, and the weight of
    each symbol.
    """
    lengths = np.diff(offsets)
    stops = offsets[1:]
    if lengths.max(initial=0) > length:
        place = np.arange(len(codes)) - np.repeat(offsets[:-1], lengths)
        codes = codes[place < length]
        stops = np.cumsum(np.minimum(lengths, length))
    ended = lengths < length
    sizes = np.minimum(lengths + 1, length)
    read = np.insert(codes.astype(np.int64), stops[ended], end)
    place = np.arange(len(read)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    weight = np.ones_like(read) if unit == 1 else np.repeat(unit // sizes, sizes)
    return read, place, sizes, weight


def longest_contexts(codes: Array, place: Array, children: Array, end: int) -> tuple[Array, Array]:
    """Return the longest split context before each symbol, and the code before that context."""
    nodes = np.zeros(len(codes), np.int64)
    before = np.full(len(codes), end)
    at = np.arange(len(codes))
    back = 1
    while len(at):
        code = np.where(place[at] >= back, codes[at - back], end)
        before[at] = code
        child = children[nodes[at] * (end + 1) + code]
        at = at[child >= 0]
        nodes[at] = child[child >= 0]
        back += 1
    return nodes, before
