"""What answers to saved releases were changed on purpose since the fixtures were written, and why.

`tests/public/test_saved_formats.py` compares all other facts exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Notes that are worded anew: what the fixtures have, and what it says today.
REWORDED = {
    "equal rows of the table were made one: distinct tuples are counted": (
        "this counts different rows: equal rows of the table were made one"
    ),
}

# Notes that no answer had when the fixtures were written; tests of their own say when they come.
ADDED = (
    "counts at most ",
    "the estimate lies outside of what is possible",
    "relaxed: value and limits are for the condition that was answered",
)


def without_added(found: Any) -> Any:
    """An answer as it would have been told then: without notes of a kind that there was not."""
    if isinstance(found, list):
        return [without_added(each) for each in found]
    if "notes" not in found:
        return found
    return {**found, "notes": [note for note in found["notes"] if not note.startswith(ADDED)]}


# Of answers with these notes, the middle of a bin or the first day of a period decided for all of
# it. Now the value is the share of the bin that meets the condition, and the interval has bounds.
DECIDED_FOR_ALL = (" decides for all of it ", "of a bin decides for the whole bin")


def cut_a_bin(wanted: Mapping[str, Any]) -> bool:
    """Whether an expected answer let one value decide for a bin that the question cuts."""
    return any(part in note for note in wanted["notes"] for part in DECIDED_FOR_ALL)


# Sums of perturbed rows, and counts without an exact law, were recorded with a score interval that
# allowed for the largest row twice over. It is now corrected for the skewness and is narrower.
CORRECTED = "score interval, corrected for skewness"


def without_interval(
    found: dict[str, Any], wanted: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both answers without their intervals, once the new one lies within the recorded one."""
    (low, high), (least, most) = found["interval"], wanted["interval"]
    rounding = 1e-9 * (most - least)
    assert least - rounding <= low <= high <= most + rounding
    return {**found, "interval": None}, {**wanted, "interval": None}


# Answers of these releases were recorded with the rounding of a difference of large numbers: the
# first one is 1.7e-10 below that of the normal equations solved in fractions, and differed between
# processors. They are solved with one step of iterative refinement now.
ROUNDED = {"workload": 1e-9}


def as_today(wanted: Any) -> Any:
    """An expected answer, or a list of groups, with the notes in the words of today."""
    if isinstance(wanted, list):
        return [as_today(each) for each in wanted]
    if not isinstance(wanted, Mapping) or "notes" not in wanted:
        return wanted
    return {**wanted, "notes": [REWORDED.get(note, note) for note in wanted["notes"]]}
