"""Measures of error against cases that were computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scumble.compare import measures
from scumble.compare.measures import RepeatedAnswers, spread
from scumble.model.errors import ParameterError

# Two runs of four questions about 100 rows; errors +2 -1 0 +3 and -2 -1 +5 0.
TRUTH = np.array([10.0, 20.0, 0.0, 50.0])
VALUES = np.array([[12.0, 19.0, 0.0, 53.0], [8.0, 19.0, 5.0, 50.0]])
ANSWERS = RepeatedAnswers(TRUTH, VALUES, 100, VALUES - 2, VALUES + 2)


def test_absolute_squared_root_and_bias() -> None:
    assert measures.absolute(ANSWERS).tolist() == [6 / 4, 8 / 4]
    assert measures.squared(ANSWERS).tolist() == [14 / 4, 30 / 4]
    assert measures.root(ANSWERS) == pytest.approx([3.5**0.5, 7.5**0.5], rel=1e-15)
    assert measures.bias(ANSWERS).tolist() == [4 / 4, 2 / 4]


def test_relative_without_bound_leaves_out_what_nobody_has() -> None:
    first = (2 / 10 + 1 / 20 + 3 / 50) / 3
    second = (2 / 10 + 1 / 20 + 0) / 3
    assert measures.relative(ANSWERS) == pytest.approx([first, second], rel=1e-15)
    assert measures.relative_median(ANSWERS) == pytest.approx([3 / 50, 1 / 20], rel=1e-15)


def test_relative_with_sanity_bound() -> None:
    second = (2 / 25 + 1 / 25 + 5 / 25 + 0) / 4
    assert measures.relative(ANSWERS, sanity=25)[1] == pytest.approx(second, rel=1e-15)
    with pytest.raises(ParameterError, match="sanity"):
        measures.relative(ANSWERS, sanity=0)
    nobody = RepeatedAnswers(np.zeros(1), np.ones((1, 1)), 100)
    with pytest.raises(ParameterError, match="sanity bound"):
        measures.relative(nobody)


def test_coverage_counts_the_ends() -> None:
    assert measures.coverage(ANSWERS).tolist() == [3 / 4, 3 / 4]
    with pytest.raises(ParameterError, match="intervals"):
        measures.coverage(RepeatedAnswers(TRUTH, VALUES, 100))


def test_usefulness() -> None:
    assert measures.useful(ANSWERS, 0.02).tolist() == [3 / 4, 3 / 4]
    # Three of four errors are at most 2 in either run, and all are at most 3 and 5.
    assert measures.alpha_for(ANSWERS, 0.25) == pytest.approx([0.02, 0.02], rel=1e-15)
    assert measures.alpha_for(ANSWERS, 0) == pytest.approx([0.03, 0.05], rel=1e-15)
    assert measures.rho_for(ANSWERS, 0.25) == pytest.approx([0.2, 0.2], rel=1e-15)
    with pytest.raises(ParameterError, match="beta"):
        measures.rho_for(ANSWERS, 1)


def test_bands_of_selectivity() -> None:
    bands = ANSWERS.by_selectivity((0, 0.1, 0.2, 0.5, 1))
    assert [(low, high, each.truth.tolist()) for low, high, each in bands] == [
        (0, 0.1, [0]),
        (0.1, 0.2, [10]),
        (0.2, 0.5, [20]),
        (0.5, 1, [50]),
    ]
    assert measures.absolute(bands[1][2]).tolist() == [2, 2]
    assert measures.coverage(bands[3][2]).tolist() == [0, 1]


def test_bias_of_each_question() -> None:
    mean, stderr = measures.bias_each(ANSWERS)
    assert mean.tolist() == [0, -1, 2.5, 1.5]
    # The deviation of +2 and -2 is sqrt(8), of two runs.
    assert stderr == pytest.approx([2, 0, 2.5, 1.5], rel=1e-15)


def test_spread_over_runs() -> None:
    found = spread(np.array([1.0, 3.0, 5.0]))
    assert (found.mean, found.deviation, found.least, found.largest, found.runs) == (3, 2, 1, 5, 3)
    assert found.stderr == pytest.approx(2 / 3**0.5, rel=1e-15)
    assert np.isnan(spread(np.array([1.0])).deviation)


def test_distance_of_tables() -> None:
    truth = np.array([[6, 2], [2, 0]])
    assert measures.marginal_distance(truth, truth) == 0
    assert measures.marginal_distance(truth, np.array([[0, 0], [0, 7.5]])) == 1.75
    assert measures.marginal_distance(truth, np.array([5, 3, 2, 0]).reshape(2, 2)) == (
        pytest.approx(0.2)
    )
    assert measures.marginal_distance(truth, np.zeros((2, 2))) == 1
    # Noise whose sum is near 0 does not blow the distance up.
    assert measures.marginal_distance(truth, np.array([[9, -3], [-7, 2]])) == pytest.approx(1.9)


def test_estimates_of_another_shape_are_refused() -> None:
    with pytest.raises(ParameterError, match="column for each"):
        RepeatedAnswers(TRUTH, VALUES[:, :2], 100)
