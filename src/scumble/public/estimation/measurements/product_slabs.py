"""Coefficients of numbers along some axes of a product, for all groups of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.public.estimation.measurements.group_readings import Codes, Grouping
from scumble.public.estimation.measurements.readings import Part

_AT_ONCE = 1 << 19  # weights of cells that are pulled back together


@dataclass(frozen=True, eq=False)
class Table:
    """Of coefficients along some axes: the sums of products of two for a number and of fourth
    powers of the first, by the codes of some grouped attributes and then by the groups of numbers
    of the axes; and the largest of the first, by these codes.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    products: Floats
    fourths: Floats
    largest: Floats


@dataclass(frozen=True, eq=False)
class Slab:
    """Axes that the parts of some weights tie together when the codes of all grouped attributes are
    fixed. `names` are those of them on which the weights of their cells depend.
    """

    design: Product
    sizes: dict[str, int]  # of all attributes
    places: tuple[int, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...]

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Of these axes, in the order of their cells."""
        return tuple(name for place in self.places for name in self.design.names[place])

    @property
    def fixed(self) -> bool:
        """Whether a group has a single cell of these axes, of weight 1."""
        return not self.parts and set(self.attributes) <= set(self.names)

    def at(self, codes: dict[str, Codes]) -> Floats:
        """The weights of all cells for many codes: a direction for these, then the axes'."""
        count = len(next(iter(codes.values()))) if codes else 1
        tensor = np.ones((count, *(self.sizes[name] for name in self.attributes)))
        for part in self.parts:
            grouped = [name for name in part.names if name in codes]
            others = [name for name in self.attributes if name in part.names and name not in codes]
            order = [part.names.index(name) for name in (*grouped, *others)]
            chosen = part.values.transpose(order)[tuple(codes[name] for name in grouped)]
            tensor *= chosen.reshape(-1 if grouped else 1, *self._shape(others))
        for name in set(self.attributes).intersection(codes):
            hit = codes[name][:, None] == np.arange(self.sizes[name])
            tensor *= hit.reshape(-1, *self._shape([name]))
        return tensor.reshape(count, *(self.design.axes[place].size for place in self.places))

    def _shape(self, names: Sequence[str]) -> list[int]:
        return [self.sizes[name] if name in names else 1 for name in self.attributes]

    def table(self, second: Slab | None = None) -> Table:
        """Of the coefficients of these weights, or of these and those of a second slab of the same
        axes and names.
        """
        keys = Grouping(self.names, tuple(self.sizes[name] for name in self.names))
        other = None if second is None else lambda some: second.at(keys.codes(some))
        return self.pulled(keys, lambda some: self.at(keys.codes(some)), other)

    def pulled(
        self,
        keys: Grouping,
        first: Callable[[Codes], Floats],
        second: Callable[[Codes], Floats] | None = None,
    ) -> Table:
        """Of the coefficients of any weights of the cells of these axes, by key."""
        step = max(_AT_ONCE // prod(self.design.axes[place].size for place in self.places), 1)
        found = [
            self._moments(some, first, second)
            for some in np.split(np.arange(len(keys)), range(step, len(keys), step))
        ]
        products, fourths, largest = (np.concatenate(each) for each in zip(*found, strict=True))
        shape = (*keys.shape, *(self.design.groups[place] for place in self.places))
        return Table(
            keys.names,
            self.places,
            products.reshape(shape),
            fourths.reshape(shape),
            largest.reshape(keys.shape),
        )

    def _moments(
        self,
        some: Codes,
        first: Callable[[Codes], Floats],
        second: Callable[[Codes], Floats] | None,
    ) -> tuple[Floats, Floats, Floats]:
        ones = self.design.coefficients(self.places, first(some))
        ones = [each.reshape(len(some), -1) for each in ones]
        others = ones
        if second is not None:
            others = self.design.coefficients(self.places, second(some))
            others = [each.reshape(len(some), -1) for each in others]
        products = [(a * b).sum(axis=1) for a, b in zip(ones, others, strict=True)]
        fourths = [((a * a) ** 2).sum(axis=1) for a in ones]
        largest = np.max([np.abs(a).max(axis=1) for a in ones], axis=0)
        return np.stack(products, axis=1), np.stack(fourths, axis=1), largest


def fixed_table(slab: Slab, place: int) -> Table:
    """Of an axis of which every group has one cell; of cells that are alike, one is pulled back."""
    axis = slab.design.axes[place]
    _, first, which = np.unique(axis.alike, return_index=True, return_inverse=True)
    keys = Grouping(("cell",), (len(first),))
    found = slab.pulled(keys, lambda some: (first[some, None] == np.arange(axis.size)) * 1.0)
    names = slab.design.names[place]
    shape = [slab.sizes[name] for name in names]
    return Table(
        names,
        (place,),
        found.products[which].reshape(*shape, -1),
        found.fourths[which].reshape(*shape, -1),
        found.largest[which].reshape(shape),
    )
