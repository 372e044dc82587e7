"""A saved release of quantiles opens unchanged and answers as when it was written.

The folder `tests/fixtures/quantiles` was written once by `tests/fixtures/make_quantiles.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import scumble as sc
from tests.public.test_saved_formats import asked
from tests.public.test_saved_lists import release_facts, rounded

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "quantiles"
QUESTIONS = (
    "SELECT QUANTILE_DISC(pay, 0.5) FROM t",
    "SELECT sex, MEDIAN(pay) FROM t GROUP BY sex",
    "SELECT COUNT(*) FROM t WHERE pay < 5000 AND sex = 'f'",
    "SELECT COUNT(*) FROM t WHERE pay IS NULL",
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
