"""Reader of noisy marginals (Marginals, Fourier, Datacube), and whole marginals as tables.

- `ResidualReader`: the least squares estimate of weighted sums, and the moments of its error.
- `Fit`: non-negative tables that agree with each other.
- `marginal_table`: the estimates of all cells of a marginal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from itertools import combinations
from typing import cast

import numpy as np
import numpy.typing as npt

from scumble.model.cache import Cache
from scumble.model.designs.residuals import (
    Places,
    Residuals,
    ResidualSolver,
    SumError,
    Tensor,
    sum_covariance,
    sum_error,
)
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.long_work import portion, told
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.joint_items import conjunction, refusal
from scumble.public.estimation.measurements.readings import (
    GroupedAxes,
    LinearReading,
    Readings,
    Weights,
    WeightTensor,
)
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.noisy_tables import NoisyTable, onto_simplex, raked

Indices = npt.NDArray[np.intp]

_MOST_CACHED = 1 << 24  # cells of marginals
_MOST_ERRORS = 1 << 12


class ResidualReader:
    """All noisy tables of a release; marginals are computed when a question needs them."""

    method = "sum of noisy counts, adjusted so that all tables agree"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design = cast(Residuals, evidence.design)
        table = engine.rows(f"SELECT {quoted(design.count)} FROM view")
        self._start(ResidualSolver(design, table.column(0).to_numpy(), evidence.rows))

    @classmethod
    def of_solver(cls, solver: ResidualSolver) -> ResidualReader:
        """Return a reader of numbers that are in memory."""
        reader = cls.__new__(cls)
        reader._start(solver)
        return reader

    def _start(self, solver: ResidualSolver) -> None:
        self.solver = solver
        self._names = solver.design.attributes
        self._marginals = Cache[Places, Tensor](_MOST_CACHED)
        self._errors = Cache[bytes, SumError](_MOST_ERRORS)

    def read(self, weights: Weights) -> LinearReading:
        blocks = self._blocks(weights)
        try:
            value = self.marginal(_places(blocks))
        except QueryError:
            if (items := conjunction(weights)) is None:
                raise
            raise QueryError(refusal(self.read, items, self._measured)) from None
        left = list(_places(blocks))
        for block in blocks:
            value = np.tensordot(
                value, block.values, (_axes(left, block), range(len(block.places)))
            )
            left = [place for place in left if place not in block.places]
        found = self._error(blocks)
        return LinearReading(float(value), found.variance, found.fourth, found.largest)

    def totals(self, weights: Weights, grouping: GroupedAxes) -> Readings | None:
        """Return the readings of all groups; None if they must be read one by one: because an
        attribute has one value, or to say what was not measured.
        """
        tied = [part for part in weights.parts if not set(part.names).isdisjoint(grouping.names)]
        free = [part for part in weights.parts if set(part.names).isdisjoint(grouping.names)]
        blocks = [*self._blocks(Weights(tuple(free))), *map(self._block, tied)]
        groups = [self._names.index(name) for name in grouping.names]
        places = tuple(sorted({*_places(blocks), *groups}))
        if 1 in grouping.shape or not self.solver.determines(places):
            return None
        values = self.marginal(places)
        for block in blocks:
            values = values * _spread(block, places)
        values = values.sum(axis=tuple(i for i, place in enumerate(places) if place not in groups))
        values = values.transpose([sorted(groups).index(place) for place in groups]).reshape(-1)
        numbers = np.zeros((4, len(grouping)))
        there = np.flatnonzero(grouping.largest(weights))
        numbers[0, there] = values[there]
        numbers[1:, there] = self._errors_of(
            weights, grouping, there, [part.names for part in tied]
        )
        return Readings(numbers)

    def _errors_of(
        self,
        weights: Weights,
        grouping: GroupedAxes,
        groups: Indices,
        tied: Sequence[Sequence[str]],
    ) -> Tensor:
        """Return variances, fourth cumulants and largest coefficients of some groups, by group.

        A group has an error of its own only by attributes that the condition names as well: `tied`.
        """
        codes = grouping.codes(groups)
        shared = [codes[name] for name in grouping.names if any(name in part for part in tied)]
        keys = np.stack([np.zeros_like(groups), *shared], axis=1)
        _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        found = np.empty((3, len(first)))
        for place, one in enumerate(first.tolist()):
            own = {name: int(code[one]) for name, code in codes.items()}
            error = self._error(self._blocks(_fixed(weights, grouping, own)))
            found[:, place] = error.variance, error.fourth, error.largest
        return found[:, of.reshape(-1)]

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        one, other = (self._blocks(weights) for weights in (first, second))
        both = self.read(first), self.read(second)
        shared = sum_covariance(
            self.solver, (_places(one), _product(one)), (_places(other), _product(other))
        )
        return *both, shared

    def marginal(self, places: Places) -> Tensor:
        """Return the estimated counts by the attributes `places`; recent ones are cached."""
        return self._marginals.get_or_make(
            places, self.solver.cells(places), lambda: self._joined(places)
        )

    def noisy_tables(self, columns: Sequence[str], schema: Schema) -> list[NoisyTable]:
        """Return the least squares estimates of the largest sets that were measured."""
        sets = sorted(self.solver.design.sets, key=len, reverse=True)
        largest: list[frozenset[int]] = []
        for one in sets:
            inside = any(one < other for other in largest)
            if not inside and self.solver.determines(tuple(sorted(one))):
                largest.append(one)
        return [self._noisy_table(columns, schema, tuple(sorted(one))) for one in largest if one]

    def _noisy_table(self, columns: Sequence[str], schema: Schema, places: Places) -> NoisyTable:
        names = tuple(columns[place] for place in places)
        cell = np.zeros([schema[name].size for name in names])
        cell.reshape(-1)[0] = 1.0
        ordered = tuple(name for name in schema.names if name in names)
        order = [names.index(name) for name in ordered]
        variance = self.read(Weights((WeightTensor(ordered, cell.transpose(order)),))).variance
        return NoisyTable(places, self.marginal(places), max(variance, 1e-12))

    def _measured(self, names: Sequence[str]) -> bool:
        return self.solver.determines(self.places(names))

    def places(self, names: Sequence[str]) -> Places:
        """Return the places of some attributes in the release, in rising order."""
        return tuple(sorted(self._names.index(name) for name in names))

    def _blocks(self, weights: Weights) -> list[_Block]:
        """Return the parts as blocks. Those with one weight everywhere become one factor."""
        found, factor = [], 1.0
        for part in weights.parts:
            first = float(part.values.flat[0])
            if bool((part.values == first).all()):
                factor *= first
            else:
                found.append(self._block(part))
        return [*found, _Block((), np.array(factor))]

    def _block(self, part: WeightTensor) -> _Block:
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

    def _error(self, blocks: Sequence[_Block]) -> SumError:
        """Return the error of a weighted sum.

        It does not depend on which value of an attribute has which weight, so that most groups of a
        GROUP BY share one.
        """
        digest = blake2b()
        for block in blocks:
            values = np.sort(block.values) if len(block.places) == 1 else block.values
            digest.update(repr(block.places).encode() + np.ascontiguousarray(values).tobytes())
        return self._errors.get_or_make(
            digest.digest(), 1, lambda: sum_error(self.solver, _places(blocks), _product(blocks))
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """A part by the places of its attributes, in rising order."""

    places: Places
    values: Tensor


def _places(blocks: Sequence[_Block]) -> Places:
    return tuple(sorted(place for block in blocks for place in block.places))


def _axes(places: Sequence[int], block: _Block) -> list[int]:
    return [places.index(place) for place in block.places]


def _product(blocks: Sequence[_Block]) -> Tensor:
    """Return the weights of all cells of the attributes that have a part."""
    places = _places(blocks)
    found = np.ones(())
    for block in blocks:
        found = found * _spread(block, places)
    return found


def _spread(block: _Block, places: Places) -> Tensor:
    """Return the values of a block as a tensor that broadcasts over the attributes `places`."""
    shape = [1] * len(places)
    for axis, size in zip(_axes(places, block), block.values.shape, strict=True):
        shape[axis] = size
    return block.values.reshape(shape)


def _fixed(weights: Weights, grouping: GroupedAxes, codes: Mapping[str, int]) -> Weights:
    """Return the weights of one group, as `Weights.fixed` does."""
    left, parts = dict(codes), []
    for part in weights.parts:
        chosen = tuple(
            slice(left[name], left.pop(name) + 1) if name in left else slice(None)
            for name in part.names
        )
        values = np.zeros_like(part.values)
        values[chosen] = part.values[chosen]
        parts.append(WeightTensor(part.names, values))
    for name, size in zip(grouping.names, grouping.shape, strict=True):
        if name in left:
            parts.append(WeightTensor((name,), np.eye(1, size, left[name])[0]))
    return Weights(tuple(parts))


# Non-negative tables that agree with each other, fitted to noisy marginals.
#
# The fit is biased: sums of many small cells are wrong by more than their noise. The table of a set
# of attributes is fitted after those of its subsets. It starts from the table of largest entropy
# that has their sums, moves towards the noisy one, and is scaled back to the sums. How far it moves
# is chosen by Stein's estimate of the risk, from the noisy table alone.

_COARSE = range(-14, 8, 3)  # powers of 2 that are tried first, then those beside the best one
_SMALLEST = 1e-9  # value of a starting cell, so that a noisy one can raise it


class Fit:
    """Non-negative tables of any set of attributes.

    A set that was not measured has the table of largest entropy.
    """

    def __init__(self, solver: ResidualSolver) -> None:
        self._solver = solver
        self._kept = Cache[Places, Tensor](_MOST_CACHED)

    def table(self, places: Places) -> Tensor:
        """Return the fitted table of the attributes `places`.

        Those of all subsets are fitted first. The cells of all of them are the work to be done.
        """
        sets = [some for n in range(1, len(places)) for some in combinations(places, n)]
        cells = [self._solver.cells(some) for some in (*sets, places)]
        ends = [sum(cells[: n + 1]) / sum(cells) for n in range(len(cells))]
        for some, begin, end in zip(sets, [0.0, *ends], ends, strict=False):
            with portion(begin, end):
                self._table(some)
        with portion(ends[-2] if sets else 0.0, 1.0):
            return self._table(places)

    def _table(self, places: Places) -> Tensor:
        return self._kept.get_or_make(
            places, self._solver.cells(places), lambda: self._fitted(places)
        )

    @property
    def _total(self) -> float:
        return max(float(self._solver.marginal(())), 0.0)

    def _fitted(self, places: Places) -> Tensor:
        if not places:
            return np.array(self._total)
        if not self._total:
            return np.zeros([self._solver.sizes[place] for place in places])
        if len(places) == 1:
            return onto_simplex(self._solver.marginal(places), self._total)
        smaller = {
            axes: self._table(tuple(places[axis] for axis in axes))
            for axes in combinations(range(len(places)), len(places) - 1)
        }
        ones = [self._table((place,)) / self._total for place in places]
        start = raked(self._total * reduce(np.multiply.outer, ones), smaller)
        if not self._solver.determines(places):
            return start
        variance = 1 / (self._solver.rate(places) * self._solver.cells(places))
        return raked(moved(start, self._solver.marginal(places), variance), smaller)


def moved(start: Tensor, noisy: Tensor, variance: float) -> Tensor:
    """Return the table p that minimizes Σ(p - noisy)²/2 + s·(relative entropy of p to `start`).

    It solves p + s·ln(p/start) = noisy, cell by cell. Of several s, and of no move at all, the one
    of least risk by Stein's estimate is taken: Σ(p - noisy)² + 2·variance·Σ dp/dnoisy.
    """
    start = np.maximum(start, _SMALLEST)
    still = float(((start - noisy) ** 2).sum())
    found = {power: _risk(start, noisy, variance, power) for power in told(_COARSE)}
    near = min(found, key=lambda power: found[power])
    found |= {
        power: _risk(start, noisy, variance, power) for power in (near - 2, near - 1, near + 1)
    }
    best = min(found, key=lambda power: found[power])
    return start if still <= found[best] else _moved(start, noisy, 2.0**best * variance)


def _moved(start: Tensor, noisy: Tensor, s: float) -> Tensor:
    from scipy.special import wrightomega

    found: Tensor = s * wrightomega(np.log(start / s) + noisy / s)
    return found


def _risk(start: Tensor, noisy: Tensor, variance: float, power: int) -> float:
    s = 2.0**power * variance
    found = _moved(start, noisy, s)
    return float(((found - noisy) ** 2).sum() + 2 * variance * (found / (found + s)).sum())


def rounded(table: Tensor) -> Tensor:
    """Round the cells of `table` so that the sum of every run of cells changes by at most 1.

    The cumulative sums are rounded, so that the total and the sums of the first attribute stay.
    """
    running = np.rint(np.cumsum(table.reshape(-1)))
    return np.diff(running, prepend=0.0).reshape(table.shape)


# A whole marginal as a table.

MOST_CELLS = 10**7
