"""Estimates that no table can have are told as such, and quantiles that nothing tells."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.notebook import format_label
from scumble.public.estimate import Estimate, Estimates, Exact
from scumble.public.estimate_table import SelectedEstimates
from scumble.public.estimation.bounds import IMPOSSIBLE, note_impossible
from scumble.server.answer_json import decode_answer, encode_answer

SCHEMA = sc.Schema.loads(
    '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [1, 80]\n'
    '[attributes.job]\nrole = "sensitive"\ntype = "category"\nvalues = ["cook", "nurse", "spy"]'
)
PEOPLE = pa.table({"age": [1 + n % 80 for n in range(400)], "job": ["cook", "nurse"] * 200})
BY_JOB = "SELECT job, COUNT(*) FROM t GROUP BY job"


@pytest.fixture(scope="module")
def view() -> sc.Release:
    """One in which there are fewer than no spies."""
    for seed in range(50):
        found = sc.publish(
            PEOPLE, SCHEMA, sc.Uniform(epsilon=0.2), options=sc.PublishOptions(seed=seed)
        )
        if found.answer(BY_JOB)["spy"].value < -10:
            return found
    raise AssertionError("a probability of 2^-50")


def test_a_count_below_zero_says_what_is_possible(view: sc.Release) -> None:
    note = f"{IMPOSSIBLE}, 0 to 400, and so does a part of its interval"
    answer = view.answer(BY_JOB)
    for (job,), each in answer:
        assert (note in each.notes) == (not 0 <= each.value <= 400), job
    assert note in view.answer("SELECT COUNT(*) FROM t WHERE job = 'spy'").notes
    [(_, [count, _])] = [
        row
        for row in view.answer("SELECT job, COUNT(*), AVG(age) FROM t GROUP BY job").rows
        if row[0] == ("spy",)
    ]
    assert note in count.notes
    assert note not in view.answer("SELECT -COUNT(*) FROM t").notes
    assert note not in view.answer(BY_JOB, clamp=True)["spy"].notes


def test_an_average_outside_of_its_amounts_says_so(view: sc.Release) -> None:
    average = view.answer("SELECT AVG(CASE WHEN job = 'spy' THEN 1 ELSE 0 END) FROM t")
    assert average.value < 0
    assert any(note.startswith(f"{IMPOSSIBLE}, 0 to 1") for note in average.notes)
    average = view.answer("SELECT AVG(CASE WHEN job = 'cook' THEN 1 ELSE 0 END) FROM t")
    assert 0 <= average.value <= 1
    assert not any(note.startswith(IMPOSSIBLE) for note in average.notes)


def test_a_database_says_it_too(tmp_path) -> None:
    with sc.Database.create(tmp_path / "db", PEOPLE, SCHEMA, epsilon=5, noise=40) as database:
        found = [
            database.answer(f"SELECT COUNT(*) FROM t WHERE job = 'spy' AND age <= {age}")
            for age in range(1, 40)
        ]
    assert any(each.value < 0 for each in found)
    for each in found:
        if each.status == "answered":
            said = any(note.startswith(IMPOSSIBLE) for note in each.notes)
            assert said == (each.value < 0)


def test_rounding_is_not_impossible() -> None:
    assert note_impossible(Estimate(400 + 1e-9, Exact(), ""), 0, 400).notes == ()
    assert note_impossible(Estimate(401.0, Exact(), ""), 0, 400).notes
    assert "0 or more" in note_impossible(Estimate(-1.0, Exact(), ""), 0).notes[0]


def test_a_quantile_of_too_few_people_has_the_limits_of_its_domain(view: sc.Release) -> None:
    answer = view.answer("SELECT job, MEDIAN(age) FROM t GROUP BY job")
    spies = answer["spy"]
    assert math.isnan(spies.value)
    assert spies.interval() == (1, 80)
    assert "too few people" in repr(answer)
    assert repr(spies).startswith("too few people (1 to 80)")
    assert "no rows" not in repr(answer)
    sent = decode_answer(encode_answer(answer))["spy"]
    assert sent.interval() == (1, 80)
    empty = view.answer("SELECT MEDIAN(age) FROM t WHERE age > 80")
    assert repr(empty).startswith("no rows")


def test_lists_are_printed_as_questions_write_them() -> None:
    assert format_label((1,)) == format_label([1]) == "[1]"
    assert format_label(["a", None]) == "['a', (missing)]"
    assert "[1, 2]" in repr(Estimates([("pages", pa.list_(pa.int64()))], [(((1, 2),), _one())]))


def test_chosen_groups_are_explained_without_letters() -> None:
    shown = SelectedEstimates([("job", pa.string())], [(("spy",), _one())], 3)
    assert "1 of 3 groups are shown" in shown.notes[0]
    assert "α" not in shown.notes[0]
    assert SelectedEstimates([("job", pa.string())], [], 0).notes == []
    [none] = SelectedEstimates([("job", pa.string())], [], 3).notes
    assert none == "none of 3 groups is shown: they are chosen by their estimates"


def _one() -> Estimate:
    return Estimate(1.0, Exact(), "")
