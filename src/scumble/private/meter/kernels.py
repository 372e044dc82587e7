"""The inner loop of trees of contexts: the longest context before each symbol."""

from __future__ import annotations

from typing import Any

from scumble.model.compiled import kernel
from scumble.private.meter import numpy_forms

Array = Any


def _length(codes: Array, *_: Array) -> int:
    return len(codes)


@kernel(numpy_form=numpy_forms.longest_contexts, steps=_length, nanoseconds=60)
def longest_contexts(
    codes: Array, place: Array, children: Array, end: int, nodes: Array, before: Array
) -> None:
    """Write the longest split context before each symbol to `nodes`, and the code before that
    context to `before`; `end` is the code before a sequence.

    `place` has the number of symbols of the sequence before each; `children` has the child of each
    node by symbol, -1 where there is none. Node 0 is the empty context.
    """
    for at in range(len(codes)):
        node, back = 0, 1
        while True:
            code = codes[at - back] if place[at] >= back else end
            child = children[node * (end + 1) + code]
            if child < 0:
                break
            node = child
            back += 1
        nodes[at] = node
        before[at] = code
