"""Marginals: noisy counts of many sets of attributes; and TableSummary, the base class that it
shares with Fourier and Datacube.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.designs import residuals
from scumble.model.designs.residuals import (
    MOST_CUBE_ATTRIBUTES,
    CuboidLattice,
    MarginalTable,
    Residuals,
    closure,
    places_of,
)
from scumble.model.errors import ParameterError, SchemaError, large, named
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss
from scumble.model.privacy.guarantee import read_positive
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import (
    BINARY,
    SMALL_DELTA,
    Claim,
    ComparisonPreset,
    protection,
)
from scumble.private.meter.table import PrivateTable, noisy_tables
from scumble.private.summaries.base import WithDelta
from scumble.private.summaries.sums import SumSummary

MOST_CELLS = 5 * 10**7
MOST_TABLES = 2 * 10**5
MOST_ATTRIBUTES = 16  # of one table, which then has 2^16 parts
_MOST_LISTED = 1 << 22  # subsets, counted as often as they occur
FILE = "tables.parquet"
SMALLEST_EPSILON = Fraction(1, 10**9)

Places = tuple[int, ...]


class TableSummary(SumSummary):
    """Measures marginals of sets of attributes, or parts of them, with noise by table."""

    def _paid(self) -> PrivacyLoss:
        if self._delta is not None and self._epsilon < SMALLEST_EPSILON:
            allowed = f"at least {float(SMALLEST_EPSILON):g} with delta"
            owner = type(self).__name__
            raise ParameterError.of(owner, "epsilon", allowed, self.epsilon)
        return super()._paid()

    @property
    def _has_residuals(self) -> bool:
        return self.gaussian

    @abstractmethod
    def tables(self, schema: Schema) -> list[MarginalTable]:
        """Return what to measure, from parameters and schema alone."""

    def cell_layout(self, schema: Schema) -> Layout:
        return {FILE: ("count",)}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        sizes = self._list_sizes(table.schema)
        design = Residuals(self.names, sizes, tuple(self.tables(table.schema)))
        numbers = noisy_tables(table, design, self.unit)
        written = pa.table({design.count: numbers})
        pq.write_table(written, folder / FILE, store_schema=False)
        return Measurements(FILE, self.names, design, table.public_rows(self.unit))

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return how much was measured."""
        design = cast(Residuals, cast(Measurements, evidence).of_cells)
        return {"tables measured": len(design.tables), "numbers": design.numbers}

    def _list_sizes(self, schema: Schema) -> tuple[int, ...]:
        return tuple(schema[name].size for name in self.names)

    def _refuse_many(self, schema: Schema, sets: Sequence[Places]) -> None:
        """Refuse more tables or cells than can be counted, before anything is counted."""
        owner, sizes = type(self).__name__, self._list_sizes(schema)
        for places in sets:
            if len(places) > MOST_ATTRIBUTES:
                raise ParameterError(
                    f"{owner} measures tables of at most {MOST_ATTRIBUTES} attributes each. Got "
                    f"one of {len(places)}; ask for smaller ones."
                )
        largest = max(sets, key=lambda places: prod(sizes[index] for index in places))
        cells = sum(prod(sizes[index] for index in places) for places in sets)
        if cells > MOST_CELLS or len(sets) > MOST_TABLES:
            raise ParameterError(
                f"The {len(sets)} tables of {owner} would have {large(cells)} cells, the largest "
                f"({', '.join(self._list_names(largest))}) "
                f"{large(prod(sizes[p] for p in largest))} of them; at most {MOST_TABLES} tables "
                f"and {large(MOST_CELLS)} cells are possible. Choose fewer or smaller sets of "
                "attributes, or coarser domains."
            )

    def _refuse_parts(self, sets: Sequence[Places]) -> None:
        """Refuse sets that have more subsets than can be measured one by one."""
        most = sum(1 << len(places) for places in sets)
        if most > _MOST_LISTED or len(closure(sets)) > MOST_TABLES:
            raise ParameterError(
                f"{type(self).__name__} measures every subset of the sets by itself, at most "
                f"{MOST_TABLES} of them; these sets have more. Ask for fewer or smaller sets."
            )

    def _list_names(self, places: Iterable[int]) -> list[str]:
        return [self.names[index] for index in places]


