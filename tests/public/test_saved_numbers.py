"""Saved releases with rounded normal noise, with sums of amounts, and of quantiles open and answer
as when they were written.

The folders `dyadic`, `sums` and `quantiles` of `tests/fixtures` were written once by
`make_dyadic.py`, `make_sums.py` and `make_quantiles.py` beside them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scumble as sc
from tests.public.test_saved_lists import facts_and_answers, rounded

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
QUESTIONS = {
    "dyadic": (
        "SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND 39",
        "SELECT sex, job, COUNT(*) FROM t GROUP BY sex, job",
        "SELECT sex, AVG(age) FROM t WHERE job IS NOT NULL GROUP BY sex",
        "SELECT sex, AVG(pay) FROM t GROUP BY sex",
        "SELECT SUM(pay) FROM t WHERE age < 30",
        "SELECT MEDIAN(age) FROM t WHERE sex = 'f'",
    ),
    "sums": (
        "SELECT COUNT(*) FROM t",
        "SELECT age, sex, COUNT(*) FROM t GROUP BY age, sex",
        "SELECT sex, AVG(pay) FROM t GROUP BY sex",
        "SELECT SUM(2 * pay + 1) FROM t WHERE age < 3",
        "SELECT COUNT(pay) FROM t WHERE sex = 'f'",
    ),
    "quantiles": (
        "SELECT QUANTILE_DISC(pay, 0.5) FROM t",
        "SELECT sex, MEDIAN(pay) FROM t GROUP BY sex",
        "SELECT COUNT(*) FROM t WHERE pay < 5000 AND sex = 'f'",
        "SELECT COUNT(*) FROM t WHERE pay IS NULL",
    ),
}


@pytest.mark.parametrize("folder", QUESTIONS)
def test_it_says_and_answers_what_it_did(folder: str) -> None:
    expected = json.loads((FIXTURES / folder / "expected.json").read_text("utf-8"))
    for name, told in expected.items():
        found = facts_and_answers(sc.open(FIXTURES / folder / name), QUESTIONS[folder])
        assert rounded(found) == rounded(told)
