"""Averages of noisy cells: coverage by exact enumeration of the noise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from scumble.families.histogram.read.cells import CellsRatio, NoisyCells
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum


def _cells(noise: DiscreteLaplace) -> NoisyCells:
    """Cells with this noise, in a table whose number of rows is not known."""
    return NoisyCells(noise, 0, None)


def _coverage(noise: DiscreteLaplace, counts: tuple[int, int], weights: tuple[float, float]):
    """Coverage at 90, 95 and 99 % for two cells; noise beyond the window counts as missed."""
    window = range(-math.ceil(9 * noise.scale) - 2, math.ceil(9 * noise.scale) + 3)
    truth = np.dot(counts, weights) / sum(counts)
    covered = dict.fromkeys((0.9, 0.95, 0.99), 0.0)
    for first in window:
        for second in window:
            noisy = np.array([counts[0] + first, counts[1] + second], float)
            total, count = float(noisy @ weights), float(noisy.sum())
            law = CellsRatio(total, count, _cells(noise), np.array(weights), np.ones(2))
            for level in covered:
                low, high = law.interval(law.value, level) if count else (-math.inf, math.inf)
                if low <= truth + 1e-9 and truth - 1e-9 <= high:
                    covered[level] += noise.pmf(first) * noise.pmf(second)
    return covered


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1", "2.28", "2.5", "3"])
@pytest.mark.parametrize(
    ("counts", "weights"),
    [((0, 1000), (0.0, 10.0)), ((500, 500), (0.0, 10.0)), ((3, 7), (1.0, 2.5))],
)
def test_two_cells(epsilon: str, counts: tuple[int, int], weights: tuple[float, float]) -> None:
    covered = _coverage(DiscreteLaplace(1 / Fraction(epsilon)), counts, weights)
    assert all(share >= level for level, share in covered.items())


def test_error_of_a_ratio_against_the_exact_law(subtests: pytest.Subtests) -> None:
    """For the true ratio 0, `total - 0 * count` is a sum of noises of known law."""
    for terms, epsilon in product(
        [{1: 1}, {1: 2}, {1: 40}, {1: 2000}, {1: 30, 5: 2}, {1: 100, 50: 1}, {1: 1, 2: 1, 3: 1}],
        ["0.05", "0.5", "1", "2", "3", "5", "20"],
    ):
        with subtests.test(terms=terms, epsilon=epsilon):
            noise = DiscreteLaplace(1 / Fraction(epsilon))
            exact = NoiseSum(noise, terms)
            weights, cells = (np.array(list(part), float) for part in (terms, terms.values()))
            law = CellsRatio(0.0, 1.0, _cells(noise), weights, cells)
            for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999):
                reach = law.half_width(0.0, level)
                outside = 2 * exact.cdf(math.ceil(-reach) - 1)
                assert 1 - outside >= level - exact.approximation_error


def test_a_count_that_may_be_zero_leaves_all_that_an_average_can_be() -> None:
    law = CellsRatio(
        10.0, 2.0, _cells(DiscreteLaplace(Fraction(5))), np.array([0.0, 10.0]), np.array([5.0, 5.0])
    )
    assert law.interval(law.value, 0.95) == (0.0, 10.0)
    assert law.notes


def test_cells_of_one_weight_have_their_average_exactly() -> None:
    law = CellsRatio(
        30.0, 10.0, _cells(DiscreteLaplace(Fraction(1))), np.array([3.0]), np.array([7.0])
    )
    assert law.interval(law.value, 0.95) == (3.0, 3.0)
