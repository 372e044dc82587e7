"""The terms of a live database: (ε, δ), who is protected, and how the promise is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import Any

from scumble.families.axes.publish import Dyadic
from scumble.model import stored
from scumble.model.errors import LedgerError, ParameterError, large, named
from scumble.model.privacy.accounting import (
    PrivacyLoss,
    PrivacyUnit,
    normal_epsilon_for,
)
from scumble.model.privacy.guarantee import Guarantee, read_share
from scumble.model.schema.amounts import Amounts
from scumble.model.schema.schema import Schema
from scumble.private.journal.entries import check_word
from scumble.private.ledger.cost import ReleaseClaim
from scumble.private.summaries.sums import SUM_SHARE
from scumble.public.manifest import SEEDED

UNITS = 1 << 30  # of the part of the promise for purchases: the limit at every point
EDITION = 2
BASE_SHARE = 0.75  # of the promise, where nothing is said
LARGEST_PURCHASE = 0.125  # of what is left at a point
MOST_POINTS = 1 << 24  # of one table
MOST_COMBINATIONS = 1 << 60

_OWNER = "LiveDatabase"
_MOST_TABLES = 120  # each is a release
_ROUNDED = 1 / 12  # what rounding adds to a variance
_PROOF = (
    "the base and every purchased count have rounded normal noise; whoever chooses the questions, "
    "and how precise their answers are, sees earlier answers alone, and the squared shifts by one "
    "person add up to at most μ² on every path: together they are a Gaussian mechanism with this μ "
    "(docs/decisions/0036-normal-noise.md)"
)
_LIMITS = (
    "Rows cannot be added later: people who come later need a database of their own.",
    "Intervals hold for questions that were not chosen by earlier noise; `fresh` always does.",
)


@dataclass(frozen=True)
class LiveTerms:
    """(ε, δ) for all answers together. A share of it is spent on the base at creation; the rest is
    for purchases, as units at every point of the domain.

    A count with noise of variance σ² changes by at most c if the c rows of a person come or go, and
    the squares of these changes over σ² add up to at most c² · C, where C is the largest Σ 1/σ² of
    the counts that cover a point; if rows are replaced, to at most 2c² · C. Purchases may have the
    μ² that the base leaves; so C is at most `precision`, and a unit is a 2^-30th of it.
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit
    mu2: Fraction  # of all answers together
    base_mu2: Fraction  # of the base
    largest_purchase: Fraction
    quotas: Mapping[str, Fraction] = field(default_factory=dict)
    seeded: bool = False

    @classmethod
    def read(
        cls,
        whole: Dyadic,
        *bases: Dyadic,
        largest_purchase: object,
        quotas: Mapping[str, object] | None,
        seeded: bool,
    ) -> LiveTerms:
        """Return the terms for a base of all of the promise, and the tables that are measured."""
        parts = {name: read_share(_OWNER, "quotas", part) for name, part in (quotas or {}).items()}
        for name in parts:
            check_word("analyst", name)
        return cls(
            float(whole.epsilon),
            float(whole.delta or 0),
            whole.unit,
            2 * whole.promise.rho,
            2 * sum((each.promise.rho for each in bases), Fraction(0)),
            read_share(_OWNER, "largest_purchase", largest_purchase),
            parts,
            seeded,
        )

    @cached_property
    def precision(self) -> Fraction:
        """The largest sum of 1/σ² of the purchased counts that cover a point."""
        squares = self.unit.squared_sensitivity(nonnegative_gram=True)
        return (self.mu2 - self.base_mu2) / squares

    def variance(self, units: int, largest: int = 1, *, signed: bool = False) -> Fraction:
        """Return the variance of the noise, before rounding, of a sum at a price in units, to which
        a row adds at most `largest`, with either sign if it is `signed`.

        If rows are replaced, the square of a - b is at most that of a and of b, unless they have
        different signs: then at most twice as much.
        """
        twice = 2 if signed and self.unit.neighbours == "replace" else 1
        return twice * largest**2 * UNITS / (units * self.precision)

    def units_for(self, variance: float) -> int:
        """Return the least price of a count with noise of at most this variance, rounded."""
        if variance <= _ROUNDED:
            return UNITS + 1  # more than there is
        return ceil(UNITS / (Fraction(variance - _ROUNDED) * self.precision))

    def guarantee(self, attributes: Sequence[str], schema: Schema) -> Guarantee:
        """Return the guarantee of all answers. That of a seeded database begins with a warning."""
        whole = Dyadic(
            attributes,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.unit.neighbours,
            contribution=self.unit.rows,
            person=self.unit.column,
        )
        [found] = whole.guarantee(schema)
        warning = (SEEDED,) if self.seeded else ()
        return replace(
            found,
            proof=_PROOF,
            sentence=" ".join([*warning, "All answers together, now and later:", found.sentence]),
            limits=(*warning, *found.limits, *_LIMITS),
        )

    def claim(self) -> ReleaseClaim:
        """Return the loss of all answers together, as an owner's ledger charges it."""
        loss = PrivacyLoss(rho=self.mu2 / 2, normal=True)
        bounded = self.unit.column is not None
        return ReleaseClaim(loss, self.unit.neighbours, self.unit.rows, bounded)

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.unit.neighbours,
            "contribution": self.unit.rows,
            "person": self.unit.column,
            "mu2": str(self.mu2),
            "base_mu2": str(self.base_mu2),
            "largest_purchase": str(self.largest_purchase),
            "units": UNITS,
            "quotas": {name: str(part) for name, part in sorted(self.quotas.items())},
            "seeded": self.seeded,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LiveTerms:
        if data["units"] != UNITS:
            raise LedgerError("This version of scumble counts in other units. Upgrade scumble.")
        return cls(
            data["epsilon"],
            data["delta"],
            PrivacyUnit(data["neighbours"], data["contribution"], data.get("person")),
            stored.fraction(data["mu2"]),
            stored.fraction(data["base_mu2"]),
            stored.fraction(data["largest_purchase"]),
            {name: stored.fraction(part) for name, part in data["quotas"].items()},
            bool(data["seeded"]),
        )


