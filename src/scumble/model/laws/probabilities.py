"""Binomial and Poisson probabilities, and confidence limits of a probability.

scipy.stats has all of them, and takes longer to import than most audits. These are made of the
functions of scipy.special that it calls itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def clopper_pearson_lower(times: int, tries: int, confidence: float) -> float:
    """Return a lower limit of the probability of an event that happened `times` in `tries`.

    The true probability is below it with a probability of at most 1 - `confidence` (Clopper and
    Pearson, 1934).
    """
    from scipy.special import betaincinv

    return 0.0 if times == 0 else float(betaincinv(times, tries - times + 1, 1 - confidence))


def clopper_pearson_upper(times: int, tries: int, confidence: float) -> float:
    """Return an upper limit of the probability of an event that happened `times` in `tries`.

    The true probability is above it with a probability of at most 1 - `confidence`.
    """
    from scipy.special import betaincinv

    return 1.0 if times == tries else float(betaincinv(times + 1, tries - times, confidence))


def binomial_at_most(number: int, trials: int, probability: float) -> float:
    """Return P(X ≤ `number`) for X binomial."""
    from scipy.special import betaincc

    if number < 0:
        return 0.0
    return float(betaincc(number + 1, trials - number, probability)) if number < trials else 1.0


def binomial_at_least(number: int, trials: int, probability: float) -> float:
    """Return P(X ≥ `number`) for X binomial."""
    from scipy.special import betainc

    if number <= 0:
        return 1.0
    return float(betainc(number, trials - number + 1, probability)) if number <= trials else 0.0


def binomial_range(trials: int, probability: float, tail: float) -> tuple[int, int]:
    """Return the smallest number k with P(X ≤ k) ≥ `tail`, and the smallest with P(X > k) ≤ `tail`,
    for X binomial.
    """

    def smallest(holds: Any) -> int:
        low, high = 0, trials  # it holds at `trials`
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        return low

    return (
        smallest(lambda k: binomial_at_most(k, trials, probability) >= tail),
        smallest(lambda k: binomial_at_least(k + 1, trials, probability) <= tail),
    )


def binomial_masses(numbers: Any, trials: int, probability: float) -> Floats:
    """Return P(X = k) for X binomial and every k of `numbers`."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.asarray(numbers, np.float64)
    inside = (k >= 0) & (k <= trials)
    k = np.where(inside, k, 0.0)
    ways = gammaln(trials + 1.0) - gammaln(k + 1) - gammaln(trials - k + 1)
    logs = ways + xlogy(k, probability) + xlog1py(trials - k, -probability)
    return np.where(inside, np.exp(logs), 0.0)


def poisson_masses(numbers: Any, mean: float) -> Floats:
    """Return P(X = k) for X Poisson and every k of `numbers`, which are not negative."""
    from scipy.special import gammaln, xlogy

    k = np.asarray(numbers, np.float64)
    found: Floats = np.exp(xlogy(k, mean) - gammaln(k + 1) - mean)
    return found
