"""Answers from noisy marginals: their least squares estimate, and the exact law of its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import numpy as np

from scumble.model.cache import Remembered
from scumble.model.designs.residual_axis import Tensor
from scumble.model.designs.residual_error import Error, covariance, error
from scumble.model.designs.residual_solver import Places, Solver
from scumble.model.designs.residuals import Residuals
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.reading import Reading
from scumble.public.estimation.measurements.readings import Part, Weights
from scumble.public.sandbox import Engine

_MOST_KEPT = 1 << 24  # cells of marginals
_MOST_ERRORS = 1 << 12


class ResidualReader:
    """All noisy tables of a release; marginals are put together when a question needs them."""

    method = "sum of cells, fitted by least squares to noisy marginals"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Engine) -> None:
        design = cast(Residuals, evidence.design)
        table = engine.rows(f"SELECT {quoted(design.count)} FROM view")
        self._start(Solver(design, table.column(0).to_numpy()))

    @classmethod
    def of_solver(cls, solver: Solver) -> ResidualReader:
        """A reader of numbers that are in memory."""
        reader = cls.__new__(cls)
        reader._start(solver)
        return reader

    def _start(self, solver: Solver) -> None:
        self.solver = solver
        self._names = solver.design.attributes
        self._marginals = Remembered[Places, Tensor](_MOST_KEPT)
        self._errors = Remembered[bytes, Error](_MOST_ERRORS)

    def read(self, weights: Weights) -> Reading:
        blocks = self._blocks(weights)
        value = self.marginal(_places(blocks))
        left = list(_places(blocks))
        for block in blocks:
            value = np.tensordot(
                value, block.values, (_axes(left, block), range(len(block.places)))
            )
            left = [place for place in left if place not in block.places]
        found = self._error(blocks)
        return Reading(float(value), found.variance, found.fourth, found.largest)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = (self._blocks(weights) for weights in (first, second))
        both = self.read(first), self.read(second)
        shared = covariance(
            self.solver, (_places(one), _product(one)), (_places(other), _product(other))
        )
        return *both, shared

    def marginal(self, places: Places) -> Tensor:
        """The estimated counts of these attributes; the last ones asked for are kept."""
        return self._marginals.of(places, self.solver.cells(places), lambda: self._joined(places))

    def places(self, names: Sequence[str]) -> Places:
        """The numbers of some attributes, in order."""
        return tuple(sorted(self._names.index(name) for name in names))

    def _blocks(self, weights: Weights) -> list[_Block]:
        """The parts, without those that give every value of an attribute the same weight."""
        found, factor = [], 1.0
        for part in weights.parts:
            first = float(part.values.flat[0])
            if bool((part.values == first).all()):
                factor *= first
            else:
                found.append(self._block(part))
        return [*found, _Block((), np.array(factor))]

    def _block(self, part: Part) -> _Block:
        places = [self._names.index(name) for name in part.names]
        return _Block(tuple(sorted(places)), part.values.transpose(np.argsort(places)))

    def _joined(self, places: Places) -> Tensor:
        if self.solver.determines(places):
            return self.solver.marginal(places)
        names = ", ".join(self._names[place] for place in places)
        most = max(len(table.places) for table in self.solver.design.tables)
        raise QueryError(
            f"The question ties {names} together, but no table of all of them was measured, and "
            f"none of more than {most} attributes. Ask about attributes that are together in one "
            "of the published sets, or publish that set."
        )

    def _error(self, blocks: Sequence[_Block]) -> Error:
        """The error of a weighted sum. Which value of an attribute has which weight makes no
        difference to it, so that all groups of a GROUP BY mostly share one.
        """
        digest = blake2b()
        for block in blocks:
            values = np.sort(block.values) if len(block.places) == 1 else block.values
            digest.update(repr(block.places).encode() + np.ascontiguousarray(values).tobytes())
        return self._errors.of(
            digest.digest(), 1, lambda: error(self.solver, _places(blocks), _product(blocks))
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """A part by the numbers of its attributes, in rising order."""

    places: Places
    values: Tensor


def _places(blocks: Sequence[_Block]) -> Places:
    return tuple(sorted(place for block in blocks for place in block.places))


def _axes(places: Sequence[int], block: _Block) -> list[int]:
    return [places.index(place) for place in block.places]


def _product(blocks: Sequence[_Block]) -> Tensor:
    """The weights of all cells of the attributes that have a part."""
    places = _places(blocks)
    found = np.ones(())
    for block in blocks:
        shape = [1] * len(places)
        for axis, size in zip(_axes(places, block), block.values.shape, strict=True):
            shape[axis] = size
        found = found * block.values.reshape(shape)
    return found
