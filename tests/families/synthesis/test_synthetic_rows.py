"""Games against synthetic rows: is a person in the table, and what does the row say? Broken twins
lose them; the honest synthesis stays within what its (ε, δ) allows.

A game draws rows from releases of two neighbouring tables, and guesses by a statistic of the rows.
(ε, δ)-DP bounds P(guess | one) by e^ε · P(guess | other) + δ. It is refuted if that is violated by
lower and upper limits of the two probabilities, each at a confidence of 1 - 1e-6.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy import stats

import scumble as sc
from scumble.families.synthesis.publish.synthesis import PrivateTables
from scumble.families.synthesis.read import chosen_model
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

RUNS = 150
EPSILON, DELTA = 1.0, 1e-3
SCHEMA = sc.Schema(
    (
        Attribute("age", "quasi", IntegerRange(0, 3)),
        Attribute("ill", "sensitive", Category(("no", "yes"))),
        Attribute("sex", "quasi", Category(("f", "m"))),
    )
)
NAMES = ["age", "ill", "sex"]


class NoNoise(NoisySteps):
    """Counts without noise."""

    def add(self, numbers, law):
        pass


class BestScore(NoisySteps):
    """The structure of the raw data: the largest score is chosen."""

    def picks(self, candidates, k, **_):
        return np.argsort(-candidates.scores, kind="stable")[:k].astype(np.uint64)


class ExactMarginals(sc.Synthesis):
    """Rows from exact tables."""

    def measure(self, table, folder):
        return super().measure(_with(table, NoNoise), folder)


def _with(table, steps):
    other = copy(table)
    other._noise = steps(table._noise.source)
    return other


def _releases(method, counts, folder, seeds):
    """Yield the designs and rows of releases of a table with these counts."""
    import pyarrow.parquet as pq

    for seed in seeds:
        counter = TensorCounter(SCHEMA, NAMES, counts)
        table = PrivateTable(counter, BudgetAccount(method.promise), Keystream(seed))
        evidence = method.measure(table, folder)
        numbers = pq.read_table(folder / evidence.file)["count"].to_numpy()
        design = evidence.design
        model = chosen_model(design, design.split(numbers), evidence.rows)
        yield design, model.rows(200, 1)


def _refuted(guesses):
    """Return whether guesses about two tables violate (ε, δ), in either direction."""
    one, other = (sum(each) for each in guesses)
    return any(
        _low(hits, RUNS) > exp(EPSILON) * _high(misses, RUNS) + DELTA
        for hits, misses in ((one, other), (RUNS - other, RUNS - one))
    )


def _low(hits, runs):
    return stats.beta.ppf(1e-6, hits, runs - hits + 1) if hits else 0.0


def _high(hits, runs):
    return stats.beta.ppf(1 - 1e-6, hits + 1, runs - hits) if hits < runs else 1.0


def _made(kind, neighbours="add_remove"):
    return kind(NAMES, epsilon=EPSILON, delta=DELTA, neighbours=neighbours, extra=0)


def _game(kind, tables, statistic, folder, neighbours="add_remove"):
    """Guess by the best threshold of the statistic, which is found on other runs."""
    method = _made(kind, neighbours)
    first = [
        np.array([statistic(*each) for each in _releases(method, counts, folder, range(RUNS))])
        for counts in tables
    ]
    second = [
        np.array(
            [statistic(*each) for each in _releases(method, counts, folder, range(RUNS, 2 * RUNS))]
        )
        for counts in tables
    ]
    limits = np.unique(np.concatenate(first))
    best = max(
        limits, key=lambda limit: abs((first[0] >= limit).mean() - (first[1] >= limit).mean())
    )
    guesses = [(each >= best).tolist() for each in second]
    return guesses if sum(guesses[0]) >= sum(guesses[1]) else guesses[::-1]


def _empty_but(*people):
    counts = np.zeros((4, 2, 2), np.int64)
    counts[0, 0] = 40
    counts[1, 1] = 40
    for cell in people:
        counts[cell] += 1
    return counts.reshape(-1)


def _at(cell):
    """The number of rows of a person's age and sex."""

    def statistic(design, rows):
        return int(((rows[0] == cell[0]) & (rows[2] == cell[2])).sum())

    return statistic


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "broken"), [(sc.Synthesis, False), (ExactMarginals, True)])
def test_membership(kind, broken, tmp_path):
    """The only person of an age: are there rows of this age?"""
    person = (3, 1, 0)
    tables = _empty_but(person), _empty_but()
    assert _refuted(_game(kind, tables, _at(person), tmp_path)) == broken


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "broken"), [(sc.Synthesis, False), (ExactMarginals, True)])
def test_attribute_inference(kind, broken, tmp_path):
    """The only person of an age is ill or not: how many rows of this age are ill?"""

    def statistic(design, rows):
        there = rows[0] == 3
        return int((there & (rows[1] == 1)).sum()) - int((there & (rows[1] == 0)).sum())

    tables = _empty_but((3, 1, 0)), _empty_but((3, 0, 0))
    assert _refuted(_game(kind, tables, statistic, tmp_path, "replace")) == broken


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "broken"), [(NoisySteps, False), (BestScore, True)])
def test_structure(steps, broken):
    """Two pairs of attributes are equally dependent but for one person: which is chosen first?"""
    pairs = [(0, 1), (0, 2)]
    models = {pair: np.zeros(8, np.int64) for pair in pairs}
    one = np.zeros((4, 2, 2), np.int64)
    one[0, 0, 0] = one[1, 1, 1] = 30
    tables = []
    for more in (0, 1):
        handicaps = dict.fromkeys(pairs, 0)
        counts = one.copy()
        counts[2, 0, 1] += more
        # The model of the second pair has the person: its distance falls where the other rises.
        models[pairs[1]] = np.array([0, 0, 0, 0, 0, 1, 0, 0])
        found = []
        for seed in range(RUNS):
            counter = TensorCounter(SCHEMA, NAMES, counts.reshape(-1))
            account = BudgetAccount(PrivacyLoss(rho=Fraction(1000)))
            table = _with(PrivateTable(counter, account, Keystream(seed)), steps)
            private = PrivateTables(table, NAMES, PrivacyUnit("add_remove"))
            private.count(pairs)
            chosen = private.pick(models, handicaps, dict.fromkeys(pairs, 1), Fraction(1))
            found.append(chosen == pairs[1])
        tables.append(found)
    assert _refuted(tables if sum(tables[0]) >= sum(tables[1]) else tables[::-1]) == broken
