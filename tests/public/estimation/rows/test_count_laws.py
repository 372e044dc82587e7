"""The exact law of a count under randomized response against enumeration."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, poisson

from scumble.public.estimation.rows import count_laws
from scumble.public.estimation.rows.count_laws import RandomizedCount


def _pmf(rows: int, count: int, inside: Fraction, outside: Fraction) -> list[Fraction]:
    """The law of Bin(count, inside) + Bin(rows - count, outside), exactly."""
    law = [Fraction(0)] * (rows + 1)
    for a, b in itertools.product(range(count + 1), range(rows - count + 1)):
        one = comb(count, a) * inside**a * (1 - inside) ** (count - a)
        other = comb(rows - count, b) * outside**b * (1 - outside) ** (rows - count - b)
        law[a + b] += one * other
    return law


def test_exact_coverage_for_every_count(subtests: pytest.Subtests) -> None:
    for level, (inside, outside) in itertools.product(
        [0.9, 0.95, 0.99], [("3/5", "1/5"), ("1/10", "1/20"), ("19/20", "1/3")]
    ):
        with subtests.test(level=level, inside=inside, outside=outside):
            rows, t1, t0 = 14, Fraction(inside), Fraction(outside)
            limits = []
            for shown in range(rows + 1):
                law = RandomizedCount(rows, shown, float(t1 - t0), float(t0))
                limits.append(law.interval(law.value, level))
            for count in range(rows + 1):
                law = _pmf(rows, count, t1, t0)
                covered = sum(
                    p for p, (low, high) in zip(law, limits, strict=True) if low <= count <= high
                )
                assert covered >= level


def test_value_is_unbiased_and_inside_its_interval() -> None:
    rows, t1, t0 = 9, Fraction(3, 5), Fraction(1, 5)
    for count in range(rows + 1):
        mean = Fraction(0)
        for shown, probability in enumerate(_pmf(rows, count, t1, t0)):
            law = RandomizedCount(rows, shown, float(t1 - t0), float(t0))
            low, high = law.interval(law.value, 0.95)
            assert low <= law.value <= high
            mean += probability * (shown - rows * t0) / (t1 - t0)
        assert mean == count


def test_normal_tails_are_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the exact range the normal law takes over: at the border the limits agree to a row."""
    law = RandomizedCount(rows=200_000, shown=30_000, keep=0.13, outside=0.12)
    assert law.exact
    exact = np.array([law.interval(law.value, level) for level in (0.9, 0.95, 0.99, 0.999)])
    monkeypatch.setattr(count_laws, "_EXACT_STDERR", 0.0)
    normal = np.array([law.interval(law.value, level) for level in (0.9, 0.95, 0.99, 0.999)])
    assert np.abs(exact - normal).max() <= 1


def test_rare_values_of_a_large_table(subtests: pytest.Subtests) -> None:
    """Of 200,000 rows none truly counts, and so few are expected to show that the shown number is
    far from normal, although it would be normal if all rows counted.
    """
    for expected, level in itertools.product([0.0168, 0.1, 1.0, 3.0], [0.9, 0.95, 0.99]):
        with subtests.test(expected=expected, level=level):
            rows, keep, outside = 200_000, 0.5, expected / 200_000
            covered = 0.0
            for shown in range(30):
                law = RandomizedCount(rows, shown, keep, outside)
                low, _ = law.interval(law.value, level)
                covered += binom.pmf(shown, rows, outside) * (low <= 0)
            assert covered >= level


@pytest.mark.parametrize("keep", [1e-12, 1e-15, 1e-17, 1e-200])
def test_tiny_keep(keep: float) -> None:
    law = RandomizedCount(rows=100, shown=60, keep=keep, outside=0.5)
    assert law.value == pytest.approx(10 / keep)
    assert law.stderr == pytest.approx(5 / keep)
    low, high = law.interval(law.value, 0.95)
    assert low <= 0
    assert high >= 100


@pytest.mark.parametrize("rows", [0, 1])
def test_tiny_tables(rows: int) -> None:
    for shown in range(rows + 1):
        law = RandomizedCount(rows, shown, 0.4, 0.2)
        low, high = law.interval(law.value, 0.95)
        assert low <= 0
        assert high >= rows


def test_a_few_true_tuples_of_a_huge_domain(subtests: pytest.Subtests) -> None:
    """Four of at most six tuples are true, each shown with probability 1/2, and three false ones
    are expected: Bin(4, 1/2) + Poisson(3) to within the probability of a false one.
    """
    for level, rows in itertools.product([0.9, 0.95, 0.99], [10**12, 10**30, 10**300]):
        with subtests.test(level=level, rows=rows):
            outside = 3 / rows
            for count in (0, 4, 6):
                covered = 0.0
                for shown in range(60):
                    law = RandomizedCount(rows, shown, 0.5, outside, most=6, expected=3.0)
                    assert law.value == pytest.approx((shown - 3) / 0.5)
                    low, high = law.interval(law.value, level)
                    first = np.arange(count + 1)
                    chances = binom.pmf(first, count, 0.5) * poisson.pmf(shown - first, 3.0)
                    covered += chances.sum() * (low <= count <= high)
                assert covered >= level


def test_poisson_tails_are_the_binomial_ones() -> None:
    """At the border between the two laws the limits are the same."""
    rows = 10**9
    for shown in (0, 5, 15, 40):
        limits = []
        for outside in (0.999e-8, 1.001e-8):
            law = RandomizedCount(rows, shown, 0.5, outside, most=1000)
            limits.append(law.interval(10 * 2.0, 0.95))
        assert limits[0] == pytest.approx(limits[1], abs=1)


def test_more_rows_than_floats_can_count() -> None:
    law = RandomizedCount(10**400, 30, 0.5, 0.0, most=50, expected=10.0)
    assert law.value == 40
    low, high = law.interval(law.value, 0.95)
    assert 20 < low < 40 <= high == 50


def test_no_more_can_count_than_are_there() -> None:
    law = RandomizedCount(10_000, 60, 0.5, 0.005, most=12)
    assert law.interval(law.value, 0.99)[1] == max(law.value, 12)
    assert RandomizedCount(10_000, 60, 0.5, 0.005, most=0).interval(0.0, 0.9) == (0, 0)
