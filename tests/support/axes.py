"""Axes of all kinds for tests, and their matrices."""

from __future__ import annotations

import numpy as np

from scumble.model.designs.axis import Axis, IdentityAxis
from scumble.model.designs.taxonomy import Taxonomy, TaxonomyTree
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar, Nominal

EVEN = Taxonomy.of([[0, 1, 2], [3, 4, 5]])
UNEVEN = Taxonomy.of([[4, 0], [1, [2, 6, 3]], 5])
CHAIN = Taxonomy.of([[[0], [1]], [[2]]])

AXES: dict[str, Axis] = {
    "identity": IdentityAxis(5),
    "one cell": IdentityAxis(1),
    "binary tree": Tree(8, (2, 2, 2), (1.0, 1.0, 1.0, 1.0)),
    "uneven tree": Tree(11, (3, 2, 2), (0.3, 2.0, 0.5, 1.7)),
    "tree without root": Tree(9, (3, 3), (1.0, 2.0, 0.0)),
    "tree without a middle": Tree(7, (2, 2, 2), (1.0, 0.0, 3.0, 1.0)),
    "flat tree": Tree(4, (), (1.0,)),
    "haar of one": Haar(1),
    "haar of a power": Haar(8),
    "haar of five": Haar(5),
    "haar of seven": Haar(7),
    "taxonomy": TaxonomyTree(EVEN, (1.0, 2.0, 0.5)),
    "uneven taxonomy": TaxonomyTree(UNEVEN, (1.0, 0.0, 0.7, 0.5)),
    "nominal": Nominal.balanced(EVEN, squares=False),
    "uneven nominal": Nominal.balanced(UNEVEN, squares=False),
    "uneven nominal by squares": Nominal.balanced(UNEVEN, squares=True),
    "chain": Nominal.balanced(CHAIN, squares=False),
}


def matrix(axis: Axis) -> np.ndarray:
    """What is measured, dense: a row for each number."""
    one = np.eye(axis.size, dtype=np.int64)[None]
    return np.concatenate(axis.measure(one), axis=1)[0]


def group_weights(axis: Axis) -> np.ndarray:
    """Inverse variances of the numbers that the axis assumes; 1 where it assumes none."""
    given = [w for w in getattr(axis, "weights", [1.0] * len(axis.lengths)) if w > 0]
    return np.repeat(given, axis.lengths)
