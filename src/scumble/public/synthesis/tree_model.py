"""A tree of attributes: which pairs are tied, and rows drawn along the tree.

The root is drawn from its counts, each further attribute given its parent. Rows are allotted by
systematic rounding: every cell gets its expected number of rows, rounded up or down, and all sums
that were whole numbers stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.model.long_work import tell
from scumble.public.synthesis.noisy_tables import Tensor

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.integer]
Edge = tuple[int, int]


def rounded(shares: Tensor, sums: Integers, offset: float) -> Integers:
    """Return whole numbers near sums[i] · shares[i, j], each rounded up or down, whose sums by row
    are exactly `sums`. The shares of a row add up to 1.

    All cells lie on one line, one after the other. A cell gets as many rows as there are points
    offset + k, k = 0, 1, ..., in its part of the line (systematic sampling).
    """
    ends = np.cumsum(shares, axis=1) * sums[:, None]
    ends[:, -1] = sums
    ends += (np.cumsum(sums) - sums)[:, None]
    points = np.ceil(ends.reshape(-1) - offset).astype(np.int64)
    return np.diff(points, prepend=0).reshape(shares.shape)


def spanning_tree(size: int, weights: Mapping[Edge, float]) -> list[Edge]:
    """Return the edges of the tree (or forest) of largest weight over the attributes 0 to size - 1,
    by Kruskal's algorithm. Edges of a weight of 0 or less are left out.
    """
    parts = ConnectedParts(size)
    ordered = sorted(weights, key=lambda edge: (-weights[edge], edge))
    return [edge for edge in ordered if weights[edge] > 0 and parts.join(edge)]


class ConnectedParts:
    """Which attributes are connected."""

    def __init__(self, size: int) -> None:
        self._of = list(range(size))

    def joins(self, edge: Edge) -> bool:
        """Return whether the edge ties two parts together."""
        return self._of[edge[0]] != self._of[edge[1]]

    def join(self, edge: Edge) -> bool:
        """Tie two parts together; return whether they were apart."""
        one, other = (self._of[place] for place in edge)
        self._of = [one if part == other else part for part in self._of]
        return one != other


@dataclass(frozen=True, eq=False)
class TreeModel:
    """One-way counts of all attributes, and two-way counts of the edges of a forest, which agree
    with them. The axes of a table are in the order of its edge.
    """

    margins: Sequence[Tensor]
    edges: Mapping[Edge, Tensor]

    def rows(self, number: int, generator: np.random.Generator) -> list[Codes]:
        """Return the codes of `number` rows, one array for each attribute."""
        columns: dict[int, Codes] = {}
        places = range(len(self.margins))
        near: dict[int, list[tuple[int, Tensor]]] = {place: [] for place in places}
        for (one, other), table in self.edges.items():
            near[one].append((other, table))
            near[other].append((one, table.T))
        for root in places:
            if root in columns:
                continue
            nobody = np.zeros(number, np.uint16)
            columns[root] = drawn_given(nobody, self.margins[root][None, :], generator)
            open_ = [root]
            while open_:
                parent = open_.pop()
                for child, table in near[parent]:
                    if child not in columns:
                        columns[child] = drawn_given(columns[parent], table, generator)
                        tell(len(columns), len(places))
                        open_.append(child)
        return [columns[place] for place in places]


def drawn_given(parent: Codes, table: Tensor, generator: np.random.Generator) -> Codes:
    """Return a code for every row, drawn by the row of `table` that its parent's code names."""
    sizes = np.bincount(parent, minlength=len(table))
    times = rounded(_shares(table), sizes, generator.random()).reshape(-1)
    codes = np.tile(np.arange(table.shape[1], dtype=_small(table.shape[1])), len(table))
    sorted_codes = np.repeat(codes, times)
    # Rows of one parent's code in random order, so that children are independent given the parent.
    order = generator.permutation(len(parent))
    order = order.take(np.argsort(parent.take(order), kind="stable"))
    found = np.empty(len(parent), codes.dtype)
    found[order] = sorted_codes
    return found


def _shares(table: Tensor) -> Tensor:
    """Return every row as probabilities; a row of zeros as those of all rows together."""
    sums = table.sum(axis=1, keepdims=True)
    overall = table.sum(axis=0) + 1e-300
    return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), overall / overall.sum())


def _small(size: int) -> type[np.unsignedinteger]:
    return np.uint16 if size <= 1 << 16 else np.uint32
