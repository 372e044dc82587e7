"""Intervals of quantiles, variances, formulas and chosen groups hold at their level.

100 releases with fixed seeds in the slow tests, 300 in the soak tests. With n releases, an interval
that covers exactly 95 % holds in less than 95 % - 3 standard errors of them with probability 0.0043
for n = 100 (binomial law: at most 88 hits) and 0.0026 for n = 300 (at most 273). A test of seven
intervals has a false alarm with probability below 3 % and 2 %, if all cover exactly 95 %.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc

SCHEMA = sc.Schema(
    [
        sc.Attribute("dept", "quasi", sc.Category(tuple("ABCDEFGH"))),
        sc.Attribute("pay", "sensitive", sc.IntegerRange(0, 6)),
    ]
)
RUNS = [pytest.param(100, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.soak)]
MECHANISMS = {
    "rows": lambda: sc.Uniform(keep=0.5),
    "histogram": lambda: sc.Histogram(["dept", "pay"], epsilon=1, neighbours="add_remove"),
}


def least(n: int) -> float:
    """Return the share of n intervals that must hold."""
    return 0.95 - 3 * sqrt(0.95 * 0.05 / n)


@cache
def people() -> pa.Table:
    random = np.random.default_rng(5)
    pay = np.minimum(random.poisson(2, 300), 6)
    return pa.table({"dept": random.choice(list("ABCDEFGH"), 300), "pay": pay})


@cache
def truth(sql: str) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.register("t", people())
    return connection.execute(sql).fetchall()


ITEMS = [
    "MEDIAN(pay)",
    "QUANTILE_DISC(pay, 0.25)",
    "QUANTILE_CONT(pay, 0.8)",
    "VAR_POP(pay)",
    "STDDEV(pay)",
    "SUM(pay * pay) / SUM(pay)",
    "COUNT_IF(pay > 3) - COUNT_IF(pay < 2)",
]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_intervals_of_a_select_hold(kind: str, runs: int) -> None:
    sql = f"SELECT {', '.join(ITEMS)} FROM t"
    held = np.zeros(len(ITEMS))
    for seed in range(runs):
        release = sc.publish(
            people(), SCHEMA, MECHANISMS[kind](), options=sc.PublishOptions(seed=seed)
        )
        [(_, row)] = release.answer(sql).rows
        for place, (estimate, true) in enumerate(zip(row, truth(sql)[0], strict=True)):
            low, high = estimate.interval(0.95)
            held[place] += low - 1e-9 <= true <= high + 1e-9
    assert (held / runs >= least(runs)).all(), dict(zip(ITEMS, held / runs, strict=True))


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_intervals_of_the_largest_groups_hold(kind: str, runs: int) -> None:
    """The groups with the largest estimates are covered at 95 % on average; R = 2 of G = 8."""
    sql = "SELECT dept, COUNT_IF(pay > 2) AS n FROM t GROUP BY dept ORDER BY n DESC LIMIT 2"
    every = dict(truth("SELECT dept, COUNT_IF(pay > 2) FROM t GROUP BY dept"))
    held = 0
    for seed in range(runs):
        release = sc.publish(
            people(), SCHEMA, MECHANISMS[kind](), options=sc.PublishOptions(seed=seed)
        )
        for row in release.answer(sql).to_dicts(0.95):
            assert row["level"] == pytest.approx(1 - 0.05 * 2 / 8)
            held += row["low"] - 1e-9 <= every[row["dept"]] <= row["high"] + 1e-9
    assert held / (2 * runs) >= least(runs)
