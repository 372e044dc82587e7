"""Haar and nominal wavelets in integers: sums and differences that are not divided by anything.

For the Haar wavelet the cells are conceptually padded with empty ones up to a power of two. A
difference whose right half is padding equals the sum of its left half, which the levels above
determine, and is not measured. So there are as many numbers as cells, and a cell is in at most one
number of each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isqrt, lcm
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scumble.model import stored
from scumble.model.designs.axis import Floats, Integers, cell_classes
from scumble.model.designs.taxonomy import Taxonomy


@dataclass(frozen=True)
class Haar:
    """The Haar axis. Its groups are the differences of halves, level by level from pairs of cells
    up, and last the sum of all cells.
    """

    kind: ClassVar[str] = "haar"

    size: int

    @property
    def signed(self) -> bool:
        return self.size > 1

    @property
    def _levels(self) -> tuple[int, ...]:
        """The number of sums before each step, from the cells up."""
        levels, length = [], self.size
        while length > 1:
            levels.append(length)
            length = -(-length // 2)
        return tuple(levels)

    @property
    def lengths(self) -> tuple[int, ...]:
        return (*(length // 2 for length in self._levels), 1)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * (len(self._levels) + 1)

    @property
    def pair_products(self) -> Integers:
        """Two cells share the sum and, with equal signs, the differences of blocks of which one
        half holds both. They share one difference with opposite signs: that of the block whose
        halves separate them.

        A block without a right half has no difference: one at most, the last of its level, which
        begins at the sum `ends`. So pairs in the same differences of wider blocks are of one kind.
        """
        levels = self._levels
        ends = [(place, length // 2) for place, length in enumerate(levels) if length % 2]
        found = []
        for apart in range(-1, len(levels)):
            for first in (0, *(end << (place - apart) for place, end in ends if place > apart)):
                if apart >= 0 and first >= levels[apart] // 2:
                    continue
                row = [0] * (len(levels) + 1)
                row[-1] = 1
                for place in range(apart + 1, len(levels)):
                    row[place] = int(first >> (place - apart) < levels[place] // 2)
                if apart >= 0:
                    row[apart] = -1
                found.append(row)
        return np.unique(np.array(found, np.int64), axis=0)

    @property
    def cell_classes(self) -> Integers:
        return cell_classes(self.size, (2,) * len(self._levels))

    def measure(self, counts: Integers) -> list[Integers]:
        groups, sums = [], counts
        for length in self._levels:
            right = sums[:, 1::2]
            left = sums[:, 0::2].copy()
            groups.append(left[:, : length // 2] - right)
            left[:, : length // 2] += right
            sums = left
        return [*groups, sums]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        sums = parts[-1]
        for length, differences in zip(reversed(self._levels), parts[-2::-1], strict=True):
            pairs = length // 2
            cells = np.empty((sums.shape[0], length, sums.shape[2]))
            cells[:, 0::2] = sums
            cells[:, 1::2] = (sums[:, :pairs] - differences) / 2
            cells[:, 0 : 2 * pairs : 2] -= cells[:, 1::2]
            sums = cells
        return sums

    def adjoint(self, weights: Floats) -> list[Floats]:
        groups, sums = [], weights
        for length in self._levels:
            right = sums[:, 1::2] / 2
            left = sums[:, 0::2].copy()
            left[:, : length // 2] /= 2
            groups.append(left[:, : length // 2] - right)
            left[:, : length // 2] += right
            sums = left
        return [*groups, sums]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Haar:
        return cls(stored.whole(data["size"], 1))


# --- nominal wavelets: the deviation of each node of a taxonomy from the mean of its siblings ----
#
# A node with f siblings (itself included) is measured as f times its count minus the count of all
# siblings, times an integer factor that makes the norm of a row about equal in every family of a
# level. Families of one child carry no information and are not measured.

_FINEST = 1 << 16  # largest norm of a level that factors may cause
_LARGEST_FACTOR = 1 << 40  # in a manifest; larger than any plan has


@dataclass(frozen=True)
class Nominal:
    """The nominal wavelet axis. Its groups are the levels that have siblings, from the leaves up,
    and last the sum of all cells.

    `factors` has an integer for every family, in the layout of `taxonomy.families`.
    """

    kind: ClassVar[str] = "nominal"

    taxonomy: Taxonomy
    factors: tuple[tuple[int, ...], ...]

    @classmethod
    def balanced(cls, taxonomy: Taxonomy, *, squares: bool) -> Nominal:
        """Return the axis with factors that equalise the L1 norms of the families, or, with
        `squares`, their L2 norms.
        """
        return cls(taxonomy, tuple(_factors(sizes, squares) for sizes in taxonomy.families))

    @property
    def size(self) -> int:
        return self.taxonomy.size

    @property
    def signed(self) -> bool:
        return self.size > 1

    @cached_property
    def _levels(self) -> tuple[tuple[int, NDArray[np.intp]], ...]:
        """The levels that have siblings, each with the nodes that have some."""
        kept = []
        for place, sizes in enumerate(self.taxonomy.families):
            among = np.flatnonzero(np.repeat(sizes, sizes) > 1)
            if len(among):
                kept.append((place, among))
        return tuple(kept)

    @property
    def lengths(self) -> tuple[int, ...]:
        return (*(len(among) for _, among in self._levels), 1)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        """A row in a family of f adds f - 1 to one number and subtracts 1 from f - 1 others."""
        norms = []
        for place, _ in self._levels:
            pairs = list(zip(self.factors[place], self.taxonomy.families[place], strict=True))
            norms.append(
                (max(k * _total(f) for k, f in pairs), max(k * k * _squares(f) for k, f in pairs))
            )
        return (*norms, (1, 1))

    @cached_property
    def _scales(self) -> tuple[tuple[Integers, Integers], ...]:
        """For each level, the sizes and the factors of its families, shaped to broadcast."""
        both = zip(self.taxonomy.families, self.factors, strict=True)
        return tuple(
            (np.array(sizes, np.int64)[None, :, None], np.array(factors, np.int64)[None, :, None])
            for sizes, factors in both
        )

    @property
    def pair_products(self) -> Integers:
        """Two cells share the sum and, with a product of k² f (f - 1), the families of one node
        above both. The family of f nodes that separates them contributes
        2 · -k² (f - 1) + (f - 2) k² = -k² f.
        """
        families, kept = self.taxonomy.families, [place for place, _ in self._levels]
        found = []
        for apart in range(-1, len(families)):
            nodes = len(families[apart]) if apart >= 0 else self.size
            for first in range(nodes):
                row, node = dict.fromkeys(kept, 0), first
                if apart >= 0:
                    size, factor = families[apart][first], self.factors[apart][first]
                    if size == 1:
                        continue
                    row[apart] = -factor * factor * size
                for place in range(apart + 1, len(families)):
                    node = int(np.searchsorted(self._ends[place], node, side="right"))
                    size, factor = families[place][node], self.factors[place][node]
                    if size > 1:
                        row[place] = factor * factor * size * (size - 1)
                found.append([*row.values(), 1])
        return np.unique(np.array(found, np.int64), axis=0)

    @cached_property
    def _ends(self) -> tuple[Integers, ...]:
        """For each level, the number of nodes up to each family."""
        return tuple(np.cumsum(sizes) for sizes in self.taxonomy.families)

    @property
    def cell_classes(self) -> Integers:
        return np.arange(self.size)

    def measure(self, counts: Integers) -> list[Integers]:
        groups, nodes = [], counts[:, self.taxonomy.forth]
        kept = dict(self._levels)
        for place, step in enumerate(self.taxonomy.steps):
            size, factor = self._scales[place]
            sums = step.sum(nodes)
            if place in kept:
                apart = step.spread(size * factor) * nodes - step.spread(factor * sums)
                groups.append(apart[:, kept[place]])
            nodes = sums
        return [*groups, nodes]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        nodes, given = parts[-1], list(parts[:-1])
        kept = dict(self._levels)
        for place in range(len(self.taxonomy.steps) - 1, -1, -1):
            step, size = self.taxonomy.steps[place], self._scales[place][0]
            even = step.spread(nodes / size)
            if place in kept:
                apart = np.zeros(even.shape)
                apart[:, kept[place]] = given.pop()
                even = even + self._centred(place, apart)
            nodes = even
        return nodes[:, self.taxonomy.back]

    def adjoint(self, weights: Floats) -> list[Floats]:
        groups, pulled = [], weights[:, self.taxonomy.forth]
        kept = dict(self._levels)
        for place, step in enumerate(self.taxonomy.steps):
            if place in kept:
                groups.append(self._centred(place, pulled)[:, kept[place]])
            pulled = step.sum(pulled) / self._scales[place][0]
        return [*groups, pulled]

    def _centred(self, place: int, nodes: Floats) -> Floats:
        """Return the numbers minus the mean of siblings, in units of counts: a symmetric map."""
        step, (size, factor) = self.taxonomy.steps[place], self._scales[place]
        centred: Floats = nodes - step.spread(step.sum(nodes) / size)
        return centred / step.spread(size * factor)

    def to_dict(self) -> dict[str, Any]:
        factors = [list(each) for each in self.factors]
        return {"kind": self.kind, **self.taxonomy.to_dict(), "factors": factors}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Nominal:
        factors = stored.items(
            partial(stored.items, partial(stored.whole, least=1)), data["factors"]
        )
        taxonomy = Taxonomy.from_dict(data)
        if any(factor >= _LARGEST_FACTOR for each in factors for factor in each):
            raise ValueError("a factor that no plan has")
        if [len(each) for each in factors] != [len(each) for each in taxonomy.families]:
            raise ValueError("every family has a factor")
        return cls(taxonomy, factors)


def _total(siblings: int) -> int:
    """Return the L1 norm of a row in a family of this size, without the factor."""
    return 2 * (siblings - 1)


def _squares(siblings: int) -> int:
    """Return the squared L2 norm of a row in a family of this size, without the factor."""
    return siblings * (siblings - 1)


def _factors(sizes: Sequence[int], squares: bool) -> tuple[int, ...]:
    """Return the largest factors within a common limit of the norms; 1 if all families have one
    size.
    """
    several = sorted({size for size in sizes if size > 1})
    if len(several) < 2:
        return (1,) * len(sizes)
    if squares:
        limit = max(_FINEST**2, _squares(several[-1]))
        return tuple(isqrt(limit // _squares(size)) if size > 1 else 1 for size in sizes)
    limit = lcm(*map(_total, several))
    if limit > _FINEST:
        limit = max(_FINEST, _total(several[-1]))
    return tuple(limit // _total(size) if size > 1 else 1 for size in sizes)
