"""Aroma's rivals: averages, times, and the adaptive mechanism, against what is known of them."""

from __future__ import annotations

from itertools import product
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad

import scumble as sc
from research import people
from research.aroma.adaptive import (
    DELTA,
    Adaptive,
    Count,
    CountGrid,
    deviation_for,
    folded,
    released,
    success,
)
from research.aroma.rivals import _questions, average_deviation, ratios, times
from research.aroma.verdicts import _averages, _count, _levels, _same, _sizes, _times
from research.aroma.views import MADE_UP, Laboratory, Scale, View, publish, weights

NORMAL = NormalDist()
TINY = Scale(1200, 3, (100,), (20, 49), epsilons=(1.0,), timed=300)


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    return Laboratory(people.fictitious(1200, MADE_UP), TINY, lambda _: None)


@pytest.fixture(scope="module")
def count() -> Count:
    """Two people are over 30 and have value 1, the second most frequent."""
    years = np.array([20.0, 25, 30, 31, 34, 58, 60, 60])
    secrets = np.array([0, 0, 1, 1, 0, 1, 0, 2])
    return Count(years, secrets, 3)


# --- the adaptive mechanism
# ------------------------------------------------------------------------------------


def test_its_noise_keeps_its_promise():
    """The exact δ of normal noise round sums that move by 1 is below the one promised."""
    adaptive = Adaptive.of(np.eye(3))
    for epsilon in (0.1, 0.2, 0.5, 1.0):
        sigma = adaptive.deviation(epsilon) / adaptive.length
        near, far = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        assert NORMAL.cdf(near) - exp(epsilon) * NORMAL.cdf(far) < DELTA


def test_errors_of_known_batches():
    """Cells alone, and one sum alone, have the noise of one count; a row moves sums by 1."""
    cells = Adaptive.of(np.eye(4))
    assert cells.error(np.eye(4)[2], cells.deviation(1)) == pytest.approx(4.4505, abs=1e-3)
    whole = np.array([1.0, 1, 1, 0])
    one = Adaptive.of(whole[None, :])
    assert one.error(whole, one.deviation(1)) == pytest.approx(4.4505, rel=2e-3)


def test_estimates_have_the_mean_and_the_error_they_should():
    """Over 400 seeds the mean is within six standard errors (2e-9), and the squared error, which
    has a relative deviation of √(2/400), within seven of those (3e-12).
    """
    batch = np.array([[1.0, 1, 0], [0, 1, 1], [1, 1, 1]])
    adaptive = Adaptive.of(batch)
    counts, question = np.array([40, 7, 900]), np.array([1.0, 0, 1])
    deviation = adaptive.deviation(1.0)
    found = np.array([question @ adaptive.cells(counts, deviation, s) for s in range(400)])
    error = adaptive.error(question, deviation)
    assert abs(found.mean() - 940) < 6 * error / 20
    assert abs(((found - 940) ** 2).mean() / error**2 - 1) < 7 * sqrt(2 / 400)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 9.0])
def test_success_of_the_best_guess(sigma):
    """Columns at right angles: ∫ φ(t) Φ(t + 1/σ)^(d−1) dt. One column and nothing else: twice
    Φ(1/2σ), over d. 140,000 guesses in 10,000 draws; six deviations of as many draws, 2e-9.
    """
    d = 14
    wanted, _ = quad(lambda t: NORMAL.pdf(t) * NORMAL.cdf(t + 1 / sigma) ** (d - 1), -9, 9)
    slack = 6 * sqrt(wanted * (1 - wanted) / 10_000)
    assert abs(success(np.eye(d), sigma) - wanted) < slack
    alone = np.zeros((d, d))
    alone[0, 0] = 1
    wanted = 2 * NORMAL.cdf(1 / (2 * sigma)) / d
    assert abs(success(alone, sigma) - wanted) < 6 * sqrt(wanted * (1 - wanted) / 10_000)


def test_the_noise_for_an_exposure():
    deviation = deviation_for(4 * np.eye(10), 0.2)
    assert success(4 * np.eye(10), deviation) == pytest.approx(0.2, abs=1e-3)
    assert success(4 * np.eye(10), 2 * deviation) < 0.17


