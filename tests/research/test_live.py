"""Errors of live databases on public tables, as they were foreseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.live import measure

# Root mean square and median half-width of a release and of a live database; free answers.
FORESEEN = {
    ("kdd", 100): (61, 102, 46, 87, 12),
    ("census", 100): (37, 57, 33, 59, 2),
    ("adult", 100): (79, 138, 52, 97, 4),
    ("kdd", 500): (60, 101, 53, 95, 190),
    ("census", 500): (39, 67, 38, 67, 197),
    ("adult", 500): (80, 132, 65, 115, 141),
}


@pytest.mark.parametrize("table", ["kdd", "census", "adult"])
def test_errors_are_those_that_were_foreseen(shared_data: Path, table: str) -> None:
    """Within 3 %, half a unit of the last digit of the smallest figure included."""
    for found in measure(shared_data, table, (100, 500)):
        *errors, free = FORESEEN[table, found.questions]
        assert [*found.release, *found.live] == pytest.approx(errors, rel=0.03)
        assert found.free == pytest.approx(free, abs=4)
