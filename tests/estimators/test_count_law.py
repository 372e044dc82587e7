"""The exact law of a count under randomized response against enumeration."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from scumble.estimators import count_law
from scumble.estimators.count_law import RandomizedCount


def _pmf(rows: int, count: int, inside: Fraction, outside: Fraction) -> list[Fraction]:
    """The law of Bin(count, inside) + Bin(rows - count, outside), exactly."""
    law = [Fraction(0)] * (rows + 1)
    for a, b in itertools.product(range(count + 1), range(rows - count + 1)):
        one = comb(count, a) * inside**a * (1 - inside) ** (count - a)
        other = comb(rows - count, b) * outside**b * (1 - outside) ** (rows - count - b)
        law[a + b] += one * other
    return law


@pytest.mark.parametrize(
    ("inside", "outside"), [("3/5", "1/5"), ("1/10", "1/20"), ("19/20", "1/3")]
)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_exact_coverage_for_every_count(inside: str, outside: str, level: float) -> None:
    rows, t1, t0 = 14, Fraction(inside), Fraction(outside)
    limits = []
    for shown in range(rows + 1):
        law = RandomizedCount(rows, shown, float(t1 - t0), float(t0))
        limits.append(law.interval(law.value, level))
    for count in range(rows + 1):
        law = _pmf(rows, count, t1, t0)
        covered = sum(p for p, (low, high) in zip(law, limits, strict=True) if low <= count <= high)
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
    monkeypatch.setattr(count_law, "_EXACT_SPREAD", 0.0)
    normal = np.array([law.interval(law.value, level) for level in (0.9, 0.95, 0.99, 0.999)])
    assert np.abs(exact - normal).max() <= 1


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("expected", [0.0168, 0.1, 1.0, 3.0])
def test_rare_values_of_a_large_table(expected: float, level: float) -> None:
    """Of 200,000 rows none truly counts, and so few are expected to show that the shown number is
    far from normal, although it would be normal if all rows counted.
    """
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
