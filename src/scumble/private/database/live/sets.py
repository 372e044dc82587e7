"""Sets of points that are counted: unions of disjoint products of sets of codes, one set for each
attribute. They are charged as boxes, and read as weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.schema.schema import Schema
from scumble.private.database.space import Boxes, Space
from scumble.public.estimation.measurements.appended import products
from scumble.public.estimation.measurements.readings import Weights, WeightTensor

Mask = npt.NDArray[np.bool_]
MOST_BOXES = 1_000
_Runs = list[list[int]]  # first and last codes


@dataclass(frozen=True)
class PointSet:
    """A union of disjoint products. Each has the runs of codes of every attribute."""

    terms: tuple[tuple[_Runs, ...], ...]

    @classmethod
    def of_weights(cls, schema: Schema, space: Space, weights: Weights) -> PointSet:
        """Return the points with the weight 1, where all others have 0."""
        terms = []
        for each in products(schema, weights):
            along = [each.along(name) for name in space.names]
            terms.append(
                tuple(
                    [[0, size - 1]] if mask is None else _runs(mask != 0)
                    for mask, size in zip(along, space.sizes, strict=True)
                )
            )
        return cls(tuple(terms))

    def complement(self, space: Space) -> PointSet:
        """Return all other points, of a set that is one product."""
        [term] = self.terms
        masks = [_mask(runs, size) for runs, size in zip(term, space.sizes, strict=True)]
        terms = []
        for place, mask in enumerate(masks):
            if not mask.all():  # in the sets of the attributes before, and outside of this one
                after = [[[0, size - 1]] for size in space.sizes[place + 1 :]]
                terms.append((*term[:place], _runs(~mask), *after))
        return PointSet(tuple(terms))

    @property
    def points(self) -> int:
        """How many points there are."""
        return sum(
            prod(sum(last - first + 1 for first, last in runs) for runs in term)
            for term in self.terms
        )

    def boxes(self, space: Space) -> Boxes:
        """Return disjoint boxes with all points; `QueryError` if they are very many."""
        if sum(prod(map(len, term)) for term in self.terms) > MOST_BOXES:
            raise QueryError(
                "The condition of this question picks scattered combinations of values, too many "
                "to measure at once. Ask about fewer columns, or without an accuracy."
            )
        found = [box for term in self.terms for box in product(*term)]
        return np.array(found, np.int64).reshape(-1, len(space), 2)

    def weights(self, space: Space) -> Weights:
        """Return the weights of the count: 1 at the points, and 0 elsewhere."""
        masks = [
            [_mask(runs, size) for runs, size in zip(term, space.sizes, strict=True)]
            for term in self.terms
        ]
        if len(masks) == 1:
            own = zip(space.names, masks[0], strict=True)
            parts = [WeightTensor((name,), _ones(mask)) for name, mask in own if not mask.all()]
            return Weights(tuple(parts))
        asked = [place for place in range(len(space)) if not all(m[place].all() for m in masks)]
        names = tuple(space.names[place] for place in asked)
        tensor = np.zeros([space.sizes[place] for place in asked])
        for term in masks:
            tensor[np.ix_(*(term[place] for place in asked))] = 1
        return Weights((WeightTensor(names, tensor),))

    def to_list(self) -> list[Any]:
        return [list(map(list, term)) for term in self.terms]

    @classmethod
    def from_list(cls, data: Sequence[Any]) -> PointSet:
        return cls(tuple(tuple([list(run) for run in runs] for runs in term) for term in data))


def _runs(mask: Mask) -> _Runs:
    """Return the first and the last code of each run of codes in a set."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [[int(first), int(last) - 1] for first, last in edges.reshape(-1, 2)]


def _ones(mask: Mask) -> npt.NDArray[np.float64]:
    return mask.astype(np.float64)


def _mask(runs: _Runs, size: int) -> Mask:
    mask = np.zeros(size, bool)
    for first, last in runs:
        mask[first : last + 1] = True
    return mask