def sets_of(attributes: int, ways: int) -> list[Places]:
    """Return all sets of `ways` of the attributes, by position."""
    return list(combinations(range(attributes), ways))


def refuse_sets(owner: str, attributes: int, ways: int) -> None:
    """Refuse more sets than can be listed, before they are."""
    if comb(attributes, ways) > MOST_TABLES:
        raise ParameterError(
            f"{owner} measures at most {MOST_TABLES} tables, but there are "
            f"{large(comb(attributes, ways))} sets of {ways} of {attributes} attributes. Ask for "
            "smaller sets."
        )


# Marginals: noisy counts of many sets of attributes, consistent with each other.

Weighting = Literal["cells", "tables"]


@dataclass(kw_only=True, eq=False, repr=False)
class Marginals(WithDelta, TableSummary):
    """Publishes noisy counts of many small sets of attributes, as all pairs, that agree with each
    other wherever they overlap. A question about attributes of one set is answered from all.

    `ways` asks for all sets of this number of attributes, `sets` for those listed. `weights` says
    what matters: "tables" gives every set the same weight (with `delta` also every smaller set
    inside one), "cells" every cell of every set, and a list has a number for each set, the weight
    of each of its cells. `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        ways: attributes of a table.
        sets: one table to measure, as age,sex; repeatable.
        weights: tables, cells, or a number for each set.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: with Laplace noise a
        person moves each marginal by at most Δ = contribution (add or remove) or 2·contribution
        (replace), and the Δ/scale of all tables add up to ε at most. With Gaussian noise the
        residual of a set A costs ρ = Π(n−1)/n / 2σ² (add or remove, one row), times contribution²;
        for replacing, the worst pair of cells for all tables together is found. These are the costs
        of the lattice Gaussian; the integer noise that is added comes within a factor of e^τ of it,
        τ < 2^−80 in all, which is put aside of ε and δ (proof in designs/residuals).
    Estimate: generalised least squares over all noisy tables: unbiased, and of the least variance
        among unbiased linear estimates. Its variance, fourth cumulant and covariances are exact.
    Reference: Xiao, He, Zhang, Kifer, NeurIPS 2023 (ResidualPlanner) for Gaussian noise; Cormode,
        Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013, for the budgets of pure ε.
    Differs: integer noise throughout. Where Gaussian noise is too small for the lower price of a
        residual to be proven, its whole marginal is measured at the whole price. Noise is on a grid
        of steps of 2 %, which costs a part in 10,000 of the variance.
    """

    name = "marginals"
    gaussian_proof = (
        "discrete Gaussian noise on residuals: Canonne, Kamath, Steinke, NeurIPS 2020; lower "
        "price of residuals: Xiao, He, Zhang, Kifer, NeurIPS 2023, and proof in "
        "model/designs/residuals.py"
    )

    ways: int | None = None
    sets: Sequence[Sequence[str]] | None = None
    weights: Weighting | Sequence[float] = "tables"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ways is None) == (self.sets is None):
            raise ParameterError(
                f"Marginals takes either {named('ways')} or {named('sets')}. Got both or none "
                "instead."
            )
        if self.ways is not None:
            self.ways = whole("Marginals", "ways", self.ways, least=1, most=len(self.names))
            refuse_sets("Marginals", len(self.names), self.ways)
            self._asked = sets_of(len(self.names), self.ways)
        elif self.sets is not None:
            self._asked = self._check_sets(self.sets)
            self.sets = [self._list_names(places) for places in self._asked]
        self.weights = self._check_weights(self.weights)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self._refuse_many(schema, self._asked)
        if self.gaussian:
            self._refuse_parts(self._asked)

    def workload(self, schema: Schema) -> dict[Places, float]:
        """Return the sets of attributes that matter, with the weight of each of their cells."""
        sets = self._asked
        if isinstance(self.weights, tuple):
            return dict(zip(sets, self.weights, strict=True))
        if self.weights == "cells":
            return dict.fromkeys(sets, 1.0)
        if self.gaussian:
            sets = closure(sets)[1:]
        sizes = self._list_sizes(schema)
        return {places: 1 / prod(sizes[index] for index in places) for places in sets}

    def tables(self, schema: Schema) -> list[MarginalTable]:
        asked, sizes = self.workload(schema), self._list_sizes(schema)
        if self.gaussian:
            return residuals.plan_residuals(asked, sizes, self.unit, self.cell_promise.rho)
        epsilon = self.cell_promise.epsilon
        return residuals.plan_marginals(asked, sizes, self.unit, epsilon, gaussian=False)

    def _check_sets(self, sets: Sequence[Sequence[str]]) -> list[Places]:
        allowed = "a list of different sets of the attributes, each a list of one or more names"
        checked = []
        for given in sets:
            names = [given] if isinstance(given, str) else list(given)
            known = all(name in self.names for name in names)
            if not names or not known or len(set(names)) < len(names):
                raise ParameterError.of("Marginals", "sets", allowed, names)
            checked.append(tuple(sorted(map(self.names.index, names))))
        if not checked or len(set(checked)) < len(checked):
            raise ParameterError.of("Marginals", "sets", allowed, [list(given) for given in sets])
        return checked

    def _check_weights(self, weights: Weighting | Sequence[float]) -> Weighting | tuple[float, ...]:
        allowed = "'cells', 'tables', or a list of one number above 0 for each set"
        if isinstance(weights, str):
            if weights not in ("cells", "tables"):
                raise ParameterError.of("Marginals", "weights", allowed, weights)
            return weights
        checked = tuple(float(read_positive("Marginals", "weights", weight)) for weight in weights)
        if len(checked) != len(self._asked):
            raise ParameterError.of("Marginals", "weights", allowed, list(checked))
        return checked

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "ways": study.ways}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], ways=1, **protection(neighbours)), 1)
        gaussian = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b"], ways=2, **gaussian), 1, SMALL_DELTA)


