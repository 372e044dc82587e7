"""Keys: names the values of a column that nobody can list in advance, with counts of people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scumble.families.keys.design import FOR_COUNTS, KeyLevel, OpenKeys
from scumble.model.errors import ParameterError, PromiseError, SchemaError, named, setting
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.laws.key_noise import KeyNoise, shown_probabilities
from scumble.model.parameters import free_name, whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit, analytic_variance
from scumble.model.privacy.guarantee import (
    at_most,
    gamma_above_epsilon,
    gamma_for_epsilon,
    read_delta,
)
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import SMALL_DELTA, Claim, ComparisonPreset, protection
from scumble.private.meter.noise import NoisySteps, check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.bits import Cuts
from scumble.private.sampling.noise import (
    Enclosure,
    discrete_gaussian,
    discrete_laplace,
    exponential,
)
from scumble.private.sampling.source import Keystream
from scumble.private.summaries.base import OFTEN, AttributeSummary

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable
    from scumble.private.tables.key_pairs import KeyCounter


Rule = Literal["auto", "optimal", "gaussian", "sips", "zealous", "korolova"]
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_KEYS = 10_000
_SAMPLED = ("hong", "sample", "sampling")
_SELDOM = 0.05
_HONG = (
    "Keys does not sample records with their people: in such a log an output that shows a person's "
    "record is impossible without that person, so that δ must be the chance that it is shown. At "
    "δ = 10⁻⁴ a record that 1,000 people share may not be shown once. Use "
)


@dataclass(kw_only=True, eq=False, repr=False)
class Keys(AttributeSummary):
    """Publishes the values of open categories, such as search queries, that enough people have, and
    how many people have them.

    A key is a value of one column, or a combination of values of several. Every person keeps at
    most `keys` different ones, drawn at random; without `person` every row is a person with one
    key. `rule` says which keys are named: "optimal" names the most keys that are possible if each
    person keeps one, and takes their counts from the same draw; where there are no counts and
    `person` is given, it names keys in three rounds. "sips" finds keys in four rounds, and is
    better where each person draws two or more. In a round people draw `keys` of theirs that were
    not found yet. "gaussian" is one round of "sips"; "zealous" and "korolova" are the rules of
    earlier papers. "auto" is "optimal" for one key of each person, else "sips". `within` names a
    column whose keys are found first: `Keys("url", within="query")` finds queries, then pairs of a
    found query and an address, with half of the budget each.

    Parameters:
        attributes: the columns of a key, as query.
        delta: probability with which a key of one person alone may be named.
        keys: most keys of one person.
        rule: auto, optimal, gaussian, sips, zealous or korolova.
        counts: publish how many people have each key.
        within: column whose keys are found first.

    Promises: (ε, δ)-DP of the whole release. Proof: with (ε/κ, δ/κ) for each of κ keys, whose
        draws are independent; for one key, of n and n + 1 people, the probabilities of all numbers
        are within e^(ε/κ), but for an excess of δ/κ at one end; rounds add up. With weighted sums:
        a person adds a vector of length 1 to the sums; all rounds together are one Gaussian
        mechanism with (ε, 0.6 δ), and a key that nobody else drew in a round passes a threshold
        with probability 0.4 δ at most; else it changes no later round. A choice of some keys of a
        person depends on nobody else.
    Estimate: the noisy count of a published key, where every row is a person with one key. With
        `person` it is that of the people who kept the key among theirs, which `top` ranks. The
        table has at least as many rows: how many keys a person has, and so the chance that a key
        was kept, is not published. Answers in SQL then have a lower end and no value. Where the
        same noise decided that the key is published, the interval holds given that it was. About a
        key that was not published it has only an upper end, and with weighted sums not even that.
        Sums over keys have intervals by the union of their parts.
    Reference: Desfontaines, Voss, Gipson, Differentially private partition selection, PoPETs 2022;
        Swanberg, Desfontaines, Haney, DP-SIPS, PoPETs 2023; Gopi et al., Differentially private set
        union, ICML 2020; Götz et al., Publishing search logs, TKDE 2012; Korolova et al., Releasing
        search queries and clicks privately, WWW 2009.
    Differs: noise is exact, on whole numbers; weights are 2^20/√t, rounded down. "zealous" has the
        threshold that its noise needs, 1 + (2κ/ε) ln(κ/2δ) where a person is replaced, and not a
        lower one. "korolova" counts people, not queries or clicks; clicks of found queries are a
        second level (`within`) with its own threshold, since addresses are not public either.
    """

    name = "keys"
    not_sampled = "that a key is not named tells about the people who were drawn."
    data_dependent = True
    limit: ClassVar[tuple[str, str]] = ("keys", "key")
    contribution: ClassVar[int] = 1  # type: ignore[misc]  # `keys` says how much a person adds
    gaussian_proof = (
        "for each key: Desfontaines, Voss, Gipson, PoPETs 2022; for sums: Gaussian differential "
        "privacy (Dong, Roth, Su, 2022) and a threshold for keys of one person"
    )

    delta: float
    keys: int
    rule: Rule = "auto"
    counts: bool = True
    within: str | None = None

    def __post_init__(self) -> None:
        read_delta("Keys", self.delta)
        self.keys = whole("Keys", "keys", self.keys, least=1, most=MOST_KEYS)
        if self.rule in _SAMPLED:
            raise ParameterError(f"{_HONG}{setting('rule', 'auto')}.")
        if self.rule not in RULES:
            raise ParameterError.of("Keys", "rule", f"one of {', '.join(RULES)}", self.rule)
        if not isinstance(self.counts, bool):
            raise ParameterError.of("Keys", "counts", "True or False", self.counts)
        if self.person is None and self.keys > 1:
            raise ParameterError(
                f"Without {named('person')} every row is a person with one key. Say which column "
                f"names people, or {setting('keys', 1)}."
            )
        super().__post_init__()
        self.unit = PrivacyUnit(self.neighbours, self.keys, self.person)
        if self.within is not None:
            if not isinstance(self.within, str) or self.within in self.names:
                allowed = "the name of another column"
                raise ParameterError.of("Keys", "within", allowed, self.within)
            self.names = (self.within, *self.names)
        self._rule()  # refuses parameters for which there is no noise

    def _given_delta(self) -> float | None:
        return self.delta

    def _paid(self) -> PrivacyLoss:
        return PrivacyLoss(self._epsilon, delta=self._delta or Fraction(0))

    @property
    def chosen_rule(self) -> str:
        """The rule that "auto" stands for."""
        if self.rule != "auto":
            return self.rule
        return "optimal" if self.keys == 1 else "sips"

    def _list_levels(self) -> list[tuple[str, ...]]:
        return [self.names] if self.within is None else [self.names[:1], self.names]

    def _rule(self) -> KeyRule:
        """Return the rule of each level. Every level has an equal part of ε and δ."""
        levels = len(self._list_levels())
        epsilon = self.promise.epsilon / levels
        delta = self.promise.delta / levels
        unit, chosen = self.unit, self.chosen_rule
        if chosen == "optimal":
            rate, rare = epsilon / unit.sensitivity, delta / unit.sensitivity
            alone = self.counts or self.person is None  # else people may draw again
            shares = (Fraction(1),) if alone else NAMING
            return OptimalRule(tuple(KeyNoise(1 / (s * rate), s * rare) for s in shares))
        if chosen in ("zealous", "korolova"):
            again = chosen == "korolova" and self.counts
            noise = DiscreteLaplace(unit.sensitivity / (epsilon / 2 if again else epsilon))
            rare = delta / unit.rows
            threshold = laplace_threshold(noise.scale, rare)
            return LaplaceRule(noise, threshold, rare, noise if again else None)
        rounds = SHARES if chosen == "sips" else (1,)
        share = FOR_COUNTS if self.counts else Fraction(0)
        return GaussianRule(epsilon, delta, unit, rounds, share)

    def check(self, schema: Schema) -> None:
        for name in self.names:
            attribute = schema[name]
            if attribute.role == "identifier":
                raise SchemaError(
                    f"'{name}' is an identifier: it is never published. For Keys make it a "
                    "category with open = true."
                )
            if schema.derivation(name) is not None:
                raise SchemaError(
                    f"Keys reads columns of the table as they are, and '{name}' is derived from a "
                    "list. Publish it by Histogram or Sparse."
                )
            if not attribute.open:
                _ = attribute.size  # raises SchemaError, with advice, for lists
        column = self.unit.column
        if column is not None and schema[column].role != "identifier":
            allowed = "an attribute with the role identifier"
            raise ParameterError.of("Keys", "person", allowed, column)

    def _odds(self, steps: int) -> Fraction:
        """From (ε, δ): odds grow by more than e^2ε with probability δ/(1 - e^-ε) at most. For the
        set B of outputs with P > e^2ε Q, P(B) <= e^ε Q(B) + δ <= e^-ε P(B) + δ.
        """
        return 2 * steps * self._epsilon

    def _but(self) -> str:
        delta, steps = self.promise.delta, 1 if self.neighbours == "replace" else 2
        if steps == 2:
            delta *= 1 + gamma_above_epsilon(self._epsilon)
        rare = min(delta / (1 - 1 / gamma_for_epsilon(steps * self._epsilon)), Fraction(1))
        return f", δ = {at_most(self.promise.delta)}: but for a probability of {at_most(rare)}"

    def _limits(self) -> tuple[str, ...]:
        keys, are = ("one key", "is") if self.keys == 1 else (f"{self.keys} keys", "are")
        checked = (
            f"Of each person at most {keys} {are} counted, drawn at random."
            if self.unit.column
            else "It is the owner's word that every row is another person: nothing checks it."
        )
        alone = "A key of one person alone is named with a probability of up to δ"
        return (checked, f"{alone}: keep it below 1/(10 · people).", *super()._limits()[1:])

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """From how many people on a key is named."""
        if (level := self._describe_level(self._rule(), 1)).selection is None:
            return ()
        most = level.most_unseen(_SELDOM)
        few = max(2 * level.threshold - most, 0)
        named = f"a key that {most + 1:,.0f} people or more keep is named {OFTEN}"
        return (f"To expect: {named}; one that {few:,.0f} or fewer keep is left out as often.",)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        return {"rule": self.chosen_rule}

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        import pyarrow.parquet as pq

        if pq.read_metadata(folder / evidence.files[0]).num_rows:
            return ()
        sentence = "No key has enough people to be named."
        return (f"{sentence} A larger epsilon or delta, or coarser keys, name more.",)

    def layout(self, schema: Schema) -> Layout:
        attributes = [schema[name] for name in self.names]
        counts = [free_name("count", self.names)] if self.counts else []
        return {"keys.parquet": (*attributes, *counts)}

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        rule, by_level = self._rule(), list[FoundKeys]()
        for names in self._list_levels():
            within = by_level[-1].values if by_level else ()
            by_level.append(PrivateKeys(table, names, self.unit).find(rule, within))
        count = free_name("count", self.names) if self.counts else None
        design = OpenKeys(
            self.chosen_rule, self.keys, self.person is not None, count, self.levels()
        )
        _write(folder / "keys.parquet", table.schema, self.names, count, by_level)
        return Measurements("keys.parquet", self.names, design)

    def levels(self) -> tuple[KeyLevel, ...]:
        """The laws of the counts of each level, which follow from the parameters."""
        rule = self._rule()
        return tuple(self._describe_level(rule, len(names)) for names in self._list_levels())

    def _describe_level(self, rule: KeyRule, columns: int) -> KeyLevel:
        match rule:
            case OptimalRule((*_, law)):  # a key that was not named did not pass the last round
                return KeyLevel(columns, law if self.counts else None, False, law, law.reach)
            case LaplaceRule(noise, threshold, _, counts):
                shown = counts or noise
                given = shown if self.counts else None
                return KeyLevel(columns, given, counts is not None, noise, threshold - 1)
            case GaussianRule():
                return KeyLevel(columns, rule.plan.counts, True)
        raise TypeError("an unknown rule")

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        known = {**super().needs(study), "delta": SMALL_DELTA, "keys": 1}
        if not (names := [attribute.name for attribute in study.schema.open]):
            return known
        people = [attribute.name for attribute in study.schema.identifiers]
        person = {"person": people[0]} if len(people) == 1 else {}
        return {**known, "attributes": names[:1], **person}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, delta=0.05, keys=1)
        yield Claim(cls(["a", "b"], **given), 1, 0.05)
        yield Claim(cls(["a"], rule="zealous", **given), 1, 0.05)
        yield Claim(cls(["a"], rule="sips", **given), 1, 0.05)


def _write(
    path: Path, schema: Schema, names: tuple[str, ...], count: str | None, levels: list[FoundKeys]
) -> None:
    """Write the keys of all levels, each level in the order of its keys."""
    import pyarrow.parquet as pq

    tables = []
    for level in levels:
        rows = len(level.values[0])
        columns = {
            name: level.values[index]
            if index < len(level.values)
            else pa.nulls(rows, schema[name].arrow_type)
            for index, name in enumerate(names)
        }
        if count is not None:
            counts = level.counts if level.counts is not None else np.empty(0, np.int64)
            columns[count] = pa.array(counts, pa.int64())
        tables.append(pa.table(columns))
    pq.write_table(pa.concat_tables(tables), path)


# --- meter ----------------------------------------------------------------------------------------
#
# Keys that may be named: the randomised rules, what each costs, and the keys that it finds.
#
# `PrivateKeys.find` charges the account first, and reads afterwards. `unit.rows` is the largest
# number of keys of a person; a person who has more keeps a random choice of them.

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
            among = _match_prefixes(counter, within)
            keys, counts = rule.find(counter, self.unit.rows, self._table._noise, among)
            return FoundKeys(counter.values(keys), counts)
        finally:
            counter.close()


def _match_prefixes(counter: KeyCounter, within: Sequence[pa.Array]) -> Mask | None:
    """Return which keys begin with one of the combinations of values `within`."""
    if not within:
        return None
    mask = np.ones(len(counter), bool)
    own = counter.values(np.arange(len(counter)))
    for column, allowed in zip(own, within, strict=False):
        mask &= pc.is_in(column, allowed).to_numpy(zero_copy_only=False)
    return mask


# --- the rules: their proofs are below ----------------------------------------------------------


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
            return self._run_round(self.laws[0], counter, most, noise, among)
        left = np.ones(len(counter), bool) if among is None else among.copy()
        shown = []
        for law in self.laws:
            keys, _ = self._run_round(law, counter, most, noise, left)
            left[keys] = False
            shown.append(keys)
        return np.sort(np.concatenate(shown)), None

    def _run_round(
        self,
        law: KeyNoise,
        counter: KeyCounter,
        most: int,
        noise: NoisySteps,
        among: Mask | None,
    ) -> tuple[Counts, Counts]:
        people = _count_people(counter, most, noise, among)
        keys = np.flatnonzero(people)
        noisy = people[keys] + key_noise(noise.source, law, len(keys))
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
        if laplace_threshold(self.noise.scale, self.delta) > self.threshold:
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
        people = _count_people(counter, most, noise, among)
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
    def plan(self) -> GaussianRounds:
        """The noise and the threshold of every round."""
        return gaussian_rounds(
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
        for step in self.plan.rounds:
            check_scale(step.noise)
        return PrivacyLoss(self.epsilon, delta=self.delta)

    def find(
        self, counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None
    ) -> tuple[Counts, Counts | None]:
        weights = np.array([0, *map(weight_of, range(1, most + 1))])
        passed = np.zeros(len(counter), bool)
        left = np.ones(len(counter), bool) if among is None else among.copy()
        for step in self.plan.rounds:
            drawn = counter.draw(weights, noise.source, left)
            keys = np.flatnonzero(drawn.people)
            sums = drawn.sums[keys]
            sums += discrete_gaussian(noise.source, step.noise.parameter, len(keys))
            shown = keys[sums > step.threshold]
            passed[shown], left[shown] = True, False
        keys = np.flatnonzero(passed)
        if self.plan.counts is None:
            return keys, None
        people = _count_people(counter, most, noise, passed)[keys]
        return keys, people + discrete_gaussian(noise.source, self.plan.counts.parameter, len(keys))


def _count_people(counter: KeyCounter, most: int, noise: NoisySteps, among: Mask | None) -> Counts:
    """Return by key how many people kept it among at most `most` of theirs."""
    return counter.draw(np.zeros(most + 1, np.int64), noise.source, among).people


# --- sampling -------------------------------------------------------------------------------------
#
# Which values of an unlisted domain may be named: exact parameters and draws.
#
# A key is shown only if somebody has it, so that a key of one person alone must be shown with a
# probability of at most δ. `count` is the number of people who have a key.
#
# - The most keys (Desfontaines, Voss, Gipson, 2022): π(count) is the largest probability of showing
#   a key under (ε, δ), and the noise X has P(X > k - count) = π(count), where k is its largest
#   value. A key is shown with the number count + X if that is above k. Proof of (ε, δ) for one key:
#   from one number to the next P(X) grows by the factor e^ε, then falls by it. So all numbers of
#   neighbouring counts have probabilities within e^ε, but for the largest, of probability δ, and at
#   the other end the last two, whose excess is 1 - π(n) - e^ε (1 - π(n+1)) = δ.
# - Laplace noise of scale b: shown if the noisy count reaches a threshold, so high that a key of
#   one person reaches it with probability p <= δ and 1/(1 - p) <= e^(1/b). One key costs 1/b and p.
# - Weighted sums with Gaussian noise: a person with t keys adds floor(2^20 / √t) to each of them, a
#   vector of length 2^20 at most; the threshold is so high that a person alone passes it with
#   probability δ. Several rounds add up by their precisions 1/σ² (`gaussian_rounds`). A round may
#   use of those before only which keys passed: that a key has a noisy sum tells that somebody drew
#   it.

Integers = NDArray[np.int64]

UNIT = 1 << 20  # the weight of a person with one key
SHARES = (1, 4, 16, 64)  # of the precision and of δ in the four rounds of `sips`
# Of ε and δ in the three rounds that name keys without counts, by the noise that names the most.
NAMING = (Fraction(3, 100), Fraction(1, 10), Fraction(87, 100))
FOR_NAMES = Fraction(2, 5)  # of δ, for keys of one person alone; the rest is for Gaussian noise
# Gaussian noise on whole numbers is continuous noise of a variance less by this, rounded at random
# (see `_make_discrete`), but for a factor of 1 ± 2e^(-2π²·2) = 1 ± 2e-17 in each probability.
_ROUNDED = 2
_MARGIN = 1 - 1e-6  # of δ: far more than floating point and that factor can lose


def weight_of(keys: int) -> int:
    """Return what a person with `keys` keys adds to each of them: 2^20 / √keys, rounded down."""
    return math.isqrt(UNIT * UNIT // keys)


# --- noise that names the most keys ---------------------------------------------------------------


def key_noise(source: Keystream, law: KeyNoise, size: int) -> Integers:
    """Return `size` independent variables of `law`."""
    drawn = _make_cuts(law).draw(source, size)
    return law.reach - drawn.astype(np.int64)


@lru_cache(maxsize=16)
def _make_cuts(law: KeyNoise) -> Cuts:
    """The error is reach - j if a uniform number is from π(j) on and below π(j + 1)."""
    return Cuts.rational(shown_probabilities(1 / law.scale, law.delta)[1:-1])


# --- Laplace noise -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def laplace_threshold(scale: Fraction, delta: Fraction) -> int:
    """Return the least number that the noisy count of one person reaches with probability p, where
    p <= δ and 1/(1 - p) <= e^(1/scale).
    """
    precision = 256 + 2 * (delta.denominator // delta.numerator).bit_length()
    chance = float(delta) * (1 + math.exp(-1 / float(scale)))
    threshold = max(math.floor(-math.log(chance) * float(scale)) - 1, 1)
    while not _passes_rarely(scale, delta, threshold, precision):
        threshold += 1
    return threshold


def _passes_rarely(scale: Fraction, delta: Fraction, threshold: int, precision: int) -> bool:
    """P(noise >= threshold - 1) = a^(threshold - 1) / (1 + a), with a = e^(-1/scale)."""
    one = 1 << precision
    ratio: Enclosure = exponential(1 / scale, precision)
    chance = Fraction(exponential((threshold - 1) / scale, precision)[1], one + ratio[0])
    return chance <= delta and chance <= 1 - Fraction(ratio[1], one)


# --- Gaussian noise on weighted sums -------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One round: the noise of the weighted sums, and what a noisy sum must exceed."""

    noise: DiscreteGaussian
    threshold: int


