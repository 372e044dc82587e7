"""Haar and nominal wavelets.

Haar wavelets of whole numbers: sums and differences of halves, not divided by anything.

Cells are padded with empty ones up to a power of two in thought only: a difference whose right half
is empty is the sum of its left half, which is known from above, and is not measured. So there are
as many numbers as cells, whatever their number, and a cell is in at most one number a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt, lcm
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scumble.model.designs.axis import Floats, Integers, cell_classes
from scumble.model.designs.taxonomy import Taxonomy


@dataclass(frozen=True)
class Haar:
    """Groups are the differences, from pairs of cells up to halves of everything, then the sum."""

    kind: ClassVar[str] = "haar"

    size: int

    @property
    def signed(self) -> bool:
        return self.size > 1

    @property
    def _levels(self) -> tuple[int, ...]:
        """How many sums there are before each halving."""
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

    def nonnegative_gram(self, weights: Sequence[Fraction]) -> bool:
        """Two cells share the sum and, with equal signs, the differences of blocks whose one half
        holds both; with opposite signs only one, that of the halves that part them.
        """
        return all(weight <= weights[-1] for weight in weights)

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
        return cls(int(data["size"]))


# Nominal wavelets of whole numbers: how far each node of a taxonomy is from its siblings' mean.
#
# A node of f siblings is measured as f times its count minus the count of all siblings, times a
# whole number that makes one row weigh about the same in every family of a level. Families of one
# child say nothing and are not measured.

_FINEST = 1 << 16  # one row changes the numbers of a level by no more than this, or one family's


@dataclass(frozen=True)
class Nominal:
    """Groups are the levels that have siblings, from the leaves up, then the sum of all.

    `factors` has a whole number for every family, as `taxonomy.families` has its size.
    """

    kind: ClassVar[str] = "nominal"

    taxonomy: Taxonomy
    factors: tuple[tuple[int, ...], ...]

    @classmethod
    def balanced(cls, taxonomy: Taxonomy, *, squares: bool) -> Nominal:
        """With factors that even out the changes by one row: in all, or in squares."""
        return cls(taxonomy, tuple(_factors(sizes, squares) for sizes in taxonomy.families))

    @property
    def size(self) -> int:
        return self.taxonomy.size

    @property
    def signed(self) -> bool:
        return self.size > 1

    @cached_property
    def _levels(self) -> tuple[tuple[int, NDArray[np.intp]], ...]:
        """The steps that have siblings, and which of the nodes below have some."""
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
        """A row of a family of f adds f - 1 to one number of it and takes 1 from f - 1 others."""
        norms = []
        for place, _ in self._levels:
            pairs = list(zip(self.factors[place], self.taxonomy.families[place], strict=True))
            norms.append(
                (max(k * _total(f) for k, f in pairs), max(k * k * _squares(f) for k, f in pairs))
            )
        return (*norms, (1, 1))

    @cached_property
    def _scales(self) -> tuple[tuple[Integers, Integers], ...]:
        """By step, the size and the factor of each family, as they stand along a tensor."""
        both = zip(self.taxonomy.families, self.factors, strict=True)
        return tuple(
            (np.array(sizes, np.int64)[None, :, None], np.array(factors, np.int64)[None, :, None])
            for sizes, factors in both
        )

    def nonnegative_gram(self, weights: Sequence[Fraction]) -> bool:
        """Two cells share the sum and, with a product of k² f (f - 1), the families of one node
        above both; that of f nodes which parts them gives 2 · -k² (f - 1) + (f - 2) k² = -k² f.
        """
        return all(
            weight * k * k * f <= weights[-1]
            for weight, (place, _) in zip(weights, self._levels, strict=False)
            for k, f in zip(self.factors[place], self.taxonomy.families[place], strict=True)
            if f > 1
        )

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
        """Minus the mean of siblings, and in units of counts: a symmetric map."""
        step, (size, factor) = self.taxonomy.steps[place], self._scales[place]
        centred: Floats = nodes - step.spread(step.sum(nodes) / size)
        return centred / step.spread(size * factor)

    def to_dict(self) -> dict[str, Any]:
        factors = [list(each) for each in self.factors]
        return {"kind": self.kind, **self.taxonomy.to_dict(), "factors": factors}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Nominal:
        factors = tuple(tuple(map(int, each)) for each in data["factors"])
        return cls(Taxonomy.from_dict(data), factors)


def _total(siblings: int) -> int:
    """By how much one row changes the numbers of its family in all, without the factor."""
    return 2 * (siblings - 1)


def _squares(siblings: int) -> int:
    return siblings * (siblings - 1)


def _factors(sizes: Sequence[int], squares: bool) -> tuple[int, ...]:
    """Whole numbers as large as a common limit allows, 1 if all families are of one size."""
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
