"""A saved release with rounded normal noise opens unchanged and answers as when it was written.

The folder `tests/fixtures/dyadic` was written once by `tests/fixtures/make_dyadic.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import scumble as sc
from tests.public.test_saved_formats import asked
from tests.public.test_saved_lists import release_facts, rounded

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "dyadic"
QUESTIONS = (
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND 39",
    "SELECT sex, job, COUNT(*) FROM t GROUP BY sex, job",
    "SELECT sex, AVG(age) FROM t WHERE job IS NOT NULL GROUP BY sex",
    "SELECT sex, AVG(pay) FROM t GROUP BY sex",
    "SELECT SUM(pay) FROM t WHERE age < 30",
    "SELECT MEDIAN(age) FROM t WHERE sex = 'f'",
)


def facts(release: Any) -> dict[str, Any]:
    """What a release says about itself, and what it answers."""
    told = {
        "facts": release_facts(release),
        "questions": {sql: asked(release, sql) for sql in QUESTIONS},
    }
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def test_it_says_and_answers_what_it_did() -> None:
    expected = json.loads((FIXTURES / "expected.json").read_text("utf-8"))
    for name, told in expected.items():
        assert rounded(facts(sc.open(FIXTURES / name))) == rounded(told)