# --- fourier --------------------------------------------------------------------------------------
#
# Fourier: noisy Fourier coefficients of a table of attributes with two values.


@dataclass(kw_only=True, eq=False, repr=False)
class Fourier(TableSummary):
    """Publishes noisy Fourier coefficients of a table whose attributes have two values each: one
    whole number for every set of at most `ways` attributes, from which all marginals follow.

    A coefficient is the number of rows with an even number of second values among the attributes of
    the set, less the number with an odd one. `neighbours`, `contribution` and `person` are as for
    Histogram.

    Parameters:
        ways: attributes of a table.

    Promises: ε-DP of the whole release. Proof: a row adds +1 or −1 to every coefficient, so that a
        person moves each by at most contribution; if a row is replaced, the coefficients of those
        sets change, by 2, in which the two rows differ an odd number of times, and the worst way
        to differ is found for all of them together. The changes over their scales add up to ε.
    Estimate: a marginal of k attributes is a sum of 2^k coefficients over 2^k; unbiased, and
        consistent with all others. The variance and the fourth cumulant of its error are exact.
    Reference: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar, PODS 2007; budgets by Cormode,
        Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013.
    Differs: integer noise on integer coefficients. Coefficients that more marginals need have less
        noise, in place of one scale for all; without the linear program over all 2^d cells that
        made tables non-negative: `Release.marginal` fits the ones that are asked for.
    """

    name = "fourier"

    ways: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ways = whole("Fourier", "ways", self.ways, least=1, most=len(self.names))
        refuse_sets("Fourier", len(self.names), self.ways)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        for name in self.names:
            if schema[name].size != 2:
                raise SchemaError(
                    f"Fourier takes attributes of two values, but '{name}' has "
                    f"{schema[name].size}. Use the method marginals, which takes any."
                )
        self._refuse_many(schema, sets_of(len(self.names), self.ways))
        self._refuse_parts(sets_of(len(self.names), self.ways))

    def tables(self, schema: Schema) -> list[MarginalTable]:
        asked = dict.fromkeys(sets_of(len(self.names), self.ways), 1.0)
        sizes = self._list_sizes(schema)
        return residuals.plan_contrasts(asked, sizes, self.unit, self.cell_promise.epsilon)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "ways": study.ways}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], ways=2, **protection(neighbours)), 1, schema=BINARY)


