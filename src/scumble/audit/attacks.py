"""Attacks on systems that answer questions: averaging, differencing, reconstruction of the table,
and conclusions from refusals.

The attacker guesses the secret bits of people, which are 0 or 1 with equal probability. Under ε-DP
(replacing one person) a bit is guessed with a probability of at most e^ε / (e^ε + 1), even by an
attacker who knows all other bits. So the number of right guesses is stochastically at most binomial
with that probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.audit.report import Finding, Verdict
from scumble.model.errors import ScumbleError
from scumble.model.laws.probabilities import binomial_at_least
from scumble.model.privacy.guarantee import percent_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database
from scumble.private.database.live.database import LiveDatabase

PERSON, SECRET = "person", "secret"


class Victim(Protocol):
    """A system under attack: it counts the people of a list whose secret is 1, or refuses."""

    name: str
    people: int
    epsilon: float

    def count(self, condition: str, members: Sequence[int]) -> float | None: ...


class DatabaseVictim:
    """A statistical database of numbered people with a secret bit."""

    name = "statistical database"

    def __init__(
        self, folder: Path, secrets: Sequence[int], *, epsilon: float, noise: float
    ) -> None:
        self.people, self.epsilon = len(secrets), epsilon
        table, schema = _people(secrets)
        self._database = Database.create(folder, table, schema, epsilon=epsilon, noise=noise)

    def count(self, condition: str, members: Sequence[int]) -> float | None:
        """Return the answer of the database, relaxed or not; None if it refuses."""
        try:
            found = self._database.answer(f"SELECT COUNT(*) FROM people WHERE {condition}")
        except ScumbleError:
            return None
        value = float(found)  # type: ignore[arg-type]
        return value if math.isfinite(value) else None

    def close(self) -> None:
        """Close the database and its folder."""
        self._database.close()


class LiveVictim:
    """A live database of numbered people with a secret bit, of which every question wants all the
    accuracy that there is.
    """

    name = "live database"

    def __init__(
        self, folder: Path, secrets: Sequence[int], *, epsilon: float, delta: float
    ) -> None:
        self.people, self.epsilon = len(secrets), epsilon
        self._database = LiveDatabase.create(
            folder,
            *_people(secrets),
            epsilon=epsilon,
            delta=delta,
            neighbours="replace",
            base=0.25,
            largest_purchase=0.5,
        )

    def count(self, condition: str, members: Sequence[int]) -> float | None:
        """Return the answer of the database, which never refuses."""
        sql = f"SELECT COUNT(*) FROM people WHERE {condition}"
        return self._database.ask(sql, within=0.6).estimate.value  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the database and its folder."""
        self._database.close()


def _people(secrets: Sequence[int]) -> tuple[pa.Table, Schema]:
    """Return a table of numbered people, and its schema."""
    table = pa.table({PERSON: np.arange(len(secrets)), SECRET: np.array(secrets)})
    schema = Schema(
        (
            Attribute(PERSON, "quasi", IntegerRange(0, len(secrets) - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, 1)),
        ),
    )
    return table, schema


Bits = npt.NDArray[np.int64]
Attack = Callable[[Victim, np.random.Generator, int], Bits]


def averaging(victim: Victim, _: np.random.Generator, tries: int) -> Bits:
    """Ask the same question about each person several times, and average the answers."""
    return np.array([_mean(victim, [(_alone(who), [who])] * tries) for who in _everyone(victim)])


def rewriting(victim: Victim, _: np.random.Generator, tries: int) -> Bits:
    """Ask about each person in different words every time, so that no cache knows the question."""
    return np.array(
        [
            _mean(victim, [(text, [who]) for text in islice(_spellings(who), tries)])
            for who in _everyone(victim)
        ]
    )


def differencing(victim: Victim, rng: np.random.Generator, tries: int) -> Bits:
    """Ask about random groups with and without each person, and average the differences."""
    found = []
    for who in _everyone(victim):
        gaps = []
        for _ in range(tries):
            others = [other for other in _everyone(victim) if other != who and rng.random() < 0.5]
            groups = (sorted([*others, who]), others)
            answers = [victim.count(_listed(group), group) for group in groups if group]
            if len(answers) == 2 and None not in answers:
                gaps.append(float(answers[0] or 0) - float(answers[1] or 0))
        found.append(_named(gaps))
    return np.array(found)


def reconstruction(victim: Victim, rng: np.random.Generator, tries: int) -> Bits:
    """Ask about random groups, and find the bits that fit all answers best by linear programming
    (Dinur and Nissim, 2003; Dwork, McSherry and Talwar, 2007).
    """
    from scipy.optimize import linprog

    people = victim.people
    asked, answers = [], []
    for _ in range(tries * people):
        members = np.flatnonzero(rng.random(people) < 0.5)
        if len(members) and (said := victim.count(_listed(members), members.tolist())) is not None:
            asked.append(np.isin(np.arange(people), members).astype(float))
            answers.append(said)
    groups, said_all = np.array(asked), np.array(answers)
    # For bits x and slacks s: minimise Σ s subject to |groups x - answers| ≤ s.
    slack = np.eye(len(groups))
    limits = np.block([[groups, -slack], [-groups, -slack]])
    costs = np.concatenate([np.zeros(people), np.ones(len(groups))])
    bounds = [(0, 1)] * people + [(0, None)] * len(groups)
    solved = linprog(costs, limits, np.concatenate([said_all, -said_all]), bounds=bounds)
    found: Bits = (solved.x[:people] > 0.5).astype(np.int64)
    return found


