"""Which cells of an axis play the same part in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.designs.axis import Integers


def alike(size: int, fanouts: Sequence[int]) -> Integers:
    """A number for each cell below a tree; if two have the same, siblings can be exchanged for each
    other so that one takes the place of the other and the tree is as before.

    `fanouts` are the children of a node from those of cells up, the last node of a level having
    fewer. From below every node gets the shape of what is under it, and from above a class: that of
    its parent with its own shape.
    """
    shapes = [np.zeros(size, np.int64)]
    for fanout in fanouts:
        nodes = -(-len(shapes[-1]) // fanout)
        children = np.full(nodes * fanout, -1)
        children[: len(shapes[-1])] = shapes[-1]
        rows = np.sort(children.reshape(nodes, fanout), axis=1)
        shapes.append(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))
    classes: Integers = shapes[-1]
    for fanout, below in zip(reversed(fanouts), shapes[-2::-1], strict=True):
        parents = classes[np.arange(len(below)) // fanout]
        pairs = parents * (int(below.max()) + 1) + below
        classes = np.unique(pairs, return_inverse=True)[1]
    return classes
