"""The base classes of differentially private releases. ProtectedSummary has the parameters that say
who is protected and how well, and builds the guarantee; AttributeSummary measures some attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.errors import ParameterError, SchemaError, setting
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.model.parameters import plain, whole
from scumble.model.privacy import accounting
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import (
    NEIGHBOURS,
    Guarantee,
    at_most,
    float_at_least,
    gamma_above_epsilon,
    percent_at_most,
    posterior_at_most,
    read_delta,
    read_epsilon,
)
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.mechanism import Summary, create
from scumble.private.mechanism_metadata import Claim, ComparisonPreset, protection
from scumble.public.estimation.interval_laws import noise_half_width


@dataclass(kw_only=True, eq=False, repr=False)
class ProtectedSummary(Summary):
    """Measures a table under ε-DP, or (ε, δ)-DP. Subclasses set `names`, the columns that are read,
    before they call `__post_init__` of this class.

    Parameters:
        epsilon: Privacy loss of one person.
        neighbours: hide what the rows of a person say (replace), or also that they are there
            (add_remove).
        contribution: most rows of one person.
        person: identifier that names people.
    """

    not_sampled: ClassVar[str] = "its answers would be about the people who were drawn."
    proof: ClassVar[str] = "noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    gaussian_proof: ClassVar[str] = (
        "discrete Gaussian noise: Canonne, Kamath, Steinke, NeurIPS 2020, theorem 14; "
        "from zCDP by proposition 12"
    )

    limits_rows: ClassVar[bool] = True
    limit: ClassVar[tuple[str, str]] = ("contribution", "row")  # of what a person adds

    epsilon: float
    neighbours: Neighbours
    contribution: int = 1
    person: str | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        self.names: tuple[str, ...]
        if self.neighbours not in NEIGHBOURS:
            allowed = "'replace' or 'add_remove'"
            raise ParameterError.of(owner, "neighbours", allowed, self.neighbours)
        rows = whole(owner, "contribution", self.contribution, least=1)
        self.unit = PrivacyUnit(self.neighbours, rows, self.person)
        self._epsilon = read_epsilon(owner, self.epsilon)
        given_delta = self._given_delta()
        self._delta = None if given_delta is None else read_delta(owner, given_delta)
        self._promise = self._paid()

    @property
    def names_people(self) -> bool:
        return self.person is not None

    def stated_unit(self, schema: Schema) -> Unit | None:
        if self.person is None or self.limit[0] != "contribution":
            return schema.unit
        return Unit(self.person, self.contribution)

    def for_unit(self, unit: Unit) -> Self:
        if unit.person is None:
            return self
        if self.person not in (None, unit.person):
            raise ParameterError(
                f"{setting('person', self.person)}, and the schema names people by "
                f"'{unit.person}': leave the first out, or change the second."
            )
        if self.limit[0] != "contribution":  # such as keys: not rows are limited
            return replace(self, person=unit.person)
        if self.contribution not in (1, unit.most_rows):
            raise ParameterError(
                f"{setting('contribution', self.contribution)} and most_rows = {unit.most_rows} of "
                "the schema differ: leave the first out, or change the second."
            )
        return replace(self, person=unit.person, contribution=unit.most_rows)

    def _given_delta(self) -> float | None:
        """The parameter `delta`, if the release has one."""
        return None

    def _paid(self) -> PrivacyLoss:
        """Return the loss of all measurements together: ε, or the ρ that keeps (ε, δ)."""
        if self._delta is None:
            return PrivacyLoss(self._epsilon)
        return PrivacyLoss(rho=accounting.rho_for(self._epsilon, self._delta))

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian: δ was given."""
        return self._delta is not None

    @property
    def promise(self) -> PrivacyLoss:
        return self._promise

    @property
    def parameters(self) -> dict[str, Any]:
        ordered = sorted(fields(self), key=lambda each: bool(each.kw_only))
        return {each.name: _plain(getattr(self, each.name)) for each in ordered}

    def check(self, schema: Schema) -> None:
        for name in self.names:
            if schema[name].role == "identifier":
                raise SchemaError(
                    f"'{name}' is an identifier: it is never published, nor counted by."
                )
        column = self.unit.column
        if column is not None and schema[column].role != "identifier":
            allowed = "an attribute with the role identifier"
            raise ParameterError.of(type(self).__name__, "person", allowed, column)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Say that what a person has beyond the limit is left out, and what the limit is."""
        found = super().cautions(schema)
        if self.unit.column is None:
            return found
        parameter, what = self.limit
        if (most := self.unit.rows) == 1:
            counted, default = f"one {what} of each person is", ", which it is if none is given"
        else:
            counted, default = f"{most} {what}s of each person are", ""
        given = f" ({setting(parameter, most)}{default})"
        if schema.person is not None:
            given = ""  # the schema says it
        return (*found, f"At most {counted} counted{given}; answers leave out the others.")

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        for name in self.names:
            schema[name]  # raises SchemaError for an unknown name
        numbers = {"epsilon": float_at_least(self._epsilon)}
        if self._delta is not None:
            numbers["delta"] = float_at_least(self._delta)
        if self._promise.normal:
            numbers["mu"] = sqrt(2 * self._promise.rho) * (1 + 1e-15)
        elif self._promise.rho:
            numbers["rho"] = float_at_least(self._promise.rho)
        return (
            Guarantee(
                statement="(ε, δ)-DP" if self.gaussian else "ε-DP",
                parameters={**numbers, "contribution": self.unit.rows},
                scope="the whole release",
                neighbourhood=NEIGHBOURS[self.unit.neighbours],
                trust="central",
                proof=self.gaussian_proof if self.gaussian else self.proof,
                sentence=self._sentence(),
                limits=self._limits(),
            ),
        )

    def _sentence(self) -> str:
        """What an attacker can learn. Under add or remove, two contents of the rows of a person
        are two steps apart.
        """
        once, twice = (
            percent_at_most(posterior_at_most(Fraction(1, 10), gamma_above_epsilon(loss)))
            for loss in (self._odds(1), self._odds(2))
        )
        reached = (
            "Someone who knows everybody else, and already believed a guess about that with 10 %, "
            f"can reach at most {once} (ε = {at_most(self._epsilon)}{self._but()})"
        )
        if self.unit.neighbours == "replace":
            return f"This hides what any one person's rows say. {reached}."
        return (
            f"This hides whether any one person is in the table. {reached}; with a guess about "
            f"what the rows of a person in the table say, at most {twice}."
        )

    def _odds(self, steps: int) -> Fraction:
        """Return the logarithm of the factor by which odds can grow between tables that differ in
        `steps` people; with δ, but for a probability of δ.
        """
        if self._delta is None:
            return steps * self._epsilon
        bound = accounting.loss_tail_bound
        if self._promise.normal:
            bound = accounting.normal_tail_bound
        return Fraction(bound(steps**2 * self._promise.rho, self._delta))

    def _but(self) -> str:
        if self._delta is None:
            return ""
        return f", δ = {at_most(self._delta)}: but for a probability of δ"

    def _limits(self) -> tuple[str, ...]:
        bound = self.unit.rows
        rows, are = ("one row", "is") if bound == 1 else (f"{bound} rows", "are")
        checked = (
            f"Of each person at most {rows} {are} counted; the others are left out of every answer."
            if self.unit.column
            else f"It is the owner's word that a person has at most {rows}: nothing checks it."
        )
        size = (
            ()
            if self.unit.neighbours == "add_remove"
            else ("The number of people in the table is not hidden.",)
        )
        return (
            checked,
            *size,
            *self._more_limits(),
            "Releases of the same table add up: this promise is for this release alone.",
            "What is true of people in general, and so of a person too, is not hidden.",
        )

    def _more_limits(self) -> tuple[str, ...]:
        """What else this release does not promise."""
        return ()


@dataclass(kw_only=True, eq=False, repr=False)
class AttributeSummary(ProtectedSummary):
    """Measures the counts of some attributes under ε-DP, or (ε, δ)-DP with Gaussian noise.

    Parameters:
        attributes: what to count by, as age,sex.
    """

    not_sampled: ClassVar[str] = ""

    attributes: Sequence[str] = field(kw_only=False)

    def __post_init__(self) -> None:
        given = self.attributes
        names = (given,) if isinstance(given, str) else tuple(given)
        if not names or len(set(names)) < len(names):
            allowed = "a list of one or more different attribute names"
            raise ParameterError.of(type(self).__name__, "attributes", allowed, list(names))
        self.attributes = self.names = names
        super().__post_init__()

    def check(self, schema: Schema) -> None:
        super().check(schema)
        for name in self.names:
            _ = schema[name].size  # raises SchemaError, with advice, for lists

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {"attributes": list(study.attributes), "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(create(cls.name, attributes=["a", "b"], **protection(neighbours)), 1)


@dataclass(kw_only=True, eq=False, repr=False)
class WithDelta(AttributeSummary):
    """A release that is (ε, δ)-DP with Gaussian noise if `delta` is given.

    Parameters:
        delta: probability beyond epsilon that is allowed; the noise is then Gaussian.
    """

    delta: float | None = None

    def _given_delta(self) -> float | None:
        return self.delta


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it; an exact number as its text, which is read back exactly."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else plain({"": value})[""]


# The errors to expect of answers, computed from the design alone.

OFTEN = "nineteen times in twenty"
_LEVEL = 0.95


def of_cells(law: DiscreteLaplace, cells: int) -> str:
    """Return the error of the sum of `cells` cells, as ±number."""
    return _reach(NoiseSum(law, [(1, cells)]).half_width(_LEVEL))


def of_product(design: Product, weights: Sequence[Floats]) -> str:
    """Return the error of a sum of cells, as ±number. The weights of the cells are products of
    `weights`, one factor for each axis.
    """
    return _reach(noise_half_width(*product_moments(design, weights), _LEVEL))


def product_moments(design: Product, weights: Sequence[Floats]) -> tuple[float, float, float]:
    """Return the variance and the fourth cumulant of the error of a sum of cells, and the largest
    weight of a noise in it; `weights` as for `of_product`.
    """
    variance, fourth, largest = design.variances, design.fourths, 1.0
    for place, along in enumerate(weights):
        found = design.coefficients([place], along)
        # The next axis is always the first direction that is left.
        variance = np.tensordot([float((each**2).sum()) for each in found], variance, 1)
        fourth = np.tensordot([float((each**4).sum()) for each in found], fourth, 1)
        largest *= max(float(np.abs(each).max()) for each in found)
    return float(variance), float(fourth), largest


def _reach(far: float) -> str:
    return f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
