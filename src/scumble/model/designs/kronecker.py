"""Kronecker products of axes: the design of hierarchies and wavelets over several attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from math import lcm, prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scumble.model import stored
from scumble.model.designs.axis import Axis, Floats, IdentityAxis, Integers
from scumble.model.designs.design import Design, Extents
from scumble.model.designs.taxonomy import TaxonomyTree
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar, Nominal
from scumble.model.errors import ReleaseError
from scumble.model.laws import noise_law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import PrivacyUnit, cost_of_sums
from scumble.model.privacy.stated_loss import StatedLoss, of_loss

NUMBER = "number"  # the column of the file


@dataclass(frozen=True)
class Product(Design):
    """Measurements by the Kronecker product of the matrices of `axes`.

    `names` are the attributes of each axis; its cells are their combinations, the last attribute
    fastest. A group is a combination of one group of each axis. The file holds the groups, and the
    numbers of each, with the last axis fastest. `laws` has the noise of each group. Reconstruction
    is the Kronecker product of the axes' reconstructions. It is always unbiased, and it is weighted
    least squares if the variances of the noise are products of those that the axes assume.
    """

    kind: ClassVar[str] = "product"

    names: tuple[tuple[str, ...], ...]
    axes: tuple[Axis, ...]
    laws: tuple[NoiseLaw, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All attributes, in the order of the cells."""
        return tuple(name for names in self.names for name in names)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def extents(self) -> Extents:
        """The attributes of each axis, and how many combinations of values they have."""
        return tuple(zip(self.names, self.shape, strict=True))

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of groups of each axis; each combination has its own law."""
        return tuple(len(axis.lengths) for axis in self.axes)

    @property
    def signed(self) -> bool:
        return any(axis.signed for axis in self.axes)

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        if not self.signed:
            return True
        weights = [1 / law.parameter for law in laws if not isinstance(law, DiscreteLaplace)]
        return len(weights) == len(laws) and least_product(self.axes, weights) >= 0

    @property
    def size(self) -> int:
        """The number of measurements in all groups."""
        return prod(sum(axis.lengths) for axis in self.axes)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of measurements of each group."""
        return tuple(prod(each) for each in product(*(axis.lengths for axis in self.axes)))

    def norms(self) -> list[tuple[int, int]]:
        return product_norms(self.axes)

    def apply(self, counts: Integers) -> list[NDArray[Any]]:
        """Return the numbers of each group, as a one-dimensional array."""
        places = range(len(self.axes))
        tensors = apply_along(counts.reshape(self.shape), places, lambda i: self.axes[i].measure)
        # Noise is added in place, so a group must not share memory with the counts.
        return [_own(tensor, counts) for tensor in tensors]

    def reconstruct(self, groups: Sequence[NDArray[Any]]) -> Floats:
        """Return the estimate of all cells from noisy numbers, a tensor of shape `shape`."""
        lengths = list(product(*(axis.lengths for axis in self.axes)))
        tensors: list[Floats] = [
            numbers.astype(np.float64).reshape(shape)
            for numbers, shape in zip(groups, lengths, strict=True)
        ]
        for place in reversed(range(len(self.axes))):
            step = self.groups[place]
            tensors = [
                self._joined(place, tensors[begin : begin + step])
                for begin in range(0, len(tensors), step)
            ]
        return tensors[0]

    def _joined(self, place: int, tensors: Sequence[Floats]) -> Floats:
        """Return the tensors of the groups of one axis, reconstructed along it."""
        before, after = tensors[0].shape[:place], tensors[0].shape[place + 1 :]
        parts = [
            tensor.reshape(prod(before), tensor.shape[place], prod(after)) for tensor in tensors
        ]
        return self.axes[place].reconstruct(parts).reshape(*before, -1, *after)

    def coefficients(self, places: Sequence[int], weights: Floats) -> list[Floats]:
        """Return the coefficients of the numbers of every combination of groups of the axes
        `places` in a weighted sum of their cells. The last directions of `weights` are these axes.
        """
        return apply_along(weights, places, lambda i: self.axes[i].adjoint)

    def split(self, numbers: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the numbers of a file by group."""
        return np.split(numbers, np.cumsum(self.lengths)[:-1])

    @cached_property
    def variances(self) -> Floats:
        """The variances of the noise, a tensor over the groups of all axes."""
        return np.array([law.variance for law in self.laws]).reshape(self.groups)

    @cached_property
    def fourths(self) -> Floats:
        """The fourth cumulants of the noise, a tensor over the groups of all axes."""
        return np.array([law.fourth for law in self.laws]).reshape(self.groups)

    def to_dict(self) -> dict[str, Any]:
        different = list(dict.fromkeys(self.laws))
        return {
            "kind": self.kind,
            "names": [list(names) for names in self.names],
            "axes": [axis.to_dict() for axis in self.axes],
            "laws": [law.to_dict() for law in different],
            "law of group": [different.index(law) for law in self.laws],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Product:
        laws = [noise_law_from_dict(law) for law in data["laws"]]
        found = cls(
            stored.items(partial(stored.items, stored.text), data["names"]),
            stored.items(axis_from_dict, data["axes"]),
            tuple(laws[place] for place in stored.items(stored.whole, data["law of group"])),
        )
        if len(found.names) != len(found.axes) or len(found.laws) != prod(found.groups):
            raise ValueError("every axis has names, and every group of numbers a law")
        return found

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        gram = self.nonnegative_gram(self.laws)
        return of_loss(cost_of_sums(self.laws, self.norms(), unit, nonnegative_gram=gram))


def product_norms(axes: Sequence[Axis]) -> list[tuple[int, int]]:
    """Return the norms of the groups of a Kronecker product: products of the norms of the axes."""
    return [
        (prod(total for total, _ in each), prod(squares for _, squares in each))
        for each in product(*(axis.norms for axis in axes))
    ]


def least_product(axes: Sequence[Axis], weights: Sequence[Fraction]) -> Fraction:
    """Return the least inner product of two columns of a Kronecker product, where the terms of each
    group are multiplied by its weight: each kind of pair is one kind of every axis.
    """
    unit = lcm(*(weight.denominator for weight in weights))
    whole = np.array([int(weight * unit) for weight in weights], object)
    products = whole.reshape([len(axis.lengths) for axis in axes])
    for axis in axes:  # the next axis is always the first direction
        products = np.tensordot(products, axis.pair_products.astype(object), ((0,), (1,)))
    return Fraction(int(products.min()), unit)


def apply_along(
    tensor: NDArray[Any], places: Sequence[int], verb: Callable[[int], Callable[[Any], list[Any]]]
) -> list[NDArray[Any]]:
    """Apply the map `verb(place)` along each axis of `places` in turn, to the results of all groups
    of the axes before. The last directions of the tensor are these axes.
    """
    tensors = [tensor]
    for direction, place in enumerate(places, tensor.ndim - len(places)):
        act = verb(place)
        found = []
        for each in tensors:
            before, after = each.shape[:direction], each.shape[direction + 1 :]
            flat = each.reshape(prod(before), each.shape[direction], prod(after))
            found += [part.reshape(*before, -1, *after) for part in act(flat)]
        tensors = found
    return tensors


def _own(numbers: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(numbers).reshape(-1)
    return flat.copy() if np.may_share_memory(flat, counts) else flat


_KINDS: Mapping[str, type[Axis]] = {
    kind.kind: kind for kind in (IdentityAxis, Tree, TaxonomyTree, Haar, Nominal)
}


def axis_from_dict(data: Mapping[str, Any]) -> Axis:
    """Return the axis that `to_dict` described as `data`."""
    if data.get("kind") not in _KINDS:
        raise ReleaseError(f"This version of scumble knows no axis of kind {data.get('kind')!r}.")
    return _KINDS[data["kind"]].from_dict(data)


@dataclass(frozen=True)
class ByLaw:
    """The transform of a product with the groups of one law merged, so that their noise is drawn in
    one call.
    """

    design: Product

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        own = {
            group: law for groups, law in zip(self._members, laws, strict=True) for group in groups
        }
        return self.design.nonnegative_gram([own[group] for group in range(len(own))])

    @cached_property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return tuple(dict.fromkeys(self.design.laws))

    @cached_property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        """For each law, the groups of the product that have it."""
        members: dict[NoiseLaw, list[int]] = {law: [] for law in self.laws}
        for group, law in enumerate(self.design.laws):
            members[law].append(group)
        return tuple(map(tuple, members.values()))

    def norms(self) -> list[tuple[int, int]]:
        """Return, for each law, the sum of the norms of its groups."""
        own = self.design.norms()
        return [
            (sum(own[group][0] for group in groups), sum(own[group][1] for group in groups))
            for groups in self._members
        ]

    def apply(self, counts: Integers) -> list[NDArray[Any]]:
        own = self.design.apply(counts)
        return [np.concatenate([own[group] for group in groups]) for groups in self._members]

    def ordered(self, numbers: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the numbers in the order of the groups of the product."""
        lengths = self.design.lengths
        parts: dict[int, NDArray[Any]] = {}
        for groups, own in zip(self._members, numbers, strict=True):
            ends = np.cumsum([lengths[group] for group in groups])
            parts.update(zip(groups, np.split(own, ends[:-1]), strict=True))
        return np.concatenate([parts[group] for group in range(len(lengths))])
