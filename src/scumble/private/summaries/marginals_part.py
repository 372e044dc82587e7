"""Marginals: noisy counts of many sets of attributes, consistent with each other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

from scumble.model.designs import residual_planner
from scumble.model.designs.residual_planner import closure
from scumble.model.designs.residuals import Table
from scumble.model.dialect import named
from scumble.model.errors import ParameterError
from scumble.model.parameters import whole
from scumble.model.privacy.guarantee import positive
from scumble.model.privacy.person import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.summaries.marginals import Places, TableSummary, refuse_sets, sets_of

Weighting = Literal["cells", "tables"]


class Marginals(TableSummary):
    """Publishes noisy counts of many small sets of attributes, as all pairs, that agree with each
    other wherever they overlap. A question about attributes of one set is answered from all.

    `ways` asks for all sets of so many attributes, `sets` for those listed. `weights` says what
    matters: "tables" gives every set the same weight (with `delta` also every smaller set inside
    one), "cells" every cell of every set, and a list has a number for each set, the weight of each
    of its cells. `neighbours`, `contribution` and `person` are as for Histogram.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: with Laplace noise a
        person moves each marginal by at most Δ = contribution (add or remove) or 2·contribution
        (replace), and the Δ/scale of all tables add up to ε at most. With Gaussian noise the
        residual of a set A costs ρ = Π(n−1)/n / 2σ² (add or remove, one row), times contribution²;
        for replacing, the worst pair of cells for all tables together is found. These are the costs
        of the lattice Gaussian; the integer noise that is added comes within a factor of e^τ of it,
        τ < 2^−80 in all, which is put aside of ε and δ (proof in designs/residual_price).
    Estimate: generalised least squares over all noisy tables: unbiased, and of the least variance
        among unbiased linear estimates. Its variance, fourth cumulant and covariances are exact.
    Reference: Xiao, He, Zhang, Kifer, NeurIPS 2023 (ResidualPlanner) for Gaussian noise; Cormode,
        Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013, for the budgets of pure ε.
    Differs: integer noise throughout. Where Gaussian noise is too small for the lower price of a
        residual to be proven, its whole marginal is measured at the whole price. Noise is on a grid
        of steps of 2 %, which costs a part in 10,000 of the variance.
    """

    name = "marginals"
    takes_delta = True
    gaussian_proof = (
        "discrete Gaussian noise on residuals: Canonne, Kamath, Steinke, NeurIPS 2020; lower "
        "price of residuals: Xiao, He, Zhang, Kifer, NeurIPS 2023, and proof in residual_price"
    )

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        ways: int | None = None,
        sets: Sequence[Sequence[str]] | None = None,
        weights: Weighting | Sequence[float] = "tables",
        epsilon: float,
        delta: float | None = None,
        neighbours: Neighbours,
        contribution: int = 1,
        person: str | None = None,
    ) -> None:
        super().__init__(
            attributes,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            contribution=contribution,
            person=person,
        )
        if (ways is None) == (sets is None):
            raise ParameterError(
                f"Marginals takes either {named('ways')} or {named('sets')}. Got both or none "
                "instead."
            )
        self.ways = None if ways is None else self._checked_ways(ways)
        self.sets = self._checked_sets(sets) if sets is not None else None
        self.weights = self._checked_weights(weights)

    @property
    def parameters(self) -> dict[str, Any]:
        sets = None if self.sets is None else [self._named(places) for places in self.sets]
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        chosen = {"ways": self.ways, "sets": sets, "weights": weights}
        given = super().parameters
        return {"attributes": given.pop("attributes"), **chosen, **given}

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self._refuse_many(schema, self._asked())
        if self.gaussian:
            self._refuse_parts(self._asked())

    def workload(self, schema: Schema) -> dict[Places, float]:
        """The sets of attributes that matter, with the weight of each cell of theirs."""
        sets = self._asked()
        if isinstance(self.weights, tuple):
            return dict(zip(sets, self.weights, strict=True))
        if self.weights == "cells":
            return dict.fromkeys(sets, 1.0)
        if self.gaussian:
            sets = closure(sets)[1:]
        sizes = self._sizes(schema)
        return {places: 1 / prod(sizes[place] for place in places) for places in sets}

    def tables(self, schema: Schema) -> list[Table]:
        asked, sizes = self.workload(schema), self._sizes(schema)
        if self.gaussian:
            return residual_planner.residuals(asked, sizes, self.person, self.promise.rho)
        epsilon = self.promise.epsilon
        return residual_planner.marginals(asked, sizes, self.person, epsilon, gaussian=False)

    def _asked(self) -> list[Places]:
        if self.sets is not None:
            return list(self.sets)
        return sets_of(len(self.attributes), self.ways or 0)

    def _checked_ways(self, ways: int) -> int:
        found = whole("Marginals", "ways", ways, least=1, most=len(self.attributes))
        refuse_sets("Marginals", len(self.attributes), found)
        return found

    def _checked_sets(self, sets: Sequence[Sequence[str]]) -> tuple[Places, ...]:
        allowed = "a list of different sets of the attributes, each a list of one or more names"
        found = []
        for each in sets:
            names = [each] if isinstance(each, str) else list(each)
            known = all(name in self.attributes for name in names)
            if not names or not known or len(set(names)) < len(names):
                raise ParameterError.of("Marginals", "sets", allowed, names)
            found.append(tuple(sorted(map(self.attributes.index, names))))
        if not found or len(set(found)) < len(found):
            raise ParameterError.of("Marginals", "sets", allowed, [list(each) for each in sets])
        return tuple(found)

    def _checked_weights(
        self, weights: Weighting | Sequence[float]
    ) -> Weighting | tuple[float, ...]:
        allowed = "'cells', 'tables', or a list of one number above 0 for each set"
        if isinstance(weights, str):
            if weights not in ("cells", "tables"):
                raise ParameterError.of("Marginals", "weights", allowed, weights)
            return weights
        found = tuple(float(positive("Marginals", "weights", weight)) for weight in weights)
        if len(found) != len(self._asked()):
            raise ParameterError.of("Marginals", "weights", allowed, list(found))
        return found
