"""Coverage of sums and averages through a channel, by exact enumeration of what may be shown.

Rows come in kinds of equal amount. How many rows of a kind show a value that counts is a sum of two
binomials, so the probability of every published table (as far as the answer depends on it) is known
exactly, and so is the coverage: no test here can fail by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.public.estimation.interval_laws import WeightedSum
from scumble.public.estimation.rows.grouped_counts import GroupedCounts, GroupIndex
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.sql.parse import parse
from tests.support.outcomes import every
from tests.support.people import schema

LEVELS = (0.9, 0.95, 0.99)
Kinds = Sequence[tuple[float, int]]  # amount, rows


def _estimates(what: str, kinds: Kinds, values: int, keep: float) -> list:
    """The estimate for every number of rows of each kind that shows the value asked for."""
    domain = schema(jobs=[f"job {place}" for place in range(values)])
    channels = (UniformChannel(("job",), Fraction(keep)),)
    evidence = Records("records.parquet", tuple(domain.names), channels, 0)
    query = parse(f"SELECT {what}(age) FROM t WHERE job = 'job 0'", domain, {})
    holds = np.zeros((1, values))
    holds[0, 0] = 1
    shown = list(itertools.product(*(range(rows + 1) for _, rows in kinds)))
    lines = [
        (outcome, cell, float(number), amount)
        for outcome, numbers in enumerate(shown)
        for (amount, rows), number_shown in zip(kinds, numbers, strict=True)
        for cell, number in ((0, number_shown), (1, rows - number_shown))
    ]
    members, cells, count, amount = (np.array(column) for column in zip(*lines, strict=True))
    sums = (count, count * amount, count * amount**2, amount, amount)
    higher = np.array([count * amount**3, count * amount**4])
    tally = GroupedCounts(domain, pa.table({}), np.zeros_like(cells), cells, *sums, higher=higher)
    groups = GroupIndex(members, [{}] * len(shown))
    found = Sums(RowsPlan(evidence, domain, query), tally, groups, holds, None)
    return [found.estimate(outcome) for outcome in range(len(shown))]


def _probabilities(kinds: Kinds, true: Sequence[int], values: int, keep: float) -> np.ndarray:
    """Of each outcome, in the order of `_estimates`, if so many rows of each kind truly count."""
    law = np.ones(1)
    outside = (1 - keep) / values
    for (_, rows), yes in zip(kinds, true, strict=True):
        inner = binom.pmf(np.arange(yes + 1), yes, keep + outside)
        outer = binom.pmf(np.arange(rows - yes + 1), rows - yes, outside)
        law = np.outer(law, np.convolve(inner, outer)).reshape(-1)
    return law


def _least_coverage(what: str, kinds: Kinds, trues: Sequence, values: int, keep: float) -> float:
    """The smallest excess of coverage over level, over all levels and all true counts."""
    least = math.inf
    estimates = _estimates(what, kinds, values, keep)
    for level in LEVELS:
        low, high = np.array([estimate.interval(level) for estimate in estimates]).T
        for true in trues:
            total = sum(amount * yes for (amount, _), yes in zip(kinds, true, strict=True))
            truth = total / sum(true) if what == "AVG" else total
            covered = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
            law = _probabilities(kinds, true, values, keep)
            least = min(least, float(law @ covered) - level)
    return least


def _keep(epsilon: float, values: int) -> float:
    return math.expm1(epsilon) / (values - 1 + math.exp(epsilon))


def test_sums_of_equal_rows(subtests: pytest.Subtests) -> None:
    for rows, values in itertools.product([10, 30, 100, 300, 1000], [2, 10, 1000]):
        trues = [(yes,) for yes in sorted({0, 1, 2, 3, 5, 10, rows // 10, rows // 2, rows})]
        with subtests.test(rows=rows, values=values):
            for epsilon in (1, 2, 3, 5):
                keep = _keep(epsilon, values)
                assert _least_coverage("SUM", [(1.0, rows)], trues, values, keep) >= 0


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.95])
def test_sums_that_one_row_decides(keep: float) -> None:
    trues = list(itertools.product((0, 1, 100, 999), (0, 1)))
    assert _least_coverage("SUM", [(1.0, 999), (1000.0, 1)], trues, 10, keep) >= 0
    assert _least_coverage("SUM", [(1.0, 400), (20.0, 1)], [(0, 0), (0, 1)], 1000, keep) >= 0


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.95])
def test_sums_of_both_signs(keep: float) -> None:
    trues = list(itertools.product((0, 3, 30), repeat=2))
    assert _least_coverage("SUM", [(2.0, 30), (-1.0, 30)], trues, 10, keep) >= 0


QUICK = {(1, 1000), (3, 10), (5, 2)}


@pytest.mark.parametrize(
    ("epsilon", "values"),
    [
        pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
        for case in itertools.product([1, 3, 5], [2, 10, 1000])
    ],
)
def test_averages(epsilon: int, values: int) -> None:
    trues = [(30, 30), (0, 30), (1, 0), (3, 3), (1, 10)]
    keep = _keep(epsilon, values)
    assert _least_coverage("AVG", [(20.0, 30), (80.0, 30)], trues, values, keep) >= 0
    trues = [(0, 1), (30, 1), (300, 0), (3, 1)]
    assert _least_coverage("AVG", [(1.0, 300), (50.0, 1)], trues, values, keep) >= 0


def test_two_rows_and_two_channels(subtests: pytest.Subtests) -> None:
    domain = schema(ages=3, jobs=("cook", "nurse", "smith"), health=2)
    rows = {"age": [1, 2], "sex": ["f", "m"], "job": ["nurse", "cook"], "health": [0, 1]}
    outcomes = every(
        domain,
        pa.table(rows),
        UniformChannel(("job",), Fraction(9, 10)),
        UniformChannel(("health",), Fraction(1, 2)),
    )
    for question, truth in (
        ("COUNT(*) FROM t WHERE job = 'nurse' AND health = 0", 1),
        ("COUNT(*) FROM t WHERE job = 'nurse' OR health > age", 1),
        ("SUM(health * age) FROM t WHERE job <> 'smith'", 2),
        ("AVG(health + age) FROM t WHERE job <> 'smith'", 2),
    ):
        with subtests.test(question):
            covered = dict.fromkeys(LEVELS, Fraction(0))
            answers = outcomes.answers(question)
            for probability, answer in zip(outcomes.probabilities, answers, strict=True):
                for level in LEVELS:
                    low, high = answer.interval(level)
                    covered[level] += probability * (low - 1e-9 <= truth <= high + 1e-9)
            assert all(share >= level for level, share in covered.items())


def test_many_rows_come_to_the_normal_law() -> None:
    low, high = WeightedSum(variance=1.0, largest=0.01).interval(0.0, 0.95)
    assert -low == high == pytest.approx(1.96, rel=0.015)


def test_moments_of_a_sum_are_estimated_without_bias() -> None:
    """Over all published tables: Cov[T, V], κ3[T] and Var[V] of four rows, two of which count."""
    domain = schema(ages=5, jobs=("cook", "nurse", "smith"))
    ages, jobs = np.array([1, 2, 4, 3]), np.array(["nurse", "cook", "nurse", "smith"])
    rows = pa.table({"age": ages, "sex": ["f"] * 4, "job": jobs, "health": [0] * 4})
    keep = Fraction(3, 5)
    made = every(domain, rows, UniformChannel(("job",), keep))
    published = pq.read_table(made.release.folder / "records.parquet")
    amounts = ages - 2.5
    chances = np.array([float((1 - keep) / 3), float(keep + (1 - keep) / 3)])
    varied = chances * (1 - chances) / float(keep) ** 2
    outcomes = []
    answers = made.answers("SUM(age - 2.5) FROM t WHERE job = 'nurse'")
    every_shown = np.array(published["job"].to_pylist()).reshape(-1, 4) == "nurse"
    for probability, shown, answer in zip(made.probabilities, every_shown, answers, strict=True):
        weights = (shown - chances[0]) / float(keep)
        variance = amounts**2 @ (varied[0] + (varied[1] - varied[0]) * weights)
        law = answer.law.law  # within the cut
        found = np.array(law.moments[:3]) * law.variance
        outcomes.append((float(probability), answer.value, variance, *found))
    chance, total, variance, *estimated = np.array(outcomes).T
    assert chance @ total == pytest.approx(amounts[jobs == "nurse"].sum())
    centred, varying = total - chance @ total, variance - chance @ variance
    truths = [chance @ (centred * varying), chance @ centred**3, chance @ varying**2]
    assert [chance @ each for each in estimated] == pytest.approx(truths)


@pytest.mark.parametrize(
    ("kinds", "values", "keep"),
    [
        pytest.param([(16.8, 114), (0.1, 67)], 10, 0.95, marks=pytest.mark.slow),
        ([(3.5, 30), (-3.0, 33)], 10, 0.6),
        pytest.param([(-0.3, 82), (-0.6, 113)], 2, 0.2, marks=pytest.mark.slow),
    ],
)
def test_sums_of_few_different_amounts(kinds: Kinds, values: int, keep: float) -> None:
    """A sum that jumps by its large amounts, which small ones hardly blur."""
    some = [sorted({0, rows // 10, rows // 2, rows}) for _, rows in kinds]
    assert _least_coverage("SUM", kinds, list(itertools.product(*some)), values, keep) >= 0
