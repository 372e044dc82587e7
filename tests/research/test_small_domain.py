"""The experiments on small domains: their closed forms, and the whole on a small scale."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from research import people, small_domain
from research.small_domain import (
    Laboratory,
    Outcome,
    Pool,
    Scale,
    estimates,
    frequencies,
    probabilities,
    study,
)
from research.small_domain_report import (
    _balance,
    _even,
    _fast,
    _near,
    _retention,
    evenness,
    panels,
    verdicts,
)
from scumble.families.anatomy.read import regression
from tests.support.terminal import research as command

TINY = Scale(3000, (50, 100), (6, 3), (10, 4), 25, 2)


@pytest.fixture(scope="module")
def table() -> people.People:
    return people.fictitious(3000, small_domain.MADE_UP)


def test_the_pool_is_the_papers(table):
    pool = Pool.drawn(replace(table, sensitive="occupation"), 600, 1)
    widths = np.bincount([len(condition) for condition in pool.conditions])
    assert widths[0] == 0
    # 600 draws of three equally likely numbers: seven deviations on either side, below 1e-10.
    assert (np.abs(widths[1:] - 200) < 7 * np.sqrt(600 * 2 / 9)).all()
    sizes = dict(zip(table.names, table.sizes, strict=True))
    assert all(
        name != "occupation" and 0 <= value < sizes[name]
        for condition in pool.conditions
        for name, value in condition.items()
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        sc.Uniform(rho1=0.2, rho2=0.5),
        sc.Partition(rho1=0.2, rho2=0.3),
        sc.Anatomy(l=3, suppress=True),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_estimates_are_those_of_the_releases(table, mechanism, monkeypatch):
    """The closed forms over the whole pool give what a release answers to each query.

    The paper reads Anatomy with values spread evenly within groups; so do the closed form, and a
    release without a regression.
    """
    monkeypatch.setattr(regression, "_MOST_VALUES", 0)
    people_ = replace(table, sensitive="occupation")
    release = sc.publish(
        people_.table, people_.schema, mechanism, options=sc.PublishOptions(seed=3)
    )
    pool = Pool.drawn(people_, 4, 2)
    found = estimates(release, pool)
    asked = []
    for condition in pool.conditions:
        words = " AND ".join(f"{name} = {value}" for name, value in condition.items())
        asked += [f"SELECT COUNT(*) FROM t WHERE {words} AND occupation = {x}" for x in range(5)]
    answers = [answer.value for answer in release.answer_many(asked)]
    assert answers == pytest.approx(found[:, :5].ravel().tolist(), abs=1e-6)


def test_true_answers(table):
    pool = Pool("occupation", 50, ({"sex": 1},))
    wanted = table.column("occupation")[table.column("sex") == 1]
    assert pool.counts(table.table).tolist() == [np.bincount(wanted, minlength=50).tolist()]


def test_the_relative_error_by_hand():
    outcome = Outcome(np.array([[11.0, 5.0, 90.0]]), np.array([[10, 0, 100]]), 1000, {}, 0.0)
    assert outcome.relative(0.01) == pytest.approx(0.1)
    assert outcome.relative(0.1) == pytest.approx(0.1)
    assert outcome.relative(0.5) is None


def test_table_1(table):
    """γ = 5: p = 4/(m + 4), q = 1/(m + 4), as the paper prints them."""
    rows = [row for row in probabilities(table) if row["attribute"] == "paper"]
    assert [round(100 * row["p"]) for row in rows] == [5, 5, 7, 22, 31, 36, 40, 67]
    assert [round(100 * row["q"]) for row in rows] == [1, 1, 2, 6, 8, 9, 10, 17]


def test_what_is_promised_of_both_attributes(table):
    laboratory = Laboratory(table, TINY, lambda _: None, even="occupation")
    rows = laboratory.sizes[-1]
    most = int(laboratory.counts("occupation", rows).max())
    assert laboratory.bound("occupation", rows) == Fraction(most, rows)
    assert laboratory.bound("education", rows) == Fraction(1, 30)
    uniform = laboratory.mechanism("UP", "education", rows, 10).parameters
    rare = [n for n in laboratory.counts("education", rows).tolist() if 30 * n <= rows]
    assert Fraction(uniform["rho1"]) == Fraction(max(rare), rows)


def test_the_study_is_whole(table):
    steps: list[str] = []
    found = dict(study(Laboratory(table, TINY, steps.append, even="occupation")))
    assert len(steps) == len(set(steps)) == 2 * 3 * (2 + 1 + 2 + 1)  # nothing is published twice
    assert list(found)[-1] == "figure 6"
    assert len(found["figure 6"]) == 50 + 10
    said = list(verdicts(found))
    assert len(said) == 14
    assert all(": agrees." in str(each) or ": differs" in str(each) for each in said)
    assert all(panels(name, rows) for name, rows in found.items() if name.startswith("figure"))


def test_verdicts_tell_agreement_from_difference():
    stats = [{"sub-tables": 10, "initial groups": 19, "mean m": 17.3, "values": 50, "mean γ": 2.6}]
    good = [{"L": 6, "γ": 2.5, "UP": 0.029, "PP": 0.09, "ratio": 3.1}]
    assert [each.agrees for each in _retention(good, stats)] == [True, True]
    poor = [good[0] | {"PP": 0.03, "ratio": 1.03}]
    assert [each.agrees for each in _retention(poor, stats)] == [False, True]

    def rows(partition: float, anatomy: float):
        errors = {"PP": partition, "UP": 1.0, "Ana": anatomy}
        return [
            {"method": m, "L": k, "rows": 9, "s = 0.1%": e * k, "s = 0.5%": e, "s = 1.0%": e / k}
            for k in (6, 3)
            for m, e in errors.items()
        ]

    assert [each.agrees for each in _even(rows(0.3, 0.5), [])][:2] == [True, True]
    assert [each.agrees for each in _even(rows(0.3, 0.2), [])][:2] == [True, False]
    assert [each.agrees for each in _even(rows(1.5, 2.0), [])][:2] == [False, True]


def test_frequencies(table):
    """Figure 6: the shares of each attribute add up to one, the largest first."""
    laboratory = Laboratory(table, TINY, lambda _: None, even="occupation")
    rows = list(frequencies(laboratory))
    for name, size in (("occupation", 50), ("education", 10)):
        shares = [row["share"] for row in rows if row["attribute"] == name]
        assert len(shares) == size
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares, reverse=True)
        assert shares[0] == np.bincount(table.column(name)).max() / table.rows


def test_verdicts_on_the_other_figures():
    def dots(partition: float, anatomy: float):
        return [
            {"method": m, "truth": 10, "estimate": 10 + sign * off}
            for m, off in (("PP", partition), ("UP", 9.0), ("Ana", anatomy))
            for sign in (-1, 1)
        ]

    assert [each.agrees for each in _near(dots(1, 2))] == [True]
    assert [each.agrees for each in _near(dots(3, 2))] == [False]
    even, skewed = [0.3, 0.3, 0.4], [0.9, 0.05, 0.05]
    rows = [{"attribute": "a", "share": s} for s in even]
    rows += [{"attribute": "b", "share": s} for s in skewed]
    assert [each.agrees for each in _balance(rows)] == [True]
    assert [each.agrees for each in _balance(rows[::-1])] == [False]
    seconds = [("a", "PP", 2.0), ("a", "Ana", 1.0), ("b", "PP", 40.0), ("b", "Ana", 0.5)]
    rows = [{"attribute": a, "method": m, "rows": 9, "seconds": s} for a, m, s in seconds]
    assert [each.agrees for each in _fast(rows)] == [False, True]


def test_evenness_by_hand():
    assert evenness([0.25] * 4) == pytest.approx(1)
    assert evenness([0.5, 0.5, 0, 0]) == pytest.approx(0.5)


def test_command(tmp_path, monkeypatch):
    """The command line on a small scale: figures, rows and one line for each verdict."""
    monkeypatch.setattr(small_domain, "QUICK", TINY)
    done = command("small-domain", "--quick", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert done.out.count("\n- ") == 14
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"figure-2-L.png", "figure-3.svg", "figure-6.png", "small-domain.json"} <= names
    content = json.loads((tmp_path / "out" / "small-domain.json").read_text("utf-8"))
    assert len(content["verdicts"]) == 14


def test_a_column_that_is_not_there():
    done = command("small-domain", "--quick", "--skewed", "height")
    assert done.code == 2
    assert "height" in done.err
