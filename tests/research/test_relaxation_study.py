"""The experiments on relaxation: their parts exactly, and the whole on a small scale."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from research.relaxation import experiments
from research.relaxation.experiments import FULL, Laboratory, Scale, bounds, study
from research.relaxation.simulation import PAPER, Setting, run
from research.relaxation.survey import DOMAIN_SIZES, Survey, read, synthetic, volumes, workload
from research.relaxation.verdicts import verdicts
from tests.support.terminal import research as command

TINY = Scale(people=3000, queries=120, noise=40, buckets=(4, 16, 64), sample=5)


@pytest.fixture(scope="module")
def survey() -> Survey:
    return synthetic(3000)


@pytest.fixture(scope="module")
def small() -> Survey:
    """Few points, so that popularity can be counted at each."""
    codes = np.random.default_rng(5).integers(0, [9, 7, 5], size=(200, 3))
    return Survey(("a", "b", "c"), (9, 7, 5), codes)


def inside(survey: Survey, box: np.ndarray) -> np.ndarray:
    return ((survey.codes >= box[:, 0]) & (survey.codes <= box[:, 1])).all(axis=1)


def test_the_survey_has_the_papers_sizes(survey):
    assert survey.sizes == DOMAIN_SIZES == (79, 14, 23, 100)
    assert (survey.codes >= 0).all()
    assert (survey.codes < DOMAIN_SIZES).all()
    assert survey.space.points == 79 * 14 * 23 * 100


def test_counts_are_true(survey):
    boxes = workload(survey, "uniform", volume=0.2, count=30, seed=3)
    boxes[0] = survey.space.whole
    assert survey.counts(boxes).tolist() == [inside(survey, box).sum() for box in boxes]


def test_a_file_is_coded_in_the_order_of_its_values(tmp_path):
    table = pa.table({"a": [30, 10, 20, 10], "b": ["y", "x", None, "x"], "c": [1, 2, 3, 4]})
    csv.write_csv(table, tmp_path / "t.csv")
    found = read(tmp_path / "t.csv", ["a", "b"])
    assert found.codes.tolist() == [[1, 1], [0, 0], [0, 0]]
    assert found.sizes == (2, 2)


@pytest.mark.parametrize("centres", ["data", "uniform"])
@pytest.mark.parametrize("edges", ["cut", "moved"])
def test_queries_are_the_papers(survey, centres, edges):
    boxes = workload(survey, centres, volume=0.04, count=500, seed=1, edges=edges)
    whole = survey.space.whole
    assert (boxes[:, :, 0] >= 0).all()
    assert (boxes[:, :, 1] <= whole[:, 1]).all()
    assert ((boxes == whole).all(axis=2).sum(axis=1) == 2).all()
    restricted = (boxes != whole).any(axis=2)
    lengths = boxes[:, :, 1] - boxes[:, :, 0]
    most = np.broadcast_to(0.2 * (np.array(DOMAIN_SIZES) - 1), lengths.shape)
    assert (lengths[restricted] <= most[restricted]).all()
    if edges == "moved":
        assert len({tuple(each) for each in lengths.tolist()}) == 6  # one for each pair
    assert 0.03 < volumes(boxes, survey).mean() < 0.045


def test_lemma_3():
    assert bounds(Fraction(3, 10), 2000, 0.04) == pytest.approx((7812.5, 15000))


@pytest.mark.parametrize("tracker", ["exact", "histogram", "disjoint", PAPER])
def test_no_point_is_covered_more_often_than_allowed(small, tracker):
    boxes = workload(small, "uniform", volume=0.3, count=150, seed=2)
    outcome = run(small, boxes, Setting(tracker, buckets=40, noise=40))
    popularity = np.zeros(small.sizes, int)
    for box in outcome.boxes:
        popularity[tuple(slice(low, high + 1) for low, high in box)] += 1
    assert popularity.max() <= Setting(noise=40).limit == 6
    assert outcome.capacity + len(outcome.relaxed) == len(boxes)
    assert len(outcome.noises) == len(outcome.boxes) >= outcome.capacity


def test_relaxed_answers_add_up(small):
    """Sums and differences of the true counts of a compound are the true count of its region."""
    boxes = workload(small, "data", volume=0.3, count=150, seed=4)
    outcome = run(small, boxes, Setting("exact", noise=40))
    truth = small.counts(outcome.boxes)
    assert any(each.compound.size > 1 for each in outcome.relaxed)
    for each in outcome.relaxed:
        total = sum(sign * truth[answer] for answer, sign in each.compound.signs().items())
        assert total == small.counts(each.compound.region[np.newaxis])[0]
        assert all(answer < each.known for answer in each.compound.signs())


def test_the_same_seed_gives_the_same_outcome(small):
    boxes = workload(small, "uniform", volume=0.3, count=60, seed=1)
    one, other = (run(small, boxes, Setting("exact", noise=40)) for _ in range(2))
    assert (one.noises == other.noises).all()
    assert (one.boxes == other.boxes).all()


def test_the_study_is_whole(survey):
    steps: list[str] = []
    found = dict(study(Laboratory(survey, TINY, steps.append)))
    assert list(found) == [
        *(f"figure {k}" for k in range(11, 17)),
        "edges",
        "regression",
        "repeats",
    ]
    assert len(steps) == len(set(steps))  # nothing is run twice
    exact = {r["centres"]: r["answered"] for r in found["figure 11"] if r["tracker"] == "exact"}
    for row in found["figure 11"]:
        assert row["answered"] <= min(row["submitted"], row["bound (4)"])
        if row["tracker"] == "disjoint":
            assert row["answered"] <= exact[row["centres"]]
    said = [str(each) for each in verdicts(found, TINY)]
    assert len(said) == 22
    assert all(": agrees." in each or ": differs" in each for each in said)


def test_the_papers_parameters():
    setting = FULL.setting()
    assert (FULL.people, FULL.queries, setting.noise, setting.buckets) == (
        10**6,
        20_000,
        2000,
        10**5,
    )
    assert (setting.limit, setting.most) == (300, 3)


def test_command(tmp_path, monkeypatch):
    """The command line on a small scale: figures, rows and one line for each verdict."""
    monkeypatch.setattr(experiments, "QUICK", TINY)
    done = command("relaxation", "--quick", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert "Figure 11" in done.out
    assert done.out.count("\n- figure ") == 18
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"figure-{k}.{end}" for k in range(11, 17) for end in ("png", "svg")} < names
    content = json.loads((tmp_path / "out" / "relaxation.json").read_text("utf-8"))
    assert set(content) == {"rows", "verdicts"}