# --- one count
# ------------------------------------------------------------------------------------


def test_the_count_by_hand(count):
    assert (count.value, count.truth, int(count.over.sum())) == (1, 2, 5)
    view = View(np.zeros((8, 3)), (np.array([1.0, 4, 1]), np.array([2.0, 3, 2])), 0.5)
    assert count.expected(view) == pytest.approx(sqrt(2 / np.pi * (2 * 4 + 3 * 3)) / 2)
    assert count.errors([view]) == [1.0]


def test_a_count_of_nobody_is_refused(laboratory, monkeypatch):
    monkeypatch.setattr(laboratory, "years", np.zeros(laboratory.rows))
    with pytest.raises(sc.ParameterError, match="Nobody over 30"):
        Count.of(laboratory)


def test_cells_of_decades_and_of_even_ranges(count):
    decades = CountGrid.decades(count)
    assert decades.edges.tolist() == [11, 21, 31, 41, 51, 61]
    assert decades.places.tolist() == [0, 1, 1, 2, 2, 4, 4, 4]
    assert decades.question @ decades.counts == 2
    assert decades.batch.shape == (15 * 3, 5 * 3)
    assert (decades.batch == decades.question).all(axis=1).sum() == 1
    even = CountGrid.even(count)
    assert even.edges[:3].tolist() == [20, 25.125, 30.25]
    # The range from 30.25 to 35.375 has two such people; 31 and more are 4.375 of its 5.125 years.
    assert even.question @ even.counts == pytest.approx(4.375 / 5.125 * 1 + 1)


def test_the_mean_of_a_folded_normal_number():
    assert folded(0, 3) == pytest.approx(3 * sqrt(2 / np.pi))
    wanted, _ = quad(lambda t: abs(2 + 3 * t) * NORMAL.pdf(t), -10, 10, points=[-2 / 3])
    assert folded(2, 3) == pytest.approx(wanted)
    assert folded(100, 1) == pytest.approx(100)


def test_errors_of_cells_are_what_theory_says(count):
    """Mean |error| of 300 seeds against theory: its deviation is 0.76 of the mean over √300; seven
    of those, below 1e-11.
    """
    grid = CountGrid.decades(count)
    adaptive = Adaptive.of(grid.batch)
    deviation = adaptive.deviation(1.0)
    found = np.mean(grid.errors(adaptive, deviation, range(300)))
    assert abs(found / grid.expected(adaptive, deviation) - 1) < 7 * 0.76 / sqrt(300)


def test_the_release_of_a_workload_answers_the_count(laboratory):
    """With ε = 50 the noise is a row or so: the count comes out, within six deviations (2e-9)."""
    count = Count.of(laboratory)
    row = released(laboratory, count, 50.0)
    assert row["theory"] * count.truth < 2
    assert row["error"] < 6 * row["theory"] * sqrt(np.pi / 2)


# --- averages
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [sc.Aroma(k=9), sc.Uniform(keep=0.5), sc.Subset(epsilon=1)], ids=lambda m: m.name
)
def test_averages_are_those_of_the_releases(mechanism):
    secrets = np.random.default_rng(3).integers(0, 4, 500)
    release = publish(secrets, 4, mechanism, 4)
    asked = [f"SELECT AVG(place) FROM t WHERE secret = {value}" for value in range(4)]
    answers = np.array([answer.value for answer in release.answer_many(asked)])
    known = ~np.isnan(answers)  # of the others there are too few people
    assert known.sum() >= 3
    assert ratios(weights(release), np.arange(500.0))[known] == pytest.approx(answers[known])


def test_averages_of_the_truth_and_their_limits():
    truth = np.eye(3)[[0, 0, 1]]
    years = np.array([20.0, 40, 70])
    assert ratios(truth, years).tolist() == [30, 70, pytest.approx(130 / 3)]
    assert ratios(truth - 0.45, years).min() >= 20


