"""How much Gaussian noise an (ε, δ) takes: exactly for discrete noise, and by the analytic formula
for continuous noise, to compare.

Bounds are rounded so that they hold: a δ is rounded up by more than floating point can lose, and
a variance is taken only if its δ, so rounded, is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scumble.model.laws.base import normal_cdf
from scumble.model.laws.law_gaussian import DiscreteGaussian

_LOST = 1e-12  # sums of exponentials up to e^-700 are good to a tenth of this, relatively;
_WIDE = 4096  # beyond this variance an expansion stands for the sum, good to a quarter of
_NEXT = 1e-3  # this times the sixth power of the bound over the variance
_STEPS = 40  # halvings: a variance is found to a part in 10^11
_GRID = 40  # bits of a variance


def discrete_delta(variance: Fraction, *, sensitivity: int, epsilon: Fraction) -> float:
    """The smallest δ, rounded up, with which a whole number plus discrete Gaussian noise of this
    parameter is (ε, δ)-DP, if one person changes the number by at most `sensitivity`.

    Canonne, Kamath, Steinke, NeurIPS 2020, theorem 7: δ = P(Y > εσ²/Δ - Δ/2) - e^ε P(Y > εσ²/Δ +
    Δ/2). A smaller change has a smaller δ, because the likelihood ratio of shifted noise is
    monotone, so that the best tests between two shifts are thresholds, which find larger shifts
    more easily.
    """
    law = DiscreteGaussian(variance)
    middle = epsilon * variance / sensitivity
    near = _above(law, middle - Fraction(sensitivity, 2))
    far = math.exp(epsilon) * _above(law, middle + Fraction(sensitivity, 2))
    lost = _LOST
    if variance > _WIDE:
        lost += _NEXT * float(epsilon / sensitivity + sensitivity / (2 * variance)) ** 6
    return max(near - far, 0.0) + lost * (near + far)


def discrete_variance(*, sensitivity: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest parameter of discrete Gaussian noise, found by search, that is (ε, δ)-DP."""

    def holds(variance: Fraction) -> bool:
        return discrete_delta(variance, sensitivity=sensitivity, epsilon=epsilon) <= delta

    return _smallest(holds, Fraction(sensitivity * sensitivity))


def analytic_delta(variance: float, *, sensitivity: float, epsilon: float) -> float:
    """The smallest δ with which continuous Gaussian noise of this variance is (ε, δ)-DP.

    Balle and Wang, ICML 2018, theorem 8.
    """
    ratio = sensitivity / math.sqrt(variance)
    near, far = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    return max(normal_cdf(near) - math.exp(epsilon) * normal_cdf(far), 0.0)


def analytic_variance(*, sensitivity: float, epsilon: float, delta: float) -> float:
    """The smallest variance of continuous Gaussian noise that is (ε, δ)-DP."""

    def holds(variance: Fraction) -> bool:
        found = analytic_delta(float(variance), sensitivity=sensitivity, epsilon=epsilon)
        return found <= delta

    return float(_smallest(holds, Fraction(sensitivity) ** 2))


def _above(law: DiscreteGaussian, bound: Fraction) -> float:
    """P(Y > bound): by symmetry a lower tail, which keeps its digits."""
    return law.cdf(-(math.floor(bound) + 1))


def _smallest(holds: Callable[[Fraction], bool], unit: Fraction) -> Fraction:
    """A variance that holds, next to one that does not: doubled or halved, then bisected, and
    rounded to few digits.
    """
    high = unit
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    grid = 1 << max(_GRID - math.frexp(float(high))[1], 0)
    short = Fraction(math.ceil(high * grid), grid)
    return short if holds(short) else high
