"""Synthetic rows against their promise: exact laws of urns, games of inference, and releases.

The rows of a stratum have a known law, so that the loss between neighbouring tables, and the
success of the best attacker in a game, are sums over all rows that may be drawn: exact, for strata
of a few people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import cast

import numpy as np

from scumble.audit.distinguish import Outputs, distinguish
from scumble.audit.mechanism_claims import judged
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Verdict
from scumble.families.dirichlet.design import GRID
from scumble.families.dirichlet.publish import Dirichlet, PrivateStrata
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.privacy.guarantee import (
    epsilon_for_gamma,
    exposure_at_most,
    gamma_for_epsilon,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism_metadata import Claim
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

Counts = tuple[int, ...]
UrnLaw = dict[Counts, Fraction]  # the probability of each number of rows by value

_PEOPLE = 3  # in the strata that are tried
_STRATUM, _VALUE = "stratum", "value"
_SLACK = 1e-9


def urn_law(counts: Sequence[int], prior: Fraction, rows: int) -> UrnLaw:
    """Return the probability of all numbers of rows by value, drawn from an urn with these people
    and prior balls.
    """
    balls = [prior + count for count in counts]
    whole = _compute_rising_factorial(sum(balls, Fraction(0)), rows)
    law = {}
    for drawn in compositions(rows, len(counts)):
        ways, left = 1, rows
        for x in drawn:
            ways, left = ways * comb(left, x), left - x
        factors = (_compute_rising_factorial(ball, x) for ball, x in zip(balls, drawn, strict=True))
        law[drawn] = ways * math.prod(factors, start=Fraction(1)) / whole
    return law


def _compute_rising_factorial(start: Fraction, steps: int) -> Fraction:
    return math.prod((start + step for step in range(steps)), start=Fraction(1))


def compositions(total: int, parts: int) -> Iterator[Counts]:
    """Yield all tuples of `parts` whole numbers of at least 0 that add up to `total`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in compositions(total - first, parts - 1))


def neighbours(counts: Counts) -> Iterator[Counts]:
    """Yield the strata in which one person has another value."""
    for one, other in product(range(len(counts)), repeat=2):
        if one != other and counts[one]:
            moved = list(counts)
            moved[one] -= 1
            moved[other] += 1
            yield tuple(moved)


def exact_loss(people: int, values: int, prior: Fraction, rows: int) -> Fraction:
    """Return the largest ratio of probabilities between strata that differ in one value."""
    worst = Fraction(1)
    for counts in compositions(people, values):
        law = urn_law(counts, prior, rows)
        for other in neighbours(counts):
            near = urn_law(other, prior, rows)
            worst = max(worst, *(law[drawn] / near[drawn] for drawn in law))
    return worst


def exact_disclosure(
    people: int, values: int, prior: Fraction, rows: int, epsilon: Fraction
) -> Fraction:
    """Return the largest probability, over all strata of this size, of rows that change the odds
    between the stratum and any neighbour by more than e^ε, in either direction.
    """
    gamma, worst = gamma_for_epsilon(epsilon), Fraction(0)
    for counts in compositions(people, values):
        law = urn_law(counts, prior, rows)
        near = [urn_law(other, prior, rows) for other in neighbours(counts)]
        chances = (
            chance
            for drawn, chance in law.items()
            if any(max(chance / n[drawn], n[drawn] / chance) > gamma for n in near)
        )
        worst = max(worst, sum(chances, Fraction(0)))
    return worst


# --- games ---------------------------------------------------------------------------------------


def attribute_success(others: Counts, prior: Fraction, rows: int) -> Fraction:
    """Return how often the best attacker names the value of a person, who has each with equal
    probability, and knows the `others` of the stratum.
    """
    laws = [urn_law(_add_person(others, value), prior, rows) for value in range(len(others))]
    best = (max(law[drawn] for law in laws) for drawn in laws[0])
    return sum(best, Fraction(0)) / len(others)


def membership_success(others: Counts, value: int, prior: Fraction, rows: int) -> Fraction:
    """Return how often the best attacker, who sees the rows alone, tells whether a person with this
    value is in the stratum of the `others`; either is equally likely.
    """
    there, away = urn_law(_add_person(others, value), prior, rows), urn_law(others, prior, rows)
    return sum((max(there[drawn], away[drawn]) for drawn in there), Fraction(0)) / 2


def _add_person(others: Counts, value: int) -> Counts:
    return tuple(count + (index == value) for index, count in enumerate(others))


# --- findings ------------------------------------------------------------------------------------


def try_claim(claim: Claim, runs: int, seed: int | None) -> Iterator[Finding]:
    """Yield the findings about urns, and those of `runs` drawn strata of one person."""
    mechanism = cast(Dirichlet, claim.mechanism)
    yield from urn_findings(claim, mechanism)
    one, other = drawn_runs(claim, mechanism, runs, Keystream(seed))
    seen = distinguish(one, other, delta=claim.delta, confidence=CONFIDENCE)
    yield judged(claim.words, claim.epsilon, seen, "a stratum of one person")