def test_the_deviation_of_an_average_by_enumeration():
    """Uniform perturbation of three people's values: the exact variance of Σ w (age − mean)."""
    secrets, years = np.array([0, 0, 1]), np.array([20.0, 44, 80])
    release = publish(secrets, 3, sc.Uniform(keep=0.25), 1)
    view = View.of(release)
    truth = np.eye(3)[secrets]
    law = 0.25 * np.eye(3) + 0.75 / 3
    unmix = np.linalg.inv(law)
    for value, mean, people_ in ((0, 32, 2), (1, 80, 1)):
        moments = np.zeros(2)
        for shown in product(range(3), repeat=3):
            odds = np.prod([law[secret, seen] for secret, seen in zip(secrets, shown, strict=True)])
            pairs = zip(shown, years, strict=True)
            total = sum(unmix[seen, value] * (age - mean) for seen, age in pairs)
            moments += odds * np.array([total, total**2])
        exact = sqrt(moments[1] - moments[0] ** 2) / people_
        assert average_deviation(view, truth, years)[value] == pytest.approx(exact)


# --- times and verdicts
# ------------------------------------------------------------------------------------


def test_times_are_told_for_every_method(laboratory):
    rows = list(times(laboratory))
    assert [row["method"] for row in rows] == ["FRAPP", "Aroma", "Aroma, n = 4 m"] * 2
    assert all(row["rows"] == 300 and row["publish, s"] > 0 for row in rows)
    assert all(row["answer / FRAPP"] == 1 for row in rows if row["method"] == "FRAPP")
    assert rows[0]["bytes a row"] < rows[4]["bytes a row"]
    assert len(set(_questions(300, 15))) == 10


def _rows(**errors: tuple[float, ...]) -> list[dict[str, object]]:
    """Rows of methods, for k = 4, 9 and so on."""
    return [
        {"k": (place + 2) ** 2, "ε": 0.2 + place, "method": name.replace("_", " ").strip(),
         "error": error, "theory": error, "exposure": 0.1}
        for name, values in errors.items()
        for place, error in enumerate(values)
    ]  # fmt: skip


def test_verdicts_on_averages_and_times():
    rows = _rows(Aroma=(1, 2), FRAPP=(4, 12), uniform=(2, 4), subset=(0.9, 1.7))
    assert [each.agrees for each in _averages(rows)] == [True, True, False]
    poor = _rows(Aroma=(1, 2), FRAPP=(1.2, 12), uniform=(2, 4), subset=(0.9, 1.7))
    assert [each.agrees for each in _averages(poor)] == [False, True, False]
    row = {"method": "Aroma", "k": 20, "bytes a row": 5.0, "publish / FRAPP": 4.0}
    assert [each.agrees for each in _times([row | {"answer / FRAPP": 1.4}])] == [True]
    assert [each.agrees for each in _times([row | {"answer / FRAPP": 4.0}])] == [False]


def test_verdicts_on_tuples_and_replacement():
    """√k is 2 and 3."""
    rows = _rows(Aroma=(1, 2), αβ=(1.5, 2.5), FRAPP=(2, 6.2))
    assert [each.agrees for each in _sizes(rows)] == [True]
    assert [each.agrees for each in _levels(rows)] == [True]
    rows = _rows(Aroma=(1, 2), αβ=(1.5, 1.9), FRAPP=(2, 2))
    assert [each.agrees for each in _sizes(rows)] == [False]
    assert [each.agrees for each in _levels(rows)] == [False]


def test_verdicts_on_the_adaptive_mechanism():
    rivals = {"uniform": (0.5, 0.1), "subset": (0.3, 0.1), "AM, batch": (0.01, 0.01)}
    rows = _rows(Aroma=(0.08, 0.05), AM=(0.2, 0.06), **{"AM, other ends": (0.1, 0.1)}, **rivals)
    rows = [row | {"ε": 0.2 if row["k"] == 4 else 1.0} for row in rows]
    rows.sort(key=lambda row: row["ε"])
    assert [each.agrees for each in _count(rows)] == [True, True, True]
    fewer = [row | {"theory": 0.001} if row["method"] == "AM" else row for row in rows]
    assert [each.agrees for each in _count(fewer)] == [True, False, False]
    same = _rows(Aroma=(0.1, 0.2), **{"AM, batch": (0.001, 0.002)})
    [verdict] = _same(same)
    assert not verdict.agrees
    assert "0.010 to 0.010 of Aroma's error" in verdict.measured
