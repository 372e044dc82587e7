"""Zero-concentrated differential privacy in terms of ε and δ, and back.

Every function gives a bound that holds: for any order α > 1 the formulas are theorems, so an order
that is not quite the best one only costs a little, and what floating point may lose is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

_SLACK = 1e-9  # far more than floating point can lose in the formulas below
_STEPS = 200


def log_delta(rho: float, epsilon: float) -> float:
    """The logarithm of a δ such that ρ-zCDP is (ε, δ)-DP.

    Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12 with the divergence αρ:
    δ = exp((α - 1)(αρ - ε)) / (α - 1) · (1 - 1/α)^α.
    """
    least = _least(lambda order: _log_delta(rho, epsilon, order))
    return min(least + _SLACK * (1 + abs(least)), 0.0)


def epsilon_for(rho: Fraction | float, delta: Fraction | float) -> float:
    """An ε such that ρ-zCDP is (ε, δ)-DP."""
    loss, log = float(rho), math.log(float(delta))

    def bound(order: float) -> float:
        return order * loss + (log_constant(order - 1) - log) / (order - 1)

    return max(_least(bound), 0.0) * (1 + _SLACK)


def rho_for(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """A ρ, as large as can be found, such that ρ-zCDP is (ε, δ)-DP.

    >>> round(float(rho_for(1, 1e-9)), 6)
    0.014973
    """
    target, log = float(epsilon), math.log(float(delta))
    low, high = 0.0, target
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle, target) <= log else (low, middle)
    return Fraction(low)


def surprise(rho: Fraction | float, delta: Fraction | float) -> float:
    """A loss that is exceeded with a probability of at most δ under ρ-zCDP: ρ + 2√(ρ ln(1/δ)).

    Bun, Steinke, TCC 2016, lemma 3.5. It bounds what an attacker's odds can grow by, which the ε of
    an (ε, δ) statement does not.
    """
    loss = float(rho)
    return (loss + 2 * math.sqrt(loss * -math.log(float(delta)))) * (1 + _SLACK)


def _log_delta(rho: float, epsilon: float, order: float) -> float:
    return (order - 1) * (order * rho - epsilon) + log_constant(order - 1)


def log_constant(more: float) -> float:
    """The logarithm of (1 - 1/α)^α / (α - 1) for the order α = 1 + `more`, written so that nothing
    cancels, be α close to 1 or large.
    """
    return -(math.log1p(more) + more * math.log1p(1 / more))


def _least(bound: Callable[[float], float]) -> float:
    """The least value over orders 1 + e^x; the bounds fall and then rise along x."""
    low, high = -30.0, 60.0
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(1 + math.exp(left)) <= bound(1 + math.exp(right)):
            high = right
        else:
            low = left
    return bound(1 + math.exp((low + high) / 2))
