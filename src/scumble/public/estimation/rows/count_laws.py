"""How many shown values count: the cases in which the law of this number is known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scumble.public.estimate import Estimate, Law
from scumble.public.estimation.rows.count_law import RandomizedCount
from scumble.public.estimation.rows.drawn_law import DrawnCount
from scumble.public.estimation.rows.shifted_law import Shifted

EXACT = "exact: the answer depends on no perturbed value"
BINOMIAL = "inverted channel; exact binomial interval"
MANY = "inverted channel; binomial interval, by the normal law where thousands of rows decide"


class CountLaw(Law, Protocol):
    """The law of a count, which knows the estimate as well."""

    @property
    def value(self) -> float: ...

    @property
    def exact(self) -> bool:
        """Whether the interval comes from binomial tails alone."""


class Shown(Protocol):
    """From a number of rows, and of shown values that count, to the law of the count."""

    def law(self, rows: int, shown: int) -> CountLaw: ...


def counted(
    kind: Shown, rows: int, shown: int, notes: tuple[str, ...], known: float = 0.0
) -> Estimate:
    """The count behind what some rows show, and `known` others."""
    law = kind.law(rows, shown)
    method = BINOMIAL if law.exact else MANY
    return Estimate(law.value + known, Shifted(law, known) if known else law, method, notes)


@dataclass(frozen=True)
class Coins:
    """Each row shows `surplus` values that count in any case, and one more with the probability
    `outside`, or `outside + keep` if the row itself counts.
    """

    keep: float
    outside: float
    surplus: int = 0

    def law(self, rows: int, shown: int) -> RandomizedCount:
        return RandomizedCount(rows, shown - rows * self.surplus, self.keep, self.outside)


@dataclass(frozen=True)
class Draws:
    """Each row shows its own value and `number` draws, each of which counts with probability
    `share`.
    """

    number: int
    share: float

    def law(self, rows: int, shown: int) -> DrawnCount:
        return DrawnCount(rows, shown, rows * self.number, self.share)
