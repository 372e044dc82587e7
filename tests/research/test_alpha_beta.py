"""The experiment on αβ and FRAPP: its closed forms, and the whole on a small scale."""

from __future__ import annotations

import json
from itertools import product
from math import log, sqrt

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import scumble as sc
from research import alpha_beta, people
from research.alpha_beta import (
    METHODS,
    Laboratory,
    Scale,
    Selections,
    _errors,
    cumulative,
    panels,
    predicted,
    scatter,
    study,
    usefulness,
    verdicts,
)
from scumble.families.alphabeta.design import InclusionProbabilities, ReplacedTuples
from tests.support.terminal import research as command

TINY = Scale(people=300, runs=2, counts=(5.0, 10.0), bounds=(0.2, 0.4), dots=60)
COLUMNS = ("age", "sex", "region", "education", "condition")


@pytest.fixture(scope="module")
def table() -> people.People:
    return people.fictitious(300, COLUMNS)


def test_selections_count_rows_and_the_domain():
    sizes = (3, 2, 4, 2)
    codes = np.random.default_rng(1).integers(0, sizes, size=(50, 4))
    selections = Selections(sizes)
    everybody = np.array(list(product(*map(range, sizes))))
    assert selections.in_domain().tolist() == selections.counts(everybody).tolist()
    counts = selections.counts(codes)
    assert counts[:3].tolist() == [(codes[:, 0] == value).sum() for value in range(3)]
    assert counts[-1] == (codes[:, 1:] == [1, 3, 1]).all(axis=1).sum()
    assert counts.sum() == 50 * (4 + 6 + 4)


def test_the_bounds_of_the_paper():
    """Its ratio for k = 10 and γ = 0.2 is √20."""
    rho = usefulness(10, 0.2)
    assert rho["αβ"] == pytest.approx(2 * sqrt(2 * 40 * log(40)))
    assert rho["FRAPP"] / rho["αβ"] == pytest.approx(predicted(10, 0.2)) == pytest.approx(sqrt(20))


def test_estimates_are_those_of_the_releases(table):
    """The closed forms over all selections give what a release answers to one of them."""
    laboratory = Laboratory(table, TINY, lambda _: None)
    for method in METHODS:
        mechanism = laboratory.mechanism(method, 10, 0.2)
        release = sc.publish(
            table.table, table.schema, mechanism, options=sc.PublishOptions(seed=1)
        )
        found = laboratory.outcome(method, 10, 0.2, 0)
        asked = [f"SELECT COUNT(*) FROM t WHERE sex = {value}" for value in (0, 1)]
        values = [answer.value for answer in release.answer_many(asked)]
        start = table.sizes[0]
        assert values == pytest.approx(found.estimates[start : start + 2].tolist())


def test_the_noise_is_taken_off_by_its_mean(table):
    laboratory = Laboratory(table, TINY, lambda _: None)
    truth = laboratory.truths["FRAPP"]
    presence = ReplacedTuples(
        table.rows, sc.Frapp(reading="published", k=10, gamma=0.2).keep(table.schema)
    )
    keep = float(presence.keep)
    mean = keep * truth + table.rows * (1 - keep) * laboratory.domain / laboratory.whole
    assert laboratory.estimate(mean, presence) == pytest.approx(truth, abs=1e-6)
    some = InclusionProbabilities.from_dict(
        {
            "rows": table.rows, "kept": "1/2", "noise": "1/100", "multiplicity": 1,
            "sources": None, "most": 1, "views": 1, "fade": "1", "collapsed": True,
        }
    )  # fmt: skip
    truth = laboratory.truths["αβ"]
    mean = truth / 2 + (laboratory.domain - truth) / 100
    assert laboratory.estimate(mean, some) == pytest.approx(truth, abs=1e-6)


def test_the_study_is_whole(table):
    steps: list[str] = []
    found = dict(study(Laboratory(table, TINY, steps.append)))
    assert list(found) == ["setting", "figure 2", "figure 3", "relative", "parameters"]
    assert len(steps) == len(set(steps))  # nothing is published twice
    said = list(verdicts(found))
    assert len(said) == 7
    assert all(": agrees." in str(each) or ": differs" in str(each) for each in said)
    for name, rows in found.items():
        assert len(panels(name, rows)) == {"figure 2": 2, "figure 3": 1, "parameters": 2}.get(
            name, 0
        )


def test_scatter_and_cumulated_errors_are_of_the_same_outcomes(table):
    """Dots are pairs of the first run; the deviation of two runs is half their distance."""
    laboratory = Laboratory(table, TINY, lambda _: None)
    for method in METHODS:
        first, second = laboratory.runs(method, 10, 0.2)
        pairs = set(zip(first.truth.tolist(), first.estimates.tolist(), strict=True))
        rows = [row for row in scatter(laboratory) if row["method"] == method]
        assert len(rows) == TINY.dots
        assert all((row["truth"], row["estimate"]) in pairs for row in rows)
        whole = next(iter(cumulative(laboratory)))
        means = first.errors.mean(), second.errors.mean()
        assert whole[method] == pytest.approx(sum(means) / 2)
        assert whole[f"± {method}"] == pytest.approx(abs(means[0] - means[1]) / 2)


def test_verdicts_tell_agreement_from_difference():
    row = {"Q(I) at least": 0, "selections": 9, "FRAPP": 43.0, "αβ": 10.0, "ratio": 4.3}
    far = {"Q(I) at least": 500, "selections": 3, "FRAPP": 520.0, "αβ": 120.0, "ratio": 4.3}
    errors = list(_errors([row, far]))
    assert [each.agrees for each in errors] == [True, True]
    errors = list(_errors([row | {"ratio": 2.0}, far | {"αβ": 200.0}]))
    assert [each.agrees for each in errors] == [False, False]


def test_command(tmp_path, monkeypatch):
    """A table of one's own, on a small scale: figures, rows and one line for each verdict."""
    generator = np.random.default_rng(2)
    columns = {f"c{k}": generator.integers(0, 9, 300) for k in range(6)}
    csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    monkeypatch.setattr(alpha_beta, "QUICK", TINY)
    out = tmp_path / "out"
    words = ("--quick", "--data", tmp_path / "t.csv", "--columns", "c0,c1,c2,c3,c4,c5", "-o", out)
    done = command("alpha-beta", *words)
    assert done.code == 0, done.err
    assert done.out.count("\n- figure ") + done.out.count("\n- section ") == 7
    names = {path.name for path in out.iterdir()}
    figures = ("figure-2", "figure-3", "parameters")
    assert {f"{name}.{end}" for name in figures for end in ("png", "svg")} < names
    content = json.loads((out / "alpha-beta.json").read_text("utf-8"))
    assert content["rows"]["setting"][0]["selections"] == 6 * 9 + 15 * 81 + 20 * 729