def urn_findings(claim: Claim, mechanism: Dirichlet) -> Iterator[Finding]:
    """Yield the exact loss of a claim and the success in two games, for strata of few people."""
    values = claim.schema.size(mechanism.target)
    settings = [
        (people, *_choose_sizes(mechanism, claim, people)) for people in range(1, _PEOPLE + 1)
    ]
    if claim.delta:
        yield _check_disclosure(claim, mechanism, settings)
    else:
        worst = max(exact_loss(people, values, prior, rows) for people, rows, prior in settings)
        loss = epsilon_for_gamma(worst)
        sentence = (
            f"Between all strata of up to {_PEOPLE} people that differ in one value, the rows lose "
            f"ε = {loss:.6g} at most; promised is {claim.epsilon:.6g}."
        )
        yield _judge("exact loss", claim, loss, claim.epsilon, sentence, exact=True)
    yield _play_attribute_game(claim, settings, values)
    yield _play_membership_game(claim, settings, values)


def _choose_sizes(mechanism: Dirichlet, claim: Claim, people: int) -> tuple[int, Fraction]:
    rows, priors = mechanism.sizes(claim.schema, np.array([people]))
    return int(rows[0]), Fraction(int(priors[0]), GRID)


def _check_disclosure(
    claim: Claim, mechanism: Dirichlet, settings: Sequence[tuple[int, int, Fraction]]
) -> Finding:
    values, strata = claim.schema.size(mechanism.target), claim.schema.size(mechanism.given)
    epsilon = Fraction(str(claim.epsilon))
    worst = max(
        exact_disclosure(people, values, prior, rows, epsilon) for people, rows, prior in settings
    )
    chance = 1 - (1 - float(worst)) ** strata
    sentence = (
        f"In strata of up to {_PEOPLE} people, rows that change the odds by more than e^ε have a "
        f"probability of {chance:.4g} at most; promised is {claim.delta:.4g}."
    )
    return _judge("exact loss", claim, chance, claim.delta, sentence, exact=True)


def _play_attribute_game(
    claim: Claim, settings: Sequence[tuple[int, int, Fraction]], values: int
) -> Finding:
    success = max(
        float(attribute_success(others, prior, rows))
        for people, rows, prior in settings
        for others in compositions(people - 1, values)
    )
    most = min(exposure_at_most(claim.epsilon, values) + claim.delta, 1.0)
    sentence = (
        f"An attacker who knows the others of a stratum names the value of a person with "
        f"probability {success:.4g} at best (exact); the promise allows {most:.4g}, blind guessing "
        f"has {1 / values:.4g}."
    )
    return _judge("attribute inference", claim, success, most, sentence)


def _play_membership_game(
    claim: Claim, settings: Sequence[tuple[int, int, Fraction]], values: int
) -> Finding:
    success = max(
        float(membership_success(others, value, prior, rows))
        for people, rows, prior in settings
        for others in compositions(people - 1, values)
        for value in range(values)
    )
    most = min(exposure_at_most(claim.epsilon, 2) + claim.delta, 1.0)
    sentence = (
        f"From the rows alone an attacker tells whether a person is in a stratum with probability "
        f"{success:.4g} at best (exact); at this ε {most:.4g} is possible. The published number of "
        "people of a stratum tells more."
    )
    return _judge("membership inference", claim, success, most, sentence)


def _judge(
    check: str, claim: Claim, reached: float, most: float, sentence: str, *, exact: bool = False
) -> Finding:
    broken = reached > most * (1 + _SLACK)
    verdict: Verdict = "refuted" if broken else "exact" if exact else "stands"
    numbers = {"found": reached, "claimed": most}
    return Finding(check, claim.words, verdict, sentence, numbers)


def drawn_runs(claim: Claim, mechanism: Dirichlet, runs: int, noise: Keystream) -> list[Outputs]:
    """Draw the rows of `runs` equal strata with one person, who has the first or the last value."""
    values = claim.schema.size(mechanism.target)
    schema = Schema(
        (
            Attribute(_STRATUM, "quasi", IntegerRange(0, runs - 1)),
            Attribute(_VALUE, "sensitive", IntegerRange(0, values - 1)),
        )
    )
    outputs = []
    for person in (0, values - 1):
        counts = np.zeros((runs, values), np.int64)
        counts[:, person] = 1
        counter = TensorCounter(schema, [_STRATUM, _VALUE], counts)
        table = PrivateTable(counter, BudgetAccount(mechanism.promise), noise)
        strata = PrivateStrata(table, [_STRATUM], [_VALUE])
        drawn = strata.draw(lambda n: mechanism.sizes(claim.schema, n), mechanism.promise)
        shown = np.zeros((runs, values))
        np.add.at(shown, (drawn.stratum, drawn.value), 1)
        outputs.append(shown)
    return outputs
