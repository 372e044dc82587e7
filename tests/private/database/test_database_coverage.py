"""Intervals hold the truth as often as they say, about the region that was really counted."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.signal import fftconvolve

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.database.answers import Average, Weights
from scumble.private.journal.journal import Journal
from tests.support.database.small_database import database

GROUPS = 640
SCHEMA = sc.Schema(
    [
        sc.Attribute("g", "quasi", sc.IntegerRange(0, GROUPS - 1)),
        sc.Attribute("n", "quasi", sc.IntegerRange(0, 9)),
    ]
)
LEVELS = (0.5, 0.8, 0.95)
# Fewer of 640 independent intervals hold the truth less than once in 10^6 times. These are 260 at
# level 0.5 (a share of 0.406), 462 at 0.8 (0.722), 579 at 0.95 (0.905).
LEAST = {level: stats.binom.ppf(1e-6, GROUPS, level) for level in LEVELS}


def test_coverage_of_answered_and_relaxed_counts(tmp_path, monkeypatch):
    """Every group is used up in the same way, with noise of its own. 5 questions × 3 levels of
    false alarms at 1e-6 each.
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
            answers = db.answer(sql, options=sc.AskOptions(relax="compound"))
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
                assert sum(held) >= LEAST[level]
    assert fates[:3] == ["answered"] * 3
    assert "relaxed" in fates[3:]


@pytest.mark.parametrize(
    ("epsilon", "asked", "relaxed", "squares"),
    [
        (0.34, [(0, 3), (4, 6)], (0, 6), 2),
        (1, [(0, 3), (0, 6), (0, 9), (4, 9)], (4, 6), 5 / 3),
    ],
    ids=["a sum", "a weighted sum"],
)
def test_coverage_of_exact_combinations(epsilon, asked, relaxed, squares, tmp_path, monkeypatch):
    """Earlier answers add up to what is asked, by noise of their own in every group. 2 cases × 3
    levels of false alarms at 1e-6 each.
    """
    monkeypatch.setattr("scumble.private.database.plan.MOST_RELAXED", GROUPS)
    monkeypatch.setattr("scumble.private.database.relaxation.MOST", 32)  # only to save time
    random = np.random.default_rng(2)
    codes = random.integers(0, GROUPS, 30_000), random.integers(0, 10, 30_000)
    table = pa.table(dict(zip(("g", "n"), codes, strict=True)))
    ask = "SELECT g, COUNT(*) FROM t WHERE n BETWEEN {} AND {} GROUP BY g"
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=epsilon, noise=6) as db:
        for ends in asked:
            assert {each.status for _, each in db.answer(ask.format(*ends))} == {"answered"}
        answers = [each for _, each in db.answer(ask.format(*relaxed))]
    assert {(each.status, each.distance) for each in answers} == {("relaxed", 0)}
    one = DiscreteLaplace(Fraction(6)).variance
    assert answers[0].stderr ** 2 == pytest.approx(squares * one)
    inside = (relaxed[0] <= codes[1]) & (codes[1] <= relaxed[1])
    true = np.bincount(codes[0][inside], minlength=GROUPS)
    for level in LEVELS:
        limits = [each.interval(level) for each in answers]
        held = [low <= rows <= high for rows, (low, high) in zip(true, limits, strict=True)]
        assert sum(held) >= LEAST[level]


def test_too_many_relaxed_groups_are_refused(tmp_path):
    """One question must not keep all others waiting; nothing is charged for it."""
    table = pa.table({"g": [0, 1], "n": [0, 1]})
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=1, noise=2) as db:
        db.answer("SELECT COUNT(*) FROM t WHERE n < 5")
        given = db.status().numbers
        with pytest.raises(sc.PromiseError, match="fewer groups"):
            db.answer("SELECT g, COUNT(*) FROM t WHERE n < 4 GROUP BY g")
        assert db.status().numbers == given


def _regions(folder):
    """Of each group, what was really counted."""
    with Journal.open(folder) as journal:
        *_, last = journal.entries()
    return [group["pieces"][0]["region"] for group in last.payload["groups"]]


def test_the_law_of_an_average_against_the_exact_one(subtests):
    """total - r · count has the noise of `terms` sums and r times that of `terms` counts. Its exact
    distribution, by convolution, is inside the reach with at least the level it is for.
    """
    scales = Fraction(1, 3), Fraction(2), Fraction(25)
    for noise, times, terms in product(scales, [1, 6, 50], [1, 3]):
        with subtests.test(noise=noise, times=times, terms=terms):
            of_total, of_count = (
                _summed(DiscreteLaplace(scale), terms) for scale in (noise * times, noise)
            )
            variances = [
                float(law @ (np.arange(len(law)) - len(law) // 2) ** 2)
                for law in (of_total, of_count)
            ]
            weights = [Weights(terms, terms, variance) for variance in variances]
            average = Average(0, 1, *weights, 0, times)
            below = np.append(0, np.cumsum(of_total))
            middle, counts = (
                len(of_total) // 2,
                np.arange(len(of_count)) - len(of_count) // 2,
            )
            for ratio in (0, 0.1, 0.5, 1, times / 2, times):
                for level in (0.5, 0.8, 0.9, 0.907, 0.95, 0.99, 0.999):
                    reach = average.half_width(ratio, level)
                    low = np.ceil(ratio * counts - reach).astype(int) + middle
                    high = np.floor(ratio * counts + reach).astype(int) + middle + 1
                    inside = (
                        below[np.clip(high, 0, len(of_total))]
                        - below[np.clip(low, 0, len(of_total))]
                    )
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
    law = Average(30, 2, Weights(1, 1, 800), Weights(1, 1, 32), 0, 5)
    assert law.interval(law.value, 0.95)[0] == 0
    assert law.notes
    nobody = Average(30, 0, Weights(1, 1, 800), Weights(1, 1, 32), 0, 5)
    assert math.isnan(nobody.value)
    assert nobody.interval(nobody.value, 0.95) == (0, 5)
    assert nobody.notes


def test_averages_hold_the_truth(tmp_path):
    """Averages, each with noise of its own; 3 levels of false alarms at 1e-6 each."""
    random = np.random.default_rng(1)
    codes = random.integers(0, GROUPS, 60_000), random.integers(0, 10, 60_000)
    table = pa.table(dict(zip(("g", "n"), codes, strict=True)))
    with database(tmp_path / "db", table, schema=SCHEMA, epsilon=1, noise=6) as db:
        answers = db.answer("SELECT g, AVG(n) FROM t GROUP BY g")
    counts = np.bincount(codes[0], minlength=GROUPS)
    true = np.bincount(codes[0], codes[1], minlength=GROUPS) / counts
    for level in LEVELS:
        limits = [each.interval(level) for _, each in answers]
        held = [low <= mean <= high for mean, (low, high) in zip(true, limits, strict=True)]
        assert sum(held) >= LEAST[level]
