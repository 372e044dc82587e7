"""Binomial probabilities and tails for any number of trials, up to 10^30 and more.

`at_most` is the regularised incomplete beta function, which scipy computes to eleven digits for
every number of trials. `scipy.special.bdtr` takes the trials for a 32-bit number, and returns NaN,
0 or 1 from 2^31 on.

`binomial_window` and `poisson_window` list all probabilities that matter, from the ratios of
neighbours. No logarithm of a large factorial is taken, so no digit is lost for many trials.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_FEW = 4096  # trials, whose windows are kept

Window = tuple[int, npt.NDArray[np.float64]]  # a number, and the probabilities from it on


def binomial_window(trials: int, probability: float) -> Window:
    """Return the first number of a window, and P(Bin(trials, probability) = number) in the window.

    Numbers outside of it have less than 1e-30 of the probability together (Bernstein's inequality).
    Windows of few trials are kept, for the intervals of many counts need the same ones.
    """
    return _kept(trials, probability) if trials <= _FEW else _window(trials, probability)


def _window(trials: int, probability: float) -> Window:
    if probability > 0.5:
        first, mirrored = binomial_window(trials, 1 - probability)
        return trials - first - len(mirrored) + 1, mirrored[::-1]
    first, last = _window_limits(trials * probability, trials * probability * (1 - probability))
    last = min(last, trials)
    numbers = np.arange(first, last, dtype=np.float64)
    ratios = (float(trials) - numbers) * (probability / (1 - probability)) / (numbers + 1)
    return first, _from_ratios(ratios)


_kept = lru_cache(maxsize=2048)(_window)  # of at most 7 kB each


def poisson_window(mean: float) -> Window:
    """Return the window of the Poisson law, as `binomial_window` does."""
    first, last = _window_limits(mean, mean)
    return first, _from_ratios(mean / np.arange(first + 1, last + 1))


def _window_limits(mean: float, variance: float) -> tuple[int, int]:
    reach = 12 * math.sqrt(variance) + 40
    return max(0, math.floor(mean - reach)), math.ceil(mean + reach)


def _from_ratios(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities of which each is the one before times a ratio, and which add up to 1."""
    weights = np.empty(len(ratios) + 1)
    weights[0] = 1.0
    np.cumprod(ratios, out=weights[1:])
    weights /= weights.sum()
    weights.flags.writeable = False
    return weights


def sum_at_least(one: Window, other: Window, number: int) -> tuple[float, float]:
    """Return P(X + Y >= number) and P(X + Y >= number - 1).

    X and Y are independent, and given by their windows.
    """
    (first, chances), (second, others) = one, other
    tails = np.zeros(len(others) + 1)
    np.cumsum(others[::-1], out=tails[1:])  # of the last numbers of the window
    rest = min(max(number - first - second, -len(chances)), len(chances) + len(others))
    start = len(others) - rest
    found = tails.take(np.arange(start, start + len(chances) + 1), mode="clip")
    return float(chances @ found[:-1]), float(chances @ found[1:])


def sum_at_most(one: Window, other: Window, number: int) -> tuple[float, float]:
    """Return P(X + Y <= number) and P(X + Y <= number - 1), as `sum_at_least` does."""
    (first, chances), (second, others) = one, other
    tails = np.zeros(len(others) + 1)
    np.cumsum(others, out=tails[1:])
    rest = min(max(number - first - second, -len(chances)), len(chances) + len(others))
    found = tails.take(np.arange(rest + 1, rest - len(chances), -1), mode="clip")
    return float(chances @ found[:-1]), float(chances @ found[1:])


def at_most(numbers: Any, trials: int, probability: float) -> Any:
    """Return P(Bin(trials, probability) <= number) for every one of `numbers`."""
    from scipy.special import betaincc

    numbers = np.asarray(numbers)
    tails = np.where(numbers < 0, 0.0, 1.0)
    usable = (numbers >= 0) & (numbers < trials)
    some = numbers[usable].astype(np.float64)
    tails[usable] = betaincc(some + 1, float(trials) - some, probability)
    return tails
