"""The experiments on Aroma: their closed forms, and the whole on a small scale."""

from __future__ import annotations

import json
from math import exp, sqrt

import numpy as np
import pytest

import scumble as sc
from research import people
from research.aroma import experiments
from research.aroma.experiments import again, deviation, sizes_for_loss, study
from research.aroma.panels import panels
from research.aroma.rivals import Ranges, loss_for, noise_for
from research.aroma.verdicts import _again, _output, verdicts
from research.aroma.views import (
    MADE_UP,
    Laboratory,
    Scale,
    expected,
    exposed,
    publish,
    tuple_counts,
    uniform_pool,
    weights,
)
from scumble.families.aroma.design import pool_exposure, profile
from scumble.families.randomised_response.check import subset_exposure
from scumble.model.privacy.guarantee import epsilon_for_exposure
from tests.support.terminal import research as command

TINY = Scale(
    people=1500,
    runs=2,
    sizes=(100, 500, 1000),
    levels=(20, 49),
    shares=(0.2, 0.5),
    epsilons=(0.5, 1.0),
    queries=80,
    bags=500,
    rivals=300,
    timed=600,
)


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    return Laboratory(people.fictitious(1500, MADE_UP), TINY, lambda _: None)


def test_what_is_really_true_of_the_papers_k():
    """k = 49 of 15 values: δ(0.5) = 0.1668, δ(1) = 0.0858, exposure 0.137 above 0.105."""
    law = uniform_pool(49)
    assert profile(law, (0.5, 1.0)) == pytest.approx((0.1668, 0.0858), abs=5e-5)
    assert pool_exposure(law) == pytest.approx(0.137, abs=5e-4)
    rows = {row["ε"]: row for row in sizes_for_loss()}
    assert rows[0.5]["k"] == 50
    assert rows[0.5]["allowed by ε-DP"] == pytest.approx(exp(0.5) / (exp(0.5) + 14))
    assert all(row["exposure"] > row["allowed by ε-DP"] for row in rows.values())


def test_drawing_again(laboratory):
    """What is drawn is near the exact share: 500 draws, seven deviations, below 1e-10."""
    for row in again(laboratory):
        slack = 7 * sqrt(max(row["exact"] * (1 - row["exact"]), 1 / 500) / 500)
        assert abs(row["measured"] - row["exact"]) < slack
        assert row["exact"] <= row["Theorem 4.1"] + 1e-9


@pytest.mark.parametrize(
    "mechanism",
    [
        sc.Aroma(k=9),
        sc.Aroma(k=9, pool=[5, *[1] * 14]),
        sc.Uniform(epsilon=1),
        sc.Subset(epsilon=1),
    ],
    ids=["aroma", "pool", "uniform", "subset"],
)
def test_weights_are_those_of_the_releases(mechanism):
    secrets = np.random.default_rng(1).integers(0, 15, 300)
    release = publish(secrets, 15, mechanism, 4)
    found = weights(release)
    asked = ["secret = 3", "secret = 0 AND place < 100"]
    answers = release.answer_many([f"SELECT COUNT(*) FROM t WHERE {words}" for words in asked])
    wanted = [found[:, 3].sum(), found[:100, 0].sum()]
    assert [answer.value for answer in answers] == pytest.approx(wanted)


def test_tuples_are_those_of_the_release():
    secrets = np.random.default_rng(1).integers(0, 5, 200)
    release = publish(secrets, 5, sc.AlphaBeta(alpha=0.45, beta=0.05), 4, spread=3)
    asked = [f"SELECT COUNT(*) FROM t WHERE secret = {value}" for value in range(5)]
    values = [answer.value for answer in release.answer_many(asked)]
    assert values == pytest.approx(tuple_counts(release).tolist())


def test_expected_errors_by_hand():
    secrets = np.arange(100) % 5
    truth = np.bincount(secrets)
    normal = sqrt(2 / np.pi)
    bags = publish(secrets, 5, sc.Aroma(k=9), 1)
    assert expected(bags, truth) == pytest.approx(normal * deviation(9, 100, 0.2))
    kept = publish(secrets, 5, sc.Uniform(keep=0.5), 1)
    variance = (20 * 0.6 * 0.4 + 80 * 0.1 * 0.9) / 0.25
    assert expected(kept, truth) == pytest.approx(normal * sqrt(variance))
    tuples = publish(secrets, 5, sc.AlphaBeta(alpha=0.4, beta=0.1), 1, spread=2)
    variance = (20 * 0.25 + 180 * 0.09) / 0.16
    assert expected(tuples, truth) == pytest.approx(normal * sqrt(variance))