# --- datacube -------------------------------------------------------------------------------------
#
# Datacube: a few well chosen cuboids of a cube, from which all others follow.


@dataclass(kw_only=True, eq=False, repr=False)
class Datacube(WithDelta, TableSummary):
    """Publishes noisy cuboids of a data cube, chosen so that every other cuboid follows from them
    with little noise.

    `ways` limits what is asked to cuboids of this number of attributes; without it all are asked.
    The choice makes the largest variance small. With `within`, a standard error, it maximises the
    number of cuboids whose cells are within it. `neighbours`, `contribution` and `person` are as
    for Histogram.

    Parameters:
        ways: attributes of a table.
        within: standard error that many tables shall have.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: the choice is made from
        the domains alone; a person moves each of s cuboids by at most Δ = contribution (add or
        remove) or 2·contribution (replace), and each has noise of scale sΔ/ε (with `delta`: the
        Gaussian noise whose s losses add up to the ρ of ε and δ).
    Estimate: generalised least squares over all measured cuboids: unbiased, consistent, and of the
        least variance among unbiased linear estimates. Its variance and fourth cumulant are exact.
    Reference: Ding, Winslett, Han, Li, SIGMOD 2011 (BMAX and PMOST).
    Differs: integer noise. Of the greedy covers, the one is taken that is best after least
        squares, not by the best single ancestor. Cuboids of more cells than can be counted are not
        measured.
    """

    name = "datacube"

    ways: int | None = None
    within: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        most = len(self.names)
        if most > MOST_CUBE_ATTRIBUTES:
            raise ParameterError(
                f"Datacube takes at most {MOST_CUBE_ATTRIBUTES} attributes, which have "
                f"{1 << MOST_CUBE_ATTRIBUTES} cuboids. Got {most}; use the method marginals for "
                "more."
            )
        asked = most if self.ways is None else self.ways
        self.ways = self._ways = whole("Datacube", "ways", asked, least=1, most=most)
        given = self.within
        self._within = None if given is None else read_positive("Datacube", "within", given)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cube = self._make_cube(schema)
        open_ones = cube.asked & ~np.isfinite(cube.together()[cube.possible].min(axis=0))
        for number in np.flatnonzero(open_ones):
            self._refuse_many(schema, [places_of(int(number))])
        self._refuse_many(schema, self.cuboids(schema))

    def cuboids(self, schema: Schema) -> list[Places]:
        """Return the sets of attributes whose cuboids are measured."""
        cube = self._make_cube(schema)
        if self._within is None:
            return cube.least_worst()
        return cube.most_within(float(self._within) ** 2)

    def tables(self, schema: Schema) -> list[MarginalTable]:
        return self._plan_tables(self.cuboids(schema), self._list_sizes(schema))

    def _plan_tables(self, sets: Sequence[Places], sizes: tuple[int, ...]) -> list[MarginalTable]:
        loss = self.cell_promise.rho if self.gaussian else self.cell_promise.epsilon
        return residuals.plan_equal_noise(sets, sizes, self.unit, loss, gaussian=self.gaussian)

    def _make_cube(self, schema: Schema) -> CuboidLattice:
        sizes = self._list_sizes(schema)
        number = np.arange(1 << len(sizes))
        attributes = sum((number >> bit & 1 for bit in range(len(sizes))), np.zeros_like(number))
        [one] = self._plan_tables([()], sizes)
        power = 1 if self.gaussian else 2
        variance = one.law.variance
        cube = CuboidLattice(
            sizes, attributes <= self._ways, number >= 0, lambda count: variance * count**power
        )
        return CuboidLattice(sizes, cube.asked, cube.cells <= MOST_CELLS, cube.noise)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "ways": study.ways}
