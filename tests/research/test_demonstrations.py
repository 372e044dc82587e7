"""Demonstrations of the survey's methods: their estimates and their privacy, by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from research import demonstrations as shown
from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.sampling.source import Keystream


def test_a_projection_is_unbiased_with_its_variance():
    """Over all 64 matrices of two sums of three cells; the noise adds what the formula says."""
    counts, query = np.array([3, 0, 5]), np.array([1.0, 2.0, -1.0])
    found = []
    for entries in product((-1, 1), repeat=6):
        matrix = np.array(entries).reshape(2, 3)
        found.append(float((matrix @ query) @ (matrix @ counts)) / 2)
    epsilon = Fraction(1)
    noise = DiscreteLaplace(2 / epsilon).variance * float(query @ query) / 2
    assert np.mean(found) == pytest.approx(float(query @ counts))
    wanted = shown.projection_variance(query, counts, 2, epsilon)
    assert np.var(found) + noise == pytest.approx(wanted)


def test_a_row_changes_every_sum_of_a_projection_by_one():
    matrix = shown.signs(8, 5, seed=3)
    assert np.abs(matrix).sum(axis=0).tolist() == [8] * 5
    sums = shown.project(np.array([1, 2, 3, 4, 5]), 8, Fraction(1), 3, Keystream(1))
    query = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    assert shown.read_projection(query, sums, 3) == pytest.approx((matrix[:, 2] @ sums) / 8)
    with pytest.raises(ParameterError, match="at most"):
        shown.signs(1 << 14, 1 << 14, seed=1)


def test_products_of_compressed_rows_are_unbiased():
    """Over all signs of three people; noise of variance v adds v to the diagonal, which is taken
    away again. The sampler itself: 400 draws, within five standard errors.
    """
    table = np.array([[1, 0], [1, 1], [0, 1]])
    mean = np.zeros((2, 2))
    for entries in product((-1, 1), repeat=3):
        summed = np.array(entries) @ table
        mean += np.outer(summed, summed) / 8
    assert mean == pytest.approx(table.T @ table)
    epsilon, stream = Fraction(4), Keystream(2)
    drawn = [
        shown.read_products(shown.compress_rows(table, 2, epsilon, 2, stream), epsilon, 2)
        for _ in range(400)
    ]
    errors = np.std(drawn, axis=0) / 20
    assert (np.abs(np.mean(drawn, axis=0) - table.T @ table) < 5 * errors).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_blr_keeps_its_promise(epsilon):
    """All tables of three people over three cells, and all that differ in one row."""
    queries = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    worst = 0.0
    for counts in shown.small_tables(3, 3):
        law = shown.blr_weights(counts, queries, 2, epsilon)
        assert sum(law.values()) == pytest.approx(1)
        for one, other in product(range(3), repeat=2):
            if one != other and counts[one]:
                moved = list(counts)
                moved[one] -= 1
                moved[other] += 1
                near = shown.blr_weights(moved, queries, 2, epsilon)
                worst = max(worst, *(abs(math.log(law[t] / near[t])) for t in law))
    assert 0.3 * float(epsilon) < worst <= float(epsilon) * (1 + 1e-9)


def test_blr_is_guarded_by_size():
    assert shown.blr_size(8, 0.3) == 16
    with pytest.raises(ParameterError, match="more than 200000 tables"):
        list(shown.small_tables(40, 20))