def test_the_noise_for_an_exposure():
    """The release that it makes has the exposure asked for; for 0.513 of 20 values β is 0.0023."""
    noise = noise_for(0.15, 15)
    release = publish(np.arange(30) % 15, 15, sc.AlphaBeta(alpha=0.5 - noise, beta=noise), 1)
    assert exposed(release).success == pytest.approx(0.15)
    assert noise_for(0.513, 20) == pytest.approx(0.002325, rel=0.1)


def test_the_loss_for_an_exposure():
    """Subsets with that ε are exposed no more, and with a little more they would be."""
    schema = sc.Schema((sc.Attribute("secret", "sensitive", sc.IntegerRange(0, 14)),))
    epsilon = loss_for(0.137, 15)
    assert subset_exposure(sc.Subset(epsilon=epsilon).law(schema)) <= 0.137
    assert subset_exposure(sc.Subset(epsilon=epsilon + 0.01).law(schema)) > 0.137
    assert epsilon > epsilon_for_exposure(0.137, 15)


def test_popularity_of_ranges(laboratory):
    ranges = Ranges(laboratory)
    counts = np.zeros((laboratory.values, laboratory.rows), int)
    for start, value in zip(ranges.starts, ranges.values, strict=True):
        counts[value, start : start + ranges.size] += 1
    popularity = ranges.popularity(laboratory)
    assert popularity[-1] == counts.max()
    assert popularity[0] == 1
    assert (np.diff(popularity) >= 0).all()


def test_verdicts_tell_agreement_from_difference():
    rows = [
        {"varied": varied, "k": 35, "exact": exact, "Theorem 4.1": 0.5}
        for varied, exact in (("k", 0.005), ("n", 0.01), ("n", 0.2))
    ]
    assert [each.agrees for each in _again(rows)] == [True, True, True]
    rows[0]["exact"] = 0.6  # beyond the bound
    assert [each.agrees for each in _again(rows)] == [False, False, True]
    growing = [
        {"queries": n, "people in a query": 9, "output perturbation": n, "Aroma": 50.0}
        for n in (10, 100)
    ]
    losses = [{"ε": 0.5, "k": 49, "first query": 4, "middle": 9, "last": 88, "Aroma": 32}]
    assert [each.agrees for each in _output(growing, losses)] == [True, True]
    assert [each.agrees for each in _output(growing[:1], [losses[0] | {"Aroma": 99}])] == [
        False,
        False,
    ]


@pytest.fixture(scope="module")
def found(laboratory) -> experiments.Study:
    return dict(study(laboratory))


@pytest.mark.slow
def test_the_study_is_whole(found):
    said = list(verdicts(found))
    assert len(said) == 24
    assert all(": agrees." in str(each) or ": differs" in str(each) for each in said)
    assert all(panels(name, rows) for name, rows in found.items())
    errors = found["figure 9"]
    assert [row["method"] for row in errors] == ["Aroma", "αβ", "FRAPP"] * 2
    assert all(row["deviation"] >= 0 and row["theory"] > 0 for row in errors)
    sizes = [row["q"] for row in found["figure 8"]]
    assert sizes == [100, 100, 500, 500, 1000, 1000]
    same = found["one count, equal exposure"]
    assert same[1]["exposure"] == pytest.approx(same[0]["exposure"], abs=0.001)


@pytest.mark.slow
def test_command(tmp_path, monkeypatch, found):
    """The command line: figures, rows and one line for each verdict."""
    monkeypatch.setattr(experiments, "study", lambda _: iter(found.items()))
    done = command("aroma", "--quick", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert done.out.count("\n- ") == 24
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"figure-4.png", "figure-10.svg", "equal-exposure.png", "aroma.json"} <= names
    content = json.loads((tmp_path / "out" / "aroma.json").read_text("utf-8"))
    assert len(content["verdicts"]) == 24


def test_a_first_column_without_numbers():
    done = command("aroma", "--quick", "--columns", "region,condition")
    assert done.code == 2
    assert "must be an age" in done.err


def test_columns_that_do_not_fit():
    done = command("aroma", "--quick", "--columns", "age,sex,condition")
    assert done.code == 2
    assert "two names" in done.err