ATTACKS: dict[str, Attack] = {
    "averaging by repetition": averaging,
    "averaging by rewriting": rewriting,
    "differencing": differencing,
    "reconstruction by linear programming": reconstruction,
}


@dataclass(frozen=True)
class Outcome:
    """How many bits an attack guessed, and whether the promise allows that."""

    attack: str
    victim: str
    right: int
    people: int
    epsilon: float

    @property
    def allowed(self) -> float:
        """The success probability that ε allows for one bit."""
        return 1 / (1 + math.exp(-self.epsilon))

    @property
    def surprise(self) -> float:
        """An upper bound of the probability of at least `right` right guesses under the promise."""
        return binomial_at_least(self.right, self.people, self.allowed)

    def finding(self, confidence: float) -> Finding:
        """Return the finding about the promise."""
        refuted = self.surprise < 1 - confidence
        sentence = (
            f"The attack named {self.right} of {self.people} secret bits; ε = {self.epsilon:g} "
            f"allows {percent_at_most(self.allowed)} on average, and {self.right} or more "
            f"with probability {self.surprise:.2g} at most."
        )
        return Finding(
            check=self.attack,
            claim=f"{self.victim} keeps ε = {self.epsilon:g} over all its answers",
            verdict="refuted" if refuted else "stands",
            sentence=sentence,
            numbers={"right": self.right, "people": self.people, "surprise": self.surprise},
            confidence=confidence,
        )


def run_attack(
    attack: str, victim: Victim, secrets: Sequence[int], rng: np.random.Generator, tries: int
) -> Outcome:
    """Run an attack of `ATTACKS` with `tries` questions for each person."""
    guessed = ATTACKS[attack](victim, rng, tries)
    right = int((guessed == np.array(secrets)).sum())
    return Outcome(attack, victim.name, right, victim.people, victim.epsilon)


def _everyone(victim: Victim) -> range:
    return range(victim.people)


def _mean(victim: Victim, questions: Sequence[tuple[str, list[int]]]) -> int:
    said = [victim.count(condition, members) for condition, members in questions]
    return _named([each for each in said if each is not None])


def _named(values: Sequence[float]) -> int:
    """Return the bit next to the mean of noisy values; 0 if there are none."""
    return int(bool(values) and float(np.mean(values)) > 0.5)


def _alone(who: int) -> str:
    return f"{PERSON} = {who} AND {SECRET} = 1"


def _listed(members: Sequence[int] | npt.NDArray[np.int64]) -> str:
    return f"{SECRET} = 1 AND {PERSON} IN ({', '.join(map(str, members))})"


def _spellings(who: int) -> Iterator[str]:
    """Yield conditions that select the same person in different words, without end."""
    forms = (
        "{p} = {w}",
        "{p} >= {w} AND {p} <= {w}",
        "{p} > {b} AND {p} < {a}",
        "{p} BETWEEN {w} AND {w}",
        "{p} IN ({w}, {w})",
        "NOT ({p} <> {w})",
        "NOT ({p} < {w} OR {p} > {w})",
        "ABS({p} - {w}) = 0",
    )
    secrets = (f"{SECRET} = 1", f"NOT ({SECRET} = 0)", f"{SECRET} <> 0")
    for form, secret in product(forms, secrets):
        yield f"({form.format(p=PERSON, w=who, b=who - 1, a=who + 1)}) AND {secret}"
    for more in count(1):
        yield f"{PERSON} + {more} = {who + more} AND {SECRET} = 1"


# Refusals: a system whose refusals depend on the data answers by refusing.

ProbeQuestion = tuple[str, list[int]]


def refused(victim: Victim, questions: Sequence[ProbeQuestion]) -> Bits:
    """Return which questions are refused, as ones and zeros."""
    return np.array([victim.count(*question) is None for question in questions], np.int64)


def refusal_attack(victim: Victim, secrets: Sequence[int]) -> Outcome:
    """Ask about everybody once, and take a refusal for a secret of 0."""
    everybody = [(f"{PERSON} = {who} AND {SECRET} = 1", [who]) for who in range(victim.people)]
    right = int((1 - refused(victim, everybody) == np.array(secrets)).sum())
    return Outcome("refusals", victim.name, right, victim.people, victim.epsilon)


def refusal_finding(one: Victim, other: Victim, times: int) -> Finding:
    """Check that two databases with different people refuse the same questions.

    `times` questions are asked about each person, more than a database will answer.
    """
    questions = [
        (f"{PERSON} >= {who} AND {PERSON} <= {last} AND {SECRET} = 1", list(range(who, last + 1)))
        for who in range(one.people)
        for last in range(who, min(who + times, one.people))
    ]
    differ = int((refused(one, questions) != refused(other, questions)).sum())
    verdict: Verdict = "refuted" if differ else "exact"
    sentence = (
        f"Of {len(questions)} questions {differ} are refused with one table and answered with "
        "another."
    )
    claim = f"what {one.name} refuses does not depend on its table"
    return Finding("refusals", claim, verdict, sentence, {"differ": differ})
