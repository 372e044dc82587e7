"""Keys: names the values of a column that nobody can list in advance, with counts of people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa

from scumble.model.errors import ParameterError, SchemaError, named, setting
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.evidence.open_keys import KeyLevel, OpenKeys
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.key_noise import KeyNoise
from scumble.model.parameters import free_name, whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import (
    at_most,
    gamma_above_epsilon,
    gamma_for_epsilon,
    read_delta,
)
from scumble.model.schema.schema import Schema
from scumble.private.hooks import SMALL_DELTA, Claim, Study, protection
from scumble.private.mechanism import Layout
from scumble.private.meter.open_keys import (
    FoundKeys,
    GaussianRule,
    KeyRule,
    LaplaceRule,
    OptimalRule,
    PrivateKeys,
)
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling import open_keys
from scumble.private.summaries.base import OFTEN, AttributeSummary

Rule = Literal["auto", "optimal", "gaussian", "sips", "zealous", "korolova"]
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_KEYS = 10_000
FOR_COUNTS = Fraction(3, 10)  # of the precision of Gaussian noise
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
    Estimate: the noisy count of a published key: of the people who kept the key among theirs. Where
        the same noise decided that the key is published, its interval holds given that it
        was. About a key that was not published only an upper limit is known, and with weighted sums
        not even that. Sums over keys have intervals by the union of their parts.
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

    def _levels(self) -> list[tuple[str, ...]]:
        return [self.names] if self.within is None else [self.names[:1], self.names]

    def _rule(self) -> KeyRule:
        """The rule of each level, at an equal part of ε and δ."""
        levels = len(self._levels())
        epsilon = self.promise.epsilon / levels
        delta = self.promise.delta / levels
        unit, chosen = self.unit, self.chosen_rule
        if chosen == "optimal":
            rate, rare = epsilon / unit.sensitivity, delta / unit.sensitivity
            alone = self.counts or self.person is None  # else people may draw again
            shares = (Fraction(1),) if alone else open_keys.NAMING
            return OptimalRule(tuple(KeyNoise(1 / (s * rate), s * rare) for s in shares))
        if chosen in ("zealous", "korolova"):
            again = chosen == "korolova" and self.counts
            noise = DiscreteLaplace(unit.sensitivity / (epsilon / 2 if again else epsilon))
            rare = delta / unit.rows
            threshold = open_keys.laplace_threshold(noise.scale, rare)
            return LaplaceRule(noise, threshold, rare, noise if again else None)
        rounds = open_keys.SHARES if chosen == "sips" else (1,)
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
        if (level := self._level(self._rule(), 1)).selection is None:
            return ()
        most = level.most_unseen(_SELDOM)
        few = max(2 * level.threshold - most, 0)
        kept = f"a key that {most + 1:,.0f} people or more keep is named {OFTEN}"
        return (f"To expect: {kept}; one that {few:,.0f} or fewer keep is left out as often.",)

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
        rule, found = self._rule(), list[FoundKeys]()
        for names in self._levels():
            within = found[-1].values if found else ()
            found.append(PrivateKeys(table, names, self.unit).find(rule, within))
        count = free_name("count", self.names) if self.counts else None
        design = OpenKeys(
            self.chosen_rule, self.keys, self.person is not None, count, self.levels()
        )
        _write(folder / "keys.parquet", table.schema, self.names, count, found)
        return Measurements("keys.parquet", self.names, design)

    def levels(self) -> tuple[KeyLevel, ...]:
        """The laws of the counts of each level, which follow from the parameters."""
        rule = self._rule()
        return tuple(self._level(rule, len(names)) for names in self._levels())

    def _level(self, rule: KeyRule, columns: int) -> KeyLevel:
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
    def needs(cls, study: Study) -> dict[str, Any]:
        known = {**super().needs(study), "delta": SMALL_DELTA, "keys": 1}
        if not (names := [each.name for each in study.schema.open]):
            return known
        people = [each.name for each in study.schema.identifiers]
        person = {"person": people[0]} if len(people) == 1 else {}
        return {**known, "attributes": names[:1], **person}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, delta=0.05, keys=1)
        yield Claim(cls(["a", "b"], **given), 1, 0.05)
        yield Claim(cls(["a"], rule="zealous", **given), 1, 0.05)
        yield Claim(cls(["a"], rule="sips", **given), 1, 0.05)


def _write(
    path: Path, schema: Schema, names: tuple[str, ...], count: str | None, found: list[FoundKeys]
) -> None:
    """Write the keys of all levels, each level in the order of its keys."""
    import pyarrow.parquet as pq

    tables = []
    for each in found:
        rows = len(each.values[0])
        columns = {
            name: each.values[place]
            if place < len(each.values)
            else pa.nulls(rows, schema[name].arrow_type)
            for place, name in enumerate(names)
        }
        if count is not None:
            counts = each.counts if each.counts is not None else np.empty(0, np.int64)
            columns[count] = pa.array(counts, pa.int64())
        tables.append(pa.table(columns))
    pq.write_table(pa.concat_tables(tables), path)
