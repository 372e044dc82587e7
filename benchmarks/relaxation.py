"""The statistical database without its ledger: admission, noise and relaxation of the paper's
20,000 queries, and what the regression for one of them takes. All figures are processor time.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.measure import at_least, at_most
from research.relaxation.simulation import Setting, compare
from research.relaxation.simulation import run as simulate
from research.relaxation.survey import Survey, synthetic, workload

PEOPLE = 1_000_000
QUERIES = 20_000
WANTED = {"exact": 5000, "histogram": 2000}  # queries a second
ROUNDS = 3
SAMPLE, MILLISECONDS = 100, 50


def run() -> list[dict[str, Any]]:
    survey = synthetic(PEOPLE)
    return [
        result
        for tracker, wanted in WANTED.items()
        for result in answering(survey, tracker, wanted)
    ]


def answering(survey: Survey, tracker: str, wanted: int) -> list[dict[str, Any]]:
    """Queries a second on the slower of the two workloads, and regression on the same."""
    rates, results = {}, []
    for centres in ("data", "uniform"):
        boxes = workload(survey, centres, volume=0.04, count=QUERIES, seed=1)
        simulate(survey, boxes[:100], Setting(tracker, noise=20))  # compiled by now
        outcomes = [simulate(survey, boxes, Setting(tracker)) for _ in range(ROUNDS)]
        rates[centres] = 1e6 / statistics.median(each.microseconds for each in outcomes)
        taken = compare(survey, boxes, outcomes[0], SAMPLE)["milliseconds"]
        results.append(
            at_most(
                f"regression after {tracker}, {centres} centres / {MILLISECONDS} ms",
                1,
                taken / MILLISECONDS,
                f"{taken:.1f} ms for the region and the box asked",
            )
        )
    detail = ", ".join(f"{centres} centres {rate:.0f}/s" for centres, rate in rates.items())
    name = f"relaxation with {tracker} / {wanted:,} queries a second"
    return [at_least(name, 1, min(rates.values()) / wanted, detail), *results]