def bases_of(
    whole: Dyadic, share: object, sums: Sequence[str], schema: Schema
) -> tuple[Dyadic, ...]:
    """Return what measures a base: one table of all attributes or, where that is too large, tables
    of as many attributes each as fit, with equal parts of the share.
    """
    for name in sums:
        Amounts.of(schema, name)
    points = schema.size(whole.names)
    if points <= MOST_POINTS:
        return (base_of(whole, share, sums),)
    have = f"{', '.join(whole.names)} have {large(points)} combinations of values"
    less = f"Name fewer {named('attributes')}, or use coarser bins."
    if sums or whole.unit.column is not None:
        what = named("sums") if sums else "persons as the unit"
        most = large(MOST_POINTS)
        raise ParameterError(f"{have}. With {what}, at most {most} are possible. {less}")
    sets = _table_sets(whole.names, schema)
    if not sets or points > MOST_COMBINATIONS:
        raise ParameterError(f"{have}, too many for a database. {less}")
    part = read_share(_OWNER, "base", share) / len(sets)
    return tuple(base_of(replace(whole, attributes=list(each)), part, ()) for each in sets)


def _table_sets(names: Sequence[str], schema: Schema) -> list[tuple[str, ...]]:
    """Return the sets of attributes that have a table: all of three, two or one, as many as fit."""
    for ways in (3, 2, 1):
        found = list(combinations(names, ways))
        if found and len(found) <= _MOST_TABLES and sum(map(schema.size, found)) <= MOST_POINTS:
            return found
    return []


def base_of(whole: Dyadic, share: object, sums: Sequence[str]) -> Dyadic:
    """Return what measures a base with a share of the promise: a smaller ε at the same δ. Sums are
    measured beside the counts, so that what is bought can be of either.
    """
    rho = whole.promise.rho * read_share(_OWNER, "base", share)
    epsilon = normal_epsilon_for(rho, Fraction(whole.delta or 0))
    beside = float(SUM_SHARE) if sums else None
    return replace(whole, epsilon=epsilon, sums=tuple(sums), sum_share=beside)
