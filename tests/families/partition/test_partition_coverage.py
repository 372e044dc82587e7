"""Interval coverage of answers over parts: counts by exact enumeration of what the rows of every
part may show, other answers by simulation.

The simulation holds many independent copies of the same people, told apart by the public attribute
`copy`. Each of the 21 checks raises a false alarm once in a million sets of draws, and finds with a
probability of 99 % a true coverage of 92 % where 95 % is stated (`covered.py`: other levels).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import scumble as sc
from scumble.model.evidence.channels import PartitionChannel
from scumble.model.evidence.evidence import Records
from scumble.public.estimation.rows.grouped_counts import GroupedCounts, GroupIndex
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.sql.parse import parse
from tests.support.covered import COPIES, LEVELS, check
from tests.support.outcomes import release
from tests.support.people import people, records_release, schema

ASKED = 0  # the code of 'cook', which the exact tests ask for


def _channel(domains: Sequence[Sequence[int]], keeps: Sequence[str]) -> PartitionChannel:
    exact = tuple(map(Fraction, keeps))
    return PartitionChannel(("job",), "part", tuple(map(tuple, domains)), exact)


CHANNELS = {
    "in both parts": _channel([range(5), (0, 2, 3)], ["1/2", "1/3"]),
    "hardly kept": _channel([(0, 1), (0, 2)], ["1/50", "9/10"]),
    "in one part": _channel([(0, 1, 2), (3, 4)], ["1/3", "1/2"]),
    "alone in one part": _channel([(0, 1, 2), (0,)], ["1/3", "1/2"]),
}


def _estimates(channel: PartitionChannel, rows: Sequence[int], shown: list) -> list[sc.Estimate]:
    """The count of one value for every number of rows of each part that show it."""
    domain = sc.Schema([*schema(), *Records("", (), (channel,), 0).added])
    evidence = Records("records.parquet", tuple(domain.names), (channel,), sum(rows))
    query = parse("SELECT COUNT(*) FROM t WHERE job = 'cook'", domain, {})
    lines = [
        (outcome, part, cell, float(number))
        for outcome, numbers in enumerate(shown)
        for part, yes in enumerate(numbers)
        for cell, number in ((ASKED, yes), (channel.domains[part][-1], rows[part] - yes))
    ]
    members, parts, cells, count = (np.array(column) for column in zip(*lines, strict=True))
    sums = (count, count, count, np.ones_like(count), np.ones_like(count))
    tally = GroupedCounts(domain, pa.table({"part": [0, 1]}), parts, cells, *sums)
    holds = np.zeros((2, 5))
    holds[:, ASKED] = 1
    groups = GroupIndex(members, [{}] * len(shown))
    found = Sums(RowsPlan(evidence, domain, query), tally, groups, holds, None)
    return [found.estimate(outcome) for outcome in range(len(shown))]


def _law(channel: PartitionChannel, part: int, rows: int, true: int) -> np.ndarray:
    """Of how many rows of a part show the value, if so many have it."""
    domain, keep = channel.domains[part], float(channel.keeps[part])
    outside = (1 - keep) / len(domain) if ASKED in domain else 0.0
    inner = binom.pmf(np.arange(true + 1), true, keep + outside)
    return np.convolve(inner, binom.pmf(np.arange(rows - true + 1), rows - true, outside))


def _trues(domain: Sequence[int], rows: int) -> list[int]:
    """How many rows of a part may have the value."""
    if ASKED not in domain:
        return [0]
    return [rows] if len(domain) == 1 else sorted({0, 1, rows // 2, rows})


def test_counts_over_two_parts(subtests: pytest.Subtests) -> None:
    """Exact: no test here can fail by chance."""
    for rows, name in itertools.product([(1, 1), (3, 12), (30, 5)], CHANNELS):
        with subtests.test(rows=rows, name=name):
            channel = CHANNELS[name]
            shown = list(itertools.product(*(range(number + 1) for number in rows)))
            estimates = _estimates(channel, rows, shown)
            trues = map(_trues, channel.domains, rows)
            limits = {
                level: np.array([estimate.interval(level) for estimate in estimates]).T
                for level in LEVELS
            }
            for true in itertools.product(*trues):
                laws = [_law(channel, part, rows[part], true[part]) for part in (0, 1)]
                chances = np.outer(*laws).reshape(-1)
                for level, (low, high) in limits.items():
                    covered = (low <= sum(true) + 1e-9) & (sum(true) - 1e-9 <= high)
                    assert chances @ covered >= level - 1e-9, true


QUESTIONS = [
    "COUNT(*) FROM t WHERE job = 'nurse'",
    "COUNT(*) FROM t WHERE job IN ('smith', 'teacher') AND age = 5",
    "COUNT(*) FROM t WHERE length(job) > age + 2",
    "SUM(age * age) FROM t WHERE job = 'teacher'",
    "SUM(length(job)) FROM t WHERE sex = 'f'",
    "AVG(age) FROM t WHERE job <> 'cook'",
    "AVG(length(job) + age) FROM t WHERE age >= 0",
]


@cache
def _copies() -> tuple[sc.Release, pa.Table]:
    """Values are drawn by numpy; one part hardly keeps any, and values lie in one or two parts."""
    rng, one = np.random.default_rng(8), people(120, schema(), seed=3)
    channel = _channel([(0, 1, 2, 3), (2, 3, 4), (0, 1)], ["1/3", "3/5", "1/20"])
    domain = sc.Schema([sc.Attribute("copy", "quasi", sc.IntegerRange(0, COPIES - 1)), *schema()])
    true = np.tile(domain["job"].encode(one["job"])[0].astype(np.int64), COPIES)
    place = np.tile(np.arange(one.num_rows), COPIES)
    fitting = [[part for part in range(3) if code in channel.domains[part]] for code in range(5)]
    pairs = zip(true, place, strict=True)
    part = np.array([fitting[code][row % len(fitting[code])] for code, row in pairs])
    keep = rng.random(len(true)) < np.array([float(keep) for keep in channel.keeps])[part]
    drawn = np.array([rng.choice(channel.domains[number], len(true)) for number in range(3)])
    shown = np.where(keep, true, drawn[part, np.arange(len(true))]).astype(np.uint8)
    table = pa.concat_tables([one.drop_columns(["job"])] * COPIES)
    table = table.append_column("job", domain["job"].decode(shown))
    table = table.append_column("copy", pa.array(np.repeat(np.arange(COPIES), one.num_rows)))
    return release(domain, [channel], table.append_column("part", pa.array(part))), one


# Counts of a value are exact above; each of the other paths has one quick question.
QUICK = QUESTIONS[2], QUESTIONS[4], QUESTIONS[6]


@pytest.mark.parametrize(
    "question",
    [pytest.param(q, marks=[] if q in QUICK else [pytest.mark.slow]) for q in QUESTIONS],
)
def test_coverage(question: str) -> None:
    made, one = _copies()
    truth = records_release(schema(), one, ()).answer(f"SELECT {question}").value
    answers = made.answer(f"SELECT copy, {question} GROUP BY copy")
    check((estimate for _, estimate in answers), truth)
