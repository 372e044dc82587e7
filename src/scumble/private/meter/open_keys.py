"""Keys that may be named: the randomised rules, what each costs, and the keys that it finds.

`PrivateKeys.find` charges the account first, and reads afterwards. `unit.rows` is the largest
number of keys of a person; a person who has more keeps a random choice of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.errors import PromiseError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.key_noise import KeyNoise
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import NoisySteps, check_scale
from scumble.private.sampling import open_keys
from scumble.private.sampling.noise import discrete_gaussian, discrete_laplace

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable
    from scumble.private.tables.key_pairs import KeyCounter

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FoundKeys:
    """The values of the keys that were found, in their order, and their noisy counts, if any."""

    values: list[pa.Array]
    counts: Counts | None


class KeyRule(Protocol):
    """A randomised rule that finds keys."""

    def loss(self, unit: PrivacyUnit) -> PrivacyLoss:
        """Return what finding keys by this rule costs."""
        ...

    def find(
        self, counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None
    ) -> tuple[Counts, Counts | None]:
        """Return the numbers of the keys that are shown, and their noisy counts, if any."""
        ...


class PrivateKeys:
    """The keys of a table, of which only those that a rule has paid for are returned."""

    def __init__(self, table: PrivateTable, names: Sequence[str], unit: PrivacyUnit) -> None:
        self.names, self.unit = tuple(names), unit
        self._table = table

    def find(self, rule: KeyRule, within: Sequence[pa.Array] = ()) -> FoundKeys:
        """Return the keys that the rule shows.

        With `within`, the values of the first columns of a key must be among these, which are
        public.
        """
        reason = f"keys of {', '.join(self.names)}"
        self._table._account.charge(reason, rule.loss(self.unit))
        counter = self._table._counter.keys(self.names, self.unit)
        try:
            among = _among(counter, within)
            keys, counts = rule.find(counter, self.unit.rows, self._table._noise, among)
            return FoundKeys(counter.values(keys), counts)
        finally:
            counter.close()


def _among(counter: KeyCounter, within: Sequence[pa.Array]) -> Mask | None:
    """Return which keys begin with one of the combinations of values `within`."""
    if not within:
        return None
    found = np.ones(len(counter), bool)
    own = counter.values(np.arange(len(counter)))
    for column, allowed in zip(own, within, strict=False):
        found &= pc.is_in(column, allowed).to_numpy(zero_copy_only=False)
    return found


# --- the rules: their proofs are in `private/sampling/open_keys.py` ------------------------------


@dataclass(frozen=True)
class OptimalRule:
    """The noise that names the most keys, in one round or in several; one key of a round costs
    (1/scale, δ) of its law.

    In each round people draw among the keys that were not found yet. Rounds compose: for any keys
    that were found before, a round is differentially private by itself. Counts have the law of
    their round, so that with several rounds only names are returned.
    """

    laws: tuple[KeyNoise, ...]

    def loss(self, unit: PrivacyUnit) -> PrivacyLoss:
        changed = unit.sensitivity
        epsilon = sum((changed / law.scale for law in self.laws), Fraction(0))
        delta = sum((changed * law.delta for law in self.laws), Fraction(0))
        return PrivacyLoss(epsilon, delta=delta)

    def find(
        self, counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None
    ) -> tuple[Counts, Counts | None]:
        if len(self.laws) == 1:
            return self._round(self.laws[0], counter, most, noise, among)
        left = np.ones(len(counter), bool) if among is None else among.copy()
        found = []
        for law in self.laws:
            keys, _ = self._round(law, counter, most, noise, left)
            left[keys] = False
            found.append(keys)
        return np.sort(np.concatenate(found)), None

    def _round(
        self,
        law: KeyNoise,
        counter: KeyCounter,
        most: int,
        noise: NoisySteps,
        among: Mask | None,
    ) -> tuple[Counts, Counts]:
        people = _people(counter, most, noise, among)
        keys = np.flatnonzero(people)
        noisy = people[keys] + open_keys.key_noise(noise.source, law, len(keys))
        shown = noisy > law.reach
        return keys[shown], noisy[shown]


@dataclass(frozen=True)
class LaplaceRule:
    """Laplace noise on counts, shown from `threshold` on; a key of one person with probability
    `delta` at most. With `counts`, the counts of shown keys are measured again.
    """

    noise: DiscreteLaplace
    threshold: int
    delta: Fraction
    counts: DiscreteLaplace | None = None

    def loss(self, unit: PrivacyUnit) -> PrivacyLoss:
        if open_keys.laplace_threshold(self.noise.scale, self.delta) > self.threshold:
            raise PromiseError("The threshold of keys is too low for the promised δ.")
        check_scale(self.noise)
        epsilon = unit.sensitivity / self.noise.scale
        if self.counts is not None:
            check_scale(self.counts)
            epsilon += unit.sensitivity / self.counts.scale
        return PrivacyLoss(epsilon, delta=unit.rows * self.delta)

    def find(
        self, counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None
    ) -> tuple[Counts, Counts | None]:
        people = _people(counter, most, noise, among)
        keys = np.flatnonzero(people)
        noisy = people[keys] + discrete_laplace(noise.source, self.noise.scale, len(keys))
        shown = noisy >= self.threshold
        if self.counts is None:
            return keys[shown], noisy[shown]
        again = discrete_laplace(noise.source, self.counts.scale, int(shown.sum()))
        return keys[shown], people[keys[shown]] + again


@dataclass(frozen=True)
class GaussianRule:
    """Weighted sums with Gaussian noise, in rounds; people spend each on keys not found yet.

    A round may use of those before only which keys they found. Whether a key has a noisy sum at all
    is not covered by the noise: a person may be the only one who drew a key that others have too.
    Such a key is found with that round's share of δ at most, and else the person changed nothing.
    """

    epsilon: Fraction
    delta: Fraction
    unit: PrivacyUnit
    shares: tuple[int, ...]
    for_counts: Fraction

    @cached_property
    def plan(self) -> open_keys.GaussianRounds:
        """The noise and the threshold of every round."""
        return open_keys.gaussian_rounds(
            self.epsilon,
            self.delta,
            self.unit.rows,
            shares=self.shares,
            vectors=2 if self.unit.neighbours == "replace" else 1,
            for_counts=self.for_counts,
        )

    def loss(self, unit: PrivacyUnit) -> PrivacyLoss:
        if unit != self.unit:
            raise PromiseError("The noise of keys was chosen for other neighbouring tables.")
        for each in self.plan.rounds:
            check_scale(each.noise)
        return PrivacyLoss(self.epsilon, delta=self.delta)

    def find(
        self, counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None
    ) -> tuple[Counts, Counts | None]:
        weights = np.array([0, *map(open_keys.weight_of, range(1, most + 1))])
        found = np.zeros(len(counter), bool)
        left = np.ones(len(counter), bool) if among is None else among.copy()
        for each in self.plan.rounds:
            drawn = counter.draw(weights, noise.source, left)
            keys = np.flatnonzero(drawn.people)
            sums = drawn.sums[keys]
            sums += discrete_gaussian(noise.source, each.noise.parameter, len(keys))
            shown = keys[sums > each.threshold]
            found[shown], left[shown] = True, False
        keys = np.flatnonzero(found)
        if self.plan.counts is None:
            return keys, None
        people = _people(counter, most, noise, found)[keys]
        return keys, people + discrete_gaussian(noise.source, self.plan.counts.parameter, len(keys))


def _people(counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None) -> Counts:
    """Return by key how many people kept it among at most `most` of theirs."""
    return counter.draw(np.zeros(most + 1, np.int64), noise.source, among).people