@dataclass(frozen=True)
class GaussianRounds:
    """Rounds of weighted sums, and the noise of counts of the keys that were found, if any."""

    rounds: tuple[Round, ...]
    counts: DiscreteGaussian | None


@lru_cache(maxsize=64)
def gaussian_rounds(
    epsilon: Fraction,
    delta: Fraction,
    keys: int,
    *,
    shares: tuple[int, ...],
    vectors: int,
    for_counts: Fraction,
) -> GaussianRounds:
    """Return rounds that cost (ε, δ) in all, if a person has up to `keys` keys in each round.

    Neighbouring tables differ in `vectors` people (1, or 2 for a replacement), whose vectors have
    no negative entries, so that the squared distance is at most `vectors` times that of one. All
    sums with Gaussian noise lose (ε, 0.6 δ) together: continuous noise of precisions p_1, p_2, ...
    loses as much as one of precision p_1 + p_2 + ..., also if each vector is chosen after the
    noisy sums before are seen (Dong, Roth, Su, 2022). `for_counts` is the share of the precision
    for the counts. The rest of δ is for keys that one person alone drew in a round.
    """
    for_names = FOR_NAMES * delta
    allowed = float(delta - for_names) * _MARGIN
    spread = analytic_variance(
        sensitivity=math.sqrt(vectors), epsilon=float(epsilon), delta=allowed
    )
    variance = Fraction(spread) / (1 - for_counts)
    total = sum(shares)
    rounds = []
    for share in shares:
        noise = _make_discrete(variance * Fraction(total, share) * UNIT**2)
        rounds.append(Round(noise, sum_threshold(noise, keys, for_names * Fraction(share, total))))
    counts = _make_discrete(Fraction(spread) * keys / for_counts) if for_counts else None
    return GaussianRounds(tuple(rounds), counts)


def _make_discrete(variance: Fraction) -> DiscreteGaussian:
    """Return discrete noise that hides as much as continuous noise of this variance.

    Rounding continuous noise of variance s² at random, to z with probability proportional to
    e^(-(z - y)²/2t²), gives discrete noise of parameter s² + t², up to the factor at `_ROUNDED`:
    the sum of e^(-(z - y)²/2t²) over all integers z is the same for all y up to that factor.
    """
    return DiscreteGaussian(Fraction(math.ceil(variance * 1024), 1024) + _ROUNDED)


def sum_threshold(noise: DiscreteGaussian, keys: int, delta: Fraction) -> int:
    """Return a number that a person alone, with up to `keys` keys, exceeds in one of them with
    probability δ at most: t P(weight_of(t) + noise > threshold) <= δ for t = 1 to `keys`.
    """
    allowed = float(delta) * _MARGIN
    # quantile(q) is the least k with P(noise <= k) >= q, so that P(noise > -k) < q.
    return max(weight_of(t) - int(noise.quantile(allowed / t)) for t in range(1, keys + 1))
