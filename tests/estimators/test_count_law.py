"""The exact law of a count under randomized response against enumeration."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

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
        law = RandomizedCount(rows, shown, float(t1), float(t0))
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
            law = RandomizedCount(rows, shown, float(t1), float(t0))
            low, high = law.interval(law.value, 0.95)
            assert low <= law.value <= high
            mean += probability * (shown - rows * t0) / (t1 - t0)
        assert mean == count


def test_score_limits_approach_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the exact range the normal limits take over: at the border the two agree to a
    percent.
    """
    law = RandomizedCount(rows=200_000, shown=30_000, inside=0.25, outside=0.12)
    exact = np.array(law.interval(law.value, 0.95))
    monkeypatch.setattr(count_law, "_EXACT_SPREAD", 0.0)
    score = np.array(law.interval(law.value, 0.95))
    width = exact[1] - exact[0]
    assert np.abs(exact - score).max() < 0.01 * width


@pytest.mark.parametrize("rows", [0, 1])
def test_tiny_tables(rows: int) -> None:
    for shown in range(rows + 1):
        law = RandomizedCount(rows, shown, 0.6, 0.2)
        low, high = law.interval(law.value, 0.95)
        assert low <= 0
        assert high >= rows
