"""What a mechanism tells those who try it out: the parameters to compare it with, and claims for
the auditor.

`Mechanism.needs` and `Mechanism.settings` choose parameters for a `ComparisonPreset`;
`Mechanism.claims` gives a `Claim` for each promise that `scumble audit --all` tries to break.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import TYPE_CHECKING, Any

from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, IntegerRange
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.schema import Schema

if TYPE_CHECKING:
    from scumble.private.mechanism import Mechanism

PRIOR = Fraction(1, 10)  # the prior of the attacker in the sentences of all promises
ROW_PRIOR = 10  # the prior of a row, as a multiple of that of a row drawn blindly

# Schemas small enough to try out all neighbouring tables.
TINY = Schema(
    (
        Attribute("a", "quasi", IntegerRange(0, 3)),
        Attribute("b", "quasi", Category(("x", "y"))),
    )
)
LINE = Schema((Attribute("a", "quasi", IntegerRange(0, 7)),))
SQUARE = Schema(tuple(Attribute(name, "quasi", IntegerRange(0, 3)) for name in "ab"))
CUBE = Schema(
    (
        Attribute("a", "quasi", IntegerRange(0, 2)),
        Attribute("b", "quasi", Category(("x", "y"))),
        Attribute("c", "quasi", Category(("x", "y"))),
    )
)
BINARY = Schema(tuple(Attribute(name, "quasi", Category(("x", "y"))) for name in "ab"))
ITEMS = Schema((Attribute("x", "sensitive", ListDomain("set", Category(("a", "b", "c")))),))
VISITS = Schema((Attribute("x", "sensitive", ListDomain("sequence", Category(("a", "b")))),))
TRIPS = Schema(
    (
        Attribute("x", "sensitive", ListDomain("sequence", Bins((0, 1, 2)))),
        Attribute("y", "sensitive", ListDomain("sequence", Bins((0, 1)))),
    )
)
SECRET_VALUES = 4  # of the sensitive attribute on which publishers are audited
SMALL_DELTA = 1e-3  # of the claims with Gaussian noise


@dataclass(frozen=True)
class ComparisonPreset:
    """A table and its questions, for which a mechanism chooses its parameters.

    `attributes` are the columns that the questions name, `ways` is the largest number of columns in
    one question, `queries` are the questions as SQL. `most_frequent` returns the share of the most
    frequent sensitive value.
    """

    schema: Schema
    attributes: tuple[str, ...]
    neighbours: str
    ways: int
    queries: tuple[str, ...]
    most_frequent: Callable[[], float]

    @property
    def values(self) -> int:
        """The number of combinations of sensitive values."""
        return self.schema.size(attribute.name for attribute in self.schema.sensitive)


@dataclass(frozen=True)
class Claim:
    """A mechanism with the (ε, δ) that it promises between two neighbouring tables.

    Tables of `schema` are tried for summaries; of lists, those of up to two members. Publishers are
    tried on a table of people with one sensitive attribute of `SECRET_VALUES` values.
    """

    mechanism: Mechanism
    epsilon: float
    delta: float = 0.0
    schema: Schema = TINY

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def words(self) -> str:
        loss = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:.3g}" if self.delta else "")
        return f"{self.mechanism!r} keeps {loss}"


def posterior_of(prior: float | Fraction, epsilon: float) -> float:
    """The largest posterior that ε allows after this prior, in two or three digits."""
    odds = exp(epsilon) * float(prior) / (1 - float(prior))
    return round(odds / (1 + odds), 2 if odds < 9 else 3)


def protection(neighbours: Neighbours, **more: Any) -> dict[str, Any]:
    """The parameters of a summary in a claim: ε = 1 under this relation, and `more`."""
    return {"epsilon": 1, "neighbours": neighbours, **more}
