"""The inner loop of trees of contexts: what follows the longest context before each symbol."""

from __future__ import annotations

from typing import Any

from scumble.model.compiled import kernel
from scumble.private.meter import numpy_forms

Array = Any


def _length(codes: Array, *_: Array) -> int:
    return len(codes)


@kernel(numpy_form=numpy_forms.context_sums, steps=_length, nanoseconds=100)
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
    """Add the weights of the symbols of sequences to the sums of their contexts.

    Sequence i has the symbols `codes[offsets[i] : offsets[i + 1]]`. Its first `length` are read,
    and its end, the code `end`, if it is among these. A symbol weighs `unit` divided by the number
    of symbols that are read, or 1 if `unit` is 1. `children` has the child of each split context by
    the code before it, -1 where there is none; the context 0 is the empty one. A context is the
    longest split one before a symbol together with the code before that, `end` where the sequence
    begins. `slots` has the place of each context among the sums, -1 for those without one; each has
    a sum for every symbol.
    """
    fanout = end + 1
    for sequence in range(len(offsets) - 1):
        begin = offsets[sequence]
        known = offsets[sequence + 1] - begin
        size = min(known + 1, length)
        weight = unit // size if unit > 1 else 1
        for place in range(size):
            node, back = 0, 1
            while True:
                code = int(codes[begin + place - back]) if place >= back else end
                child = children[node * fanout + code]
                if child < 0:
                    break
                node = child
                back += 1
            slot = slots[node * fanout + code]
            if slot >= 0:
                symbol = int(codes[begin + place]) if place < known else end
                sums[slot * fanout + symbol] += weight
