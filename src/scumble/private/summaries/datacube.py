"""Datacube: a few well chosen cuboids of a cube, from which all others follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.model.designs import residual_planner
from scumble.model.designs.residual_planner import MOST_ATTRIBUTES, CuboidLattice, places_of
from scumble.model.designs.residuals import MarginalTable
from scumble.model.errors import ParameterError
from scumble.model.parameters import whole
from scumble.model.privacy.guarantee import read_positive
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Study
from scumble.private.summaries.base import WithDelta
from scumble.private.summaries.marginals import MOST_CELLS, Places, TableSummary


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
        if most > MOST_ATTRIBUTES:
            raise ParameterError(
                f"Datacube takes at most {MOST_ATTRIBUTES} attributes, which have "
                f"{1 << MOST_ATTRIBUTES} cuboids. Got {most}; use the method marginals for more."
            )
        asked = most if self.ways is None else self.ways
        self.ways = self._ways = whole("Datacube", "ways", asked, least=1, most=most)
        given = self.within
        self._within = None if given is None else read_positive("Datacube", "within", given)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cube = self._cube(schema)
        open_ones = cube.asked & ~np.isfinite(cube.together()[cube.possible].min(axis=0))
        for number in np.flatnonzero(open_ones):
            self._refuse_many(schema, [places_of(int(number))])
        self._refuse_many(schema, self.cuboids(schema))

    def cuboids(self, schema: Schema) -> list[Places]:
        """Return the sets of attributes whose cuboids are measured."""
        cube = self._cube(schema)
        if self._within is None:
            return cube.least_worst()
        return cube.most_within(float(self._within) ** 2)

    def tables(self, schema: Schema) -> list[MarginalTable]:
        return self._tables(self.cuboids(schema), self._sizes(schema))

    def _tables(self, sets: Sequence[Places], sizes: tuple[int, ...]) -> list[MarginalTable]:
        loss = self.promise.rho if self.gaussian else self.promise.epsilon
        return residual_planner.plan_equal_noise(
            sets, sizes, self.unit, loss, gaussian=self.gaussian
        )

    def _cube(self, schema: Schema) -> CuboidLattice:
        sizes = self._sizes(schema)
        number = np.arange(1 << len(sizes))
        attributes = sum((number >> bit & 1 for bit in range(len(sizes))), np.zeros_like(number))
        [one] = self._tables([()], sizes)
        power = 1 if self.gaussian else 2
        variance = one.law.variance
        cube = CuboidLattice(
            sizes, attributes <= self._ways, number >= 0, lambda count: variance * count**power
        )
        return CuboidLattice(sizes, cube.asked, cube.cells <= MOST_CELLS, cube.noise)

    @classmethod
    def needs(cls, study: Study) -> dict[str, Any]:
        return {**super().needs(study), "ways": study.ways}
