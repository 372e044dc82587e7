"""Intervals hold the truth as often as they say, about the region that was really counted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.signal import fftconvolve

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.database.answers import Average
from scumble.private.journal.journal import Journal
from tests.support.database.small_database import database

GROUPS = 1000
SCHEMA = sc.Schema(
    [
        sc.Attribute("g", "quasi", sc.IntegerRange(0, GROUPS - 1)),
        sc.Attribute("n", "quasi", sc.IntegerRange(0, 9)),
    ]
)
LEVELS = (0.5, 0.8, 0.95)
# Of 1,000 independent intervals, by Hoeffding's bound: 1e-8 each.
SLACK = math.sqrt(math.log(1e8) / (2 * GROUPS))


def test_coverage_of_answered_and_relaxed_counts(tmp_path, monkeypatch):
    """Every group is used up in the same way, with noise of its own. 5 questions × 3 levels of
    false alarms at 1e-8 each.
    """
    monkeypatch.setattr("scumble.private.database.plan.MOST_RELAXED", GROUPS)
    random = np.random.default_rng(0)
    codes = random.integers(0, GROUPS, 30_000), random.integers(0, 10, 30_000)
    cells = np.zeros((GROUPS, 10), np.int64)
    np.add.at(cells, codes, 1)
    table = pa.table(dict(zip(("g", "n"), codes, strict=True)))
    asked = [(0, 3), (0, 6), (2, 9), (0, 4), (3, 8)]
    fates = []
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=1, noise=6) as db:
        for low, high in asked:
            sql = f"SELECT g, COUNT(*) FROM t WHERE n BETWEEN {low} AND {high} GROUP BY g"
            answers = db.answer(sql, relax="compound")
            fates.append(answers[0].status)
            regions = _regions(tmp_path / "db")
            true = [cells[g, first : last + 1].sum() for (g, _), (first, last) in regions]
            for level in LEVELS:
                held = [
                    lower <= count <= upper
                    for count, (lower, upper) in zip(
                        true, (each.interval(level) for _, each in answers), strict=True
                    )
                ]
                assert np.mean(held) > level - SLACK
    assert fates[:3] == ["answered"] * 3
    assert "relaxed" in fates[3:]


def test_too_many_relaxed_groups_are_refused(tmp_path):
    """One question must not keep all others waiting; nothing is charged for it."""
    table = pa.table({"g": [0, 1], "n": [0, 1]})
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=1, noise=2) as db:
        db.answer("SELECT COUNT(*) FROM t WHERE n < 5")
        given = db.status()["numbers given out"]
        with pytest.raises(sc.PromiseError, match="fewer groups"):
            db.answer("SELECT g, COUNT(*) FROM t WHERE n < 4 GROUP BY g")
        assert db.status()["numbers given out"] == given


def _regions(folder):
    """Of each group, what was really counted."""
    with Journal.open(folder) as journal:
        *_, last = journal.entries()
    return [group["pieces"][0]["region"] for group in last.payload["groups"]]


@pytest.mark.parametrize("noise", [Fraction(1, 3), Fraction(2), Fraction(25)])
@pytest.mark.parametrize("times", [1, 6, 50])
@pytest.mark.parametrize("terms", [1, 3])
def test_the_law_of_an_average_against_the_exact_one(noise, times, terms):
    """total - r · count has the noise of `terms` sums and r times that of `terms` counts. Its exact
    distribution, by convolution, is inside the reach with at least the level it is for.
    """
    of_total, of_count = (
        _summed(DiscreteLaplace(scale), terms) for scale in (noise * times, noise)
    )
    variances = [
        float(law @ (np.arange(len(law)) - len(law) // 2) ** 2) for law in (of_total, of_count)
    ]
    average = Average(0, 1, *variances, (terms, terms), 0, times)
    below = np.append(0, np.cumsum(of_total))
    middle, counts = len(of_total) // 2, np.arange(len(of_count)) - len(of_count) // 2
    for ratio in (0, 0.1, 0.5, 1, times / 2, times):
        for level in (0.5, 0.8, 0.9, 0.907, 0.95, 0.99, 0.999):
            reach = average.half_width(ratio, level)
            low = np.ceil(ratio * counts - reach).astype(int) + middle
            high = np.floor(ratio * counts + reach).astype(int) + middle + 1
            inside = below[np.clip(high, 0, len(of_total))] - below[np.clip(low, 0, len(of_total))]
            covered = float(of_count @ np.maximum(inside, 0))
            assert covered >= level
    assert average.half_width(times, 0.95) < 2.4 * math.sqrt(
        variances[0] + times**2 * variances[1] + terms * (1 + times**2) / 6
    ) + terms * (1 + times)


def _summed(law: DiscreteLaplace, terms: int) -> np.ndarray:
    """The probabilities of a sum of noises, from minus to plus some fifty scales."""
    half = math.ceil(50 * law.scale) + 5
    one = np.array([law.pmf(k) for k in range(-half, half + 1)])
    found = one
    for _ in range(terms - 1):
        found = fftconvolve(found, one).clip(0)
    return found / found.sum()


def test_an_average_that_may_be_of_nobody():
    """The interval is all that an average can be, and a note says so."""
    law = Average(30, 2, 800, 32, (1, 1), 0, 5)
    assert law.interval(law.value, 0.95)[0] == 0
    assert law.notes
    nobody = Average(30, 0, 800, 32, (1, 1), 0, 5)
    assert math.isnan(nobody.value)
    assert nobody.interval(nobody.value, 0.95) == (0, 5)
    assert nobody.notes


def test_averages_hold_the_truth(tmp_path):
    """600 averages, each with noise of its own; 1e-8 by Hoeffding's bound."""
    groups = 600
    random = np.random.default_rng(1)
    codes = random.integers(0, groups, 60_000), random.integers(0, 10, 60_000)
    table = pa.table(dict(zip(("g", "n"), codes, strict=True)))
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=1, noise=6) as db:
        answers = db.answer(f"SELECT g, AVG(n) FROM t WHERE g < {groups} GROUP BY g")
    counts = np.bincount(codes[0], minlength=groups)
    true = np.bincount(codes[0], codes[1], minlength=groups) / counts
    slack = math.sqrt(math.log(1e8) / (2 * groups))
    for level in LEVELS:
        limits = [each.interval(level) for _, each in answers]
        held = [low <= mean <= high for mean, (low, high) in zip(true, limits, strict=True)]
        assert np.mean(held) > level - slack
