"""Saved releases for synthetic rows, and generalised rows, open unchanged and answer as when they
were written; so does a folder of linked tables.

The folder `tests/fixtures/synthetic` was written once by `tests/fixtures/make_synthetic.py`; see
there. Synthetic rows are not pinned: how they are fitted may become better.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from tests.public.test_saved_formats import asked
from tests.public.test_saved_lists import facts_and_answers, release_facts, rounded
from tests.support.saved_changes import without_added

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "synthetic"
QUESTIONS = (
    "SELECT COUNT(*) FROM t WHERE age < 5",
    "SELECT job, COUNT(*) FROM t GROUP BY job",
    "SELECT COUNT(*) FROM t WHERE age >= 3 AND job = 'spy'",
)


def linked_facts(release: Any) -> dict[str, Any]:
    """What linked tables say about themselves, and what each answers."""
    told = {
        "keys": dict(release.keys),
        "given": {name: list(each) for name, each in release.given.items()},
        "guarantees": [dict(each.parameters) for each in release.guarantees],
        "tables": {name: release_facts(each) for name, each in release.tables.items()},
        "questions": {
            sql: asked(release, sql)
            for sql in (
                "SELECT age, COUNT(*) FROM people GROUP BY age",
                "SELECT COUNT(*) FROM visits WHERE ward = 'eye'",
            )
        },
    }
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text("utf-8"))
    return found


SINGLE = [name for name in expected() if name != "linked"]


def test_there_is_a_release_by_every_method() -> None:
    made = {expected()[name]["facts"]["mechanism"] for name in SINGLE}
    assert made == {"synthesis", "mwem", "dirichlet", "generalise"}


@pytest.mark.parametrize("name", SINGLE)
def test_it_says_and_answers_what_it_did(name: str) -> None:
    assert rounded(facts_and_answers(sc.open(FIXTURES / name), QUESTIONS)) == rounded(
        expected()[name]
    )


@pytest.mark.parametrize("name", ["synthesis-pairs", "synthesis-workload", "mwem"])
def test_it_still_draws_rows(name: str) -> None:
    rows = sc.open(FIXTURES / name).synthetic.rows(500, seed=1)
    assert rows.num_rows == 500
    assert rows.column_names == ["age", "sex", "job"]


def test_linked_tables_say_and_answer_what_they_did() -> None:
    release = sc.open(FIXTURES / "linked")
    found, visits = linked_facts(release), "SELECT COUNT(*) FROM visits WHERE ward = 'eye'"
    limit = "counts at most 2 rows of each person; the others were left out"
    assert found["questions"][visits]["notes"] == [limit]  # which was not told then
    found["questions"][visits] = without_added(found["questions"][visits])
    assert rounded(found) == rounded(expected()["linked"])
    rows = release.rows(100, seed=1)
    assert set(rows["visits"]["person"].to_pylist()) <= set(rows["people"]["who"].to_pylist())
    join = "SELECT COUNT(*) FROM people JOIN visits ON who = person WHERE sex = 'f'"
    assert release.answer(join).method.startswith("model")
