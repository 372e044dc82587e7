"""What answers to saved releases were changed on purpose since the fixtures were written, and why.

`tests/public/test_saved_formats.py` compares all other facts exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scumble.families.histogram.read.sparse import SparseTotal
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimation.interval_laws import ComplementLaw, Limited, clipped
from scumble.public.release import Release

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
    "made of the answers ",
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


def cut_a_bin(answer: Estimate, wanted: Mapping[str, Any]) -> bool:
    """Whether an expected answer let one value decide for a bin that the question cuts. Then the
    intervals overlap.
    """
    if not any(part in note for note in wanted["notes"] for part in DECIDED_FOR_ALL):
        return False
    (low, high), (least, most) = answer.interval(0.95), wanted["interval"]
    assert answer.bounds is not None
    assert low <= most
    assert high >= least
    return True


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


def cut_to_rows(answer: Estimate, wanted: dict[str, Any]) -> dict[str, Any]:
    """A recorded answer whose interval ends where the number of rows ends it today."""
    if not isinstance(answer.law, Limited) or not wanted.get("interval"):
        return wanted
    limits = answer.law.least, answer.law.most
    return {**wanted, "interval": [*clipped(wanted["interval"], wanted["value"], *limits)]}


# Averages with this note have no value where their interval holds all that is possible.
MAY_BE_ZERO = "the number of rows behind this average may be zero: do not rely on it"


def is_withheld(answer: Estimate, wanted: Mapping[str, Any]) -> bool:
    """Whether an average of too few people has no value today; its interval is not wider, unless it
    was recorded without what bins leave open.
    """
    if MAY_BE_ZERO not in wanted["notes"] or not math.isnan(answer.value):
        return False
    (low, high), (least, most) = answer.interval(0.95), wanted["interval"]
    rounding = 1e-9 * (most - least)
    open_in_bins = (*DECIDED_FOR_ALL, "stands for all its values")
    if any(part in note for note in wanted["notes"] for part in open_in_bins):
        assert low <= least <= most <= high
    else:
        assert least - rounding <= low <= high <= most + rounding
    return True


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


def value_without_lost(answer: Estimate) -> float:
    """The value of a filtered sparse release as it was recorded: without the part of the lost rows
    that counts and sums have now.
    """
    noise = getattr(answer.law, "noise", None)
    if isinstance(noise, ComplementLaw) and isinstance(noise.law, SparseTotal):
        return noise.whole - noise.law.spread.value
    return noise.spread.value if isinstance(noise, SparseTotal) else float(answer.value)


@dataclass(frozen=True)
class KeptKeys:
    """A release of keys that answers as was recorded: about the people who kept a key. Now only
    `top` is about them: a question in SQL is about all rows of the table, of which there are at
    least as many.
    """

    release: Release

    def answer(self, sql: str) -> Any:
        asked, query, reader = self.release.ask(sql), self.release.parse(sql), self._reader
        kept = dict(reader.answer(query, reader.sandbox, kept=True))
        now = dict(asked) if isinstance(asked, Estimates) else {(): asked}
        assert now.keys() == kept.keys()
        for key, each in now.items():
            assert each.reason == "only bounds"
            assert each.interval() == (kept[key].interval()[0], math.inf)
        if isinstance(asked, Estimates):
            return Estimates(asked.types, [(key, kept[key]) for key in now])
        return kept[()]

    def top(self, k: int) -> Any:
        found = self.release.keys.top(k)
        assert found.alias == "people who kept it"
        return found

    @property
    def _reader(self) -> Any:
        return self.release.keys.reader
