"""The numbers in the sentences of a comparison against closed forms."""

from __future__ import annotations

import re
from math import ceil, exp, sqrt

import numpy as np
import pytest

import scumble as sc
from scumble.compare.comparison import Comparison, Results
from scumble.compare.points import Point, points, sentence
from scumble.compare.settings import Settings
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import from_sql

VALUES, EACH, RUNS = 20, 250, 20
SCHEMA = sc.Schema((sc.Attribute("job", "sensitive", sc.Category(tuple("abcdefghijklmnopqrst"))),))
ROWS = VALUES * EACH


@pytest.fixture(scope="module")
def results() -> Results:
    """Every value has as many rows, so that all answers have errors of one law."""
    table = TrueTable(SCHEMA, {"job": np.repeat(np.arange(VALUES, dtype=np.uint8), EACH)}, ROWS)
    workload = from_sql(["SELECT job, COUNT(*) FROM t GROUP BY job"], SCHEMA)
    choices = Settings(table, workload, "replace").choices(["uniform", "histogram"], [1.0], {})
    comparison = Comparison(table, workload, choices, RUNS, seed=1)
    found = comparison.blank(subject="jobs", preview=False, sensitive=["job"])
    list(comparison.runs(found))
    return found


def _numbers(results: Results, method: str) -> tuple[Point, float, float, float]:
    """The bound that holds for everybody, the count that is told of, and its error."""
    [point] = [each for each in points(results, "root") if each.method == method]
    pattern = r"and in at most ([\d.]+) % about anybody"
    pattern += r"(?:; all other columns are published unchanged)?; a count of (\d+) will be "
    pattern += r"within ±(\d+) nineteen times in twenty\."
    found = re.search(pattern, sentence(point))
    assert found, sentence(point)
    bound, count, error = (float(number) for number in found.groups())
    return point, bound, count, error


@pytest.mark.parametrize("method", ["uniform", "histogram"])
def test_what_holds_for_everybody(results: Results, method: str) -> None:
    """The best guess among equally likely values is right with e / (e + 19) at most; odds of 1 to 9
    grow by e at most. Both are rounded up.
    """
    point, bound, count, _ = _numbers(results, method)
    assert bound == ceil(1000 * exp(1) / (exp(1) + VALUES - 1)) / 10
    assert point.success <= point.worst
    odds = exp(1) / 9
    assert point.posterior == pytest.approx(odds / (1 + odds))
    assert count == EACH


def test_errors_of_perturbed_values(results: Results) -> None:
    """Of 250 rows a share `stays` shows the value, of the others a share `comes`. 95 % of normal
    errors are within 1.96 deviations; the quantile of 400 errors has a deviation of
    √(0.95 · 0.05 / 400) / 0.117 of theirs, and five of these are missed less than once in 1e6. The
    number is rounded up to two digits.
    """
    point, _, _, error = _numbers(results, "uniform")
    comes = 1 / (exp(1) + VALUES - 1)
    stays = exp(1) * comes
    variance = EACH * stays * (1 - stays) + (ROWS - EACH) * comes * (1 - comes)
    deviation = sqrt(variance) / (stays - comes)
    slack = 5 * sqrt(0.95 * 0.05 / (VALUES * RUNS)) / 0.117
    assert (1.96 - slack) * deviation <= error <= (1.96 + slack) * deviation + 10
    assert point.numbers["root"].mean == pytest.approx(deviation, rel=0.2)
    assert point.success == pytest.approx(stays)


def test_errors_of_noisy_counts(results: Results) -> None:
    """Noise of at most k has a probability of 1 - 2 a^(k+1) / (1 + a), a = e^(-1/2): 0.95 is
    reached at k = 6, and 400 draws miss that by more than two less than once in 1e6.
    """
    _, _, _, error = _numbers(results, "histogram")
    ratio = exp(-0.5)
    reached = [k for k in range(20) if 1 - 2 * ratio ** (k + 1) / (1 + ratio) >= 0.95]
    assert abs(error - reached[0]) <= 2


def test_intervals_hold_what_they_say(results: Results) -> None:
    """95 % of 400 intervals or more: six deviations of a binomial below are missed less than once
    in 1e8.
    """
    for point in points(results, "root"):
        assert point.intervals == VALUES * RUNS
        least = 0.95 - 6 * sqrt(0.95 * 0.05 / (VALUES * RUNS))
        assert point.numbers["coverage"].mean >= least
        assert point.biased is not None
        assert point.biased <= 0.5  # of twenty questions, ten by chance: less than once in 1e6


def test_half_widths_stand_beside_errors(results: Results) -> None:
    """Without bias half of an interval of 95 % is about two standard errors; results of earlier
    versions have none.
    """
    for point in points(results, "root"):
        half, error = point.numbers["half"].mean, point.numbers["root"].mean
        assert 1.5 * error < half < 3 * error
    old = [{**run, "half": None} for run in results.to_dict()["runs"]]
    again = Results.from_dict({**results.to_dict(), "runs": old})
    assert all("half" not in point.numbers for point in points(again, "root"))
