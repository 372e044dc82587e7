"""The Pólya urn: rows drawn from counts and prior balls, its privacy loss, and its tails.

An urn holds `prior` + n_i balls of each value i. A ball is drawn, put back together with another of
its value, and so on `rows` times. The numbers x_i drawn have the Dirichlet-multinomial law

    P(x) = rows! / (A + n)^(rows) · Π_i (prior + n_i)^(x_i) / x_i!

with a^(k) = a (a + 1) ... (a + k - 1), A the prior balls of all values and n the people together.

**Loss.** If a person moves from value i to value j, with a_i and a_j balls before, P(x) changes by
(a_i - 1 + x_i) / (a_i - 1) · a_j / (a_j + x_j). The first factor is largest for a value that only
this person has, and if all rows drawn have it: (prior + rows) / prior. Its logarithm is the ε of
the rows (Machanavajjhala, Kifer, Abowd, Gehrke, Vilhuber, ICDE 2008).

**Probabilistic loss.** The odds change by more than γ = e^ε only if some x_i is above
(γ - 1)(prior + max(n_i - 1, 0)). Such rows have at most the probability of the tails of all values
together, and each tail is one of a beta-binomial law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.computed import Computed, at_most
from scumble.model.privacy.guarantee import (
    PROBABILISTIC,
    Guarantee,
    epsilon_for_gamma,
    gamma_for_epsilon,
)

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema

Floats = npt.NDArray[np.float64]

GRID = 1 << 16  # prior balls are counted in parts of this size, so that draws are exact
LARGEST_PRIOR = 1 << 40
_SLACK = 1e-6  # relative; logarithms of gamma functions lose less than a hundredth of it
_STEPS = 60


def amplification(rows: int, prior: Fraction) -> Fraction:
    """Return the largest ratio of probabilities between two tables that differ in one value."""
    return (rows + prior) / prior


def least_prior(rows: int, epsilon: Fraction) -> Fraction:
    """Return the least number of prior balls of each value, on the grid, that keeps ε-DP."""
    return on_grid(rows / (gamma_for_epsilon(epsilon) - 1))


def most_rows(prior: Fraction, epsilon: Fraction) -> int:
    """Return the largest number of rows that keeps ε-DP with this prior."""
    return math.floor(prior * (gamma_for_epsilon(epsilon) - 1))


def on_grid(prior: Fraction) -> Fraction:
    """Return the least number on the grid that is not below `prior`, and above 0."""
    return Fraction(max(math.ceil(prior * GRID), 1), GRID)


# --- the probability that the odds change by more than e^ε ---------------------------------------


def disclosure_bound(rows: int, values: int, prior: Fraction, epsilon: Fraction) -> float:
    """Return a bound, for every table, of the probability of rows that change the odds between it
    and some neighbour by more than e^ε. It is 1 where no bound below 1 is known.

    A value that ν people have is drawn more than (γ - 1)(prior + max(ν - 1, 0)) times with the
    largest probability if nobody else is in the stratum (a beta-binomial law grows with its mean).
    From there on the ratio of neighbouring probabilities falls, so that a geometric series is
    above the tail. The bound is `values` times the largest tail of all ν.
    """
    if prior >= least_prior(rows, epsilon):  # no rows change the odds by more
        return 0.0
    start, others = float(prior), float(prior) * (values - 1)
    odds = float(gamma_for_epsilon(epsilon)) - 1
    # Beyond this number of people no number of rows is above the limit.
    people = np.arange(0, max(math.ceil(rows / odds - start + 1), 1) + 2, dtype=np.float64)
    limits = np.floor(odds * (start + np.maximum(people - 1, 0.0)) * (1 - _SLACK))
    first = limits + 1
    possible = first <= rows
    if not possible.any():
        return 0.0
    people, first = people[possible], first[possible]
    own = start + people
    rest = others + (people == 0)
    if rest.min() < 1:
        return 1.0
    tails = _bound_tails(first, rows, own, rest)
    return min(float(values * tails.max() * (1 + _SLACK)), 1.0)


def _bound_tails(first: Floats, rows: int, own: Floats, rest: Floats) -> Floats:
    """Return bounds of P(X >= first) for beta-binomial X of `rows` draws; `rest` is at least 1.

    P(x + 1) / P(x) = (rows - x)(own + x) / ((x + 1)(rest + rows - x - 1)) falls with x if own is at
    least 1; else its factor (own + x) / (x + 1) is below 1.
    """
    start = np.exp(log_probability(first, rows, own, rest))
    grows = np.maximum((own + first) / (first + 1), np.where(own < 1, 1.0, 0.0))
    left = rows - first
    ratio = grows * left / np.maximum(rest + left - 1, 1e-300)
    ratio = np.where(left > 0, ratio, 0.0)
    bounds: Floats = np.where(ratio < 1, start / np.maximum(1 - ratio, 1e-300), 1.0)
    return np.minimum(bounds, 1.0)


@lru_cache(maxsize=256)
def least_prior_with(
    rows: int, values: int, strata: int, epsilon: Fraction, delta: Fraction
) -> Fraction:
    """Return a number of prior balls, nearly the least, that keeps (ε, δ)-probabilistic DP.

    The strata share δ: rows that disclose something may be those of any of them.
    """
    high = least_prior(rows, epsilon)  # without δ

    def holds(prior: Fraction) -> bool:
        return strata * disclosure_bound(rows, values, prior, epsilon) <= delta

    low = Fraction(1, GRID)
    for _ in range(_STEPS):
        middle = on_grid((low + high) / 2)
        if middle >= high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


# --- the law of the number of rows with some values ----------------------------------------------


def log_probability(drawn: Floats, rows: int, own: Floats, rest: Floats) -> Floats:
    """Return log P(X = drawn) for the beta-binomial X: `rows` draws from an urn that has `own`
    balls of the values counted, and `rest` of the others.
    """
    from scipy.special import betaln, gammaln

    choose = gammaln(rows + 1) - gammaln(drawn + 1) - gammaln(rows - drawn + 1)
    logarithms: Floats = choose + betaln(drawn + own, rows - drawn + rest) - betaln(own, rest)
    return logarithms


def count_limits(
    drawn: int, rows: int, *, balls: float, people: int, others: float, level: float
) -> tuple[int, int]:
    """Return the least and the largest number of people that `drawn` of `rows` rows leave possible.

    The values counted have `balls` prior balls, the others have `others`; a stratum has `people`.
    Both tails of a number outside the limits are below (1 - level) / 2: the limits of Clopper and
    Pearson for the beta-binomial law, which grows with the number of people.
    """
    tail = (1 - level) / 2
    numbers = np.arange(rows + 1, dtype=np.float64)

    def weights(having: int) -> Floats:
        own = np.array(balls + having, np.float64)
        rest = np.array(others + people - having, np.float64)
        probabilities: Floats = np.exp(log_probability(numbers, rows, own, rest))
        return probabilities

    def too_few(having: int) -> bool:  # this many people would hardly show so many rows
        return float(weights(having)[drawn:].sum()) <= tail * (1 - _SLACK)

    def too_many(having: int) -> bool:
        return float(weights(having)[: drawn + 1].sum()) <= tail * (1 - _SLACK)

    low, high = 0, people  # the least number that is not too few
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if too_few(middle) else (low, middle)
    least, low, high = low, 0, people
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if too_many(middle) else (middle, high)
    return least, low


@dataclass(frozen=True)
class Synthetic(Evidence):
    """Rows of the columns `given` and `target`, drawn at random within strata.

    A stratum is a combination of values of `given` that somebody has. The second file `strata` has
    a row for each: the values, how many people have them (column `people`), how many rows were
    drawn (`size`), and the prior balls of each value of `target` in parts of 1/`grid` (`prior`).
    The law "polya urn" is that of the urn above.
    """

    kind: ClassVar[str] = "synthetic"

    file: str
    strata: str
    given: tuple[str, ...]
    target: tuple[str, ...]
    people: str
    size: str
    prior: str
    grid: int
    rows: int  # people in the table
    law: str = "polya urn"

    @property
    def main_promises(self) -> frozenset[str]:
        return frozenset({"ε-DP", PROBABILISTIC})

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.given, *self.target)

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, self.strata)

    @property
    def rows_refused(self) -> str:
        return (
            f"This release publishes rows itself, synthetic ones: the file {self.file} of its "
            "folder. More of them would tell more about people than was promised."
        )

    def compute_promise(self, promise: Guarantee, schema: Schema, folder: Path) -> Computed | None:
        """Return the number of a promise by the rows and the prior of every stratum."""
        if promise.statement not in ("ε-DP", PROBABILISTIC, "(ε, δ)-DP"):
            return super().compute_promise(promise, schema, folder)
        import pyarrow.parquet as pq

        table = pq.read_table(folder / self.strata, columns=[self.size, self.prior])
        sizes, priors = (table[name].to_numpy() for name in (self.size, self.prior))
        settings = np.unique(np.column_stack([sizes, priors]), axis=0)
        pairs = [(int(rows), Fraction(int(prior), self.grid)) for rows, prior in settings]
        if promise.statement == "ε-DP":
            gammas = (amplification(rows, prior) for rows, prior in pairs)
            loss = epsilon_for_gamma(max(gammas, default=Fraction(1)))
            return at_most(promise, "epsilon", loss, "the loss of rows")
        values, strata = (schema.size(names) for names in (self.target, self.given))
        epsilon = Fraction(promise.parameters["epsilon"])
        tails = [disclosure_bound(rows, values, prior, epsilon) for rows, prior in pairs]
        what = "a bound of the probability of rows that change the odds by more than e^ε"
        return at_most(promise, "delta", strata * max(tails, default=0.0), what)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "law": self.law,
            "file": self.file,
            "strata": self.strata,
            "given": list(self.given),
            "target": list(self.target),
            "people": self.people,
            "size": self.size,
            "prior": self.prior,
            "grid": self.grid,
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Synthetic:
        return cls(
            stored.data_file(data["file"]),
            stored.data_file(data["strata"]),
            stored.items(stored.text, data["given"]),
            stored.items(stored.text, data["target"]),
            stored.text(data["people"]),
            stored.text(data["size"]),
            stored.text(data["prior"]),
            stored.whole(data["grid"]),
            stored.whole(data["rows"]),
            stored.one_of(data["law"], ("polya urn",)),
        )
