"""Exact probabilities of private choices: of one of several scores, and of the k largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_SCORES = 64
_REACH = 45  # in scales of the noise: larger noise has a probability of e^-45


@lru_cache(maxsize=1 << 14)
def log_p_flipped(scores: tuple[int, ...], place: int, scale: float) -> float:
    """Return the log probability that permute-and-flip chooses the score at `place`.

    A score is accepted with probability p = exp((score - largest) / scale) when its turn comes,
    at a uniform time t of its own. It is chosen if it is accepted and none before it was:
    p ∫ Π (1 - t p_j) dt over all others. The integrand is a polynomial, whose integral is exact.

    >>> round(math.exp(log_p_flipped((0, 0), 1, 1.0)), 12)
    0.5
    """
    accepted = np.exp((np.array(scores) - max(scores)) / scale)
    points, weights = np.polynomial.legendre.leggauss(len(scores) // 2 + 1)
    times = (points + 1) / 2
    others = np.delete(accepted, place)
    before = np.prod(1 - times[:, None] * others, axis=1)
    return (scores[place] - max(scores)) / scale + math.log(float(before @ weights) / 2)


@lru_cache(maxsize=1 << 14)
def log_p_top(scores: tuple[int, ...], chosen: tuple[int, ...], scale: float) -> float:
    """Return the log probability that exactly the scores at `chosen` are the largest, in this
    order, after geometric noise of this scale; ties are broken at random.

    Whole noisy scores with random tie-breaks have the order of v = score + noise + u with uniform
    u. Between whole numbers the density of v is constant and its distribution function is linear.
    So the probability that v_k is below w and above all that were not chosen is a polynomial of w
    between whole numbers, and so is each further integral over v_(k-1), ..., v_1.
    """
    low = min(scores)
    levels = np.arange(max(scores) - low + math.ceil(_REACH * scale) + 1)
    below = np.ones((len(levels), 1))
    for place in range(len(scores)):
        if place not in chosen:
            below = _times(below, _distribution(scores[place] - low, levels, scale))
    for place in reversed(chosen):
        below = _integral(below * _mass(scores[place] - low, levels, scale)[:, None])
    return math.log(float(below[-1].sum()))


def _mass(score: int, levels: npt.NDArray[np.int64], scale: float) -> Floats:
    """Return the probabilities that the score is at each level after geometric noise."""
    noise = levels - score
    found: Floats = np.where(noise < 0, 0.0, -math.expm1(-1 / scale) * np.exp(-noise / scale))
    return found


def _distribution(score: int, levels: npt.NDArray[np.int64], scale: float) -> Floats:
    """Return P(v < level + u) as a polynomial of u for every level: a constant, and a slope."""
    mass = _mass(score, levels, scale)
    return np.column_stack([np.cumsum(mass) - mass, mass])


def _times(polynomials: Floats, linear: Floats) -> Floats:
    """Return the product of polynomials and linear functions, level by level."""
    found = np.zeros((len(polynomials), polynomials.shape[1] + 1))
    found[:, :-1] = polynomials * linear[:, :1]
    found[:, 1:] += polynomials * linear[:, 1:]
    return found


def _integral(densities: Floats) -> Floats:
    """Return the integrals of densities from the lowest level on, as polynomials of each level."""
    found = np.zeros((len(densities), densities.shape[1] + 1))
    found[:, 1:] = densities / np.arange(1, densities.shape[1] + 1)
    whole = found.sum(axis=1)
    found[:, 0] = np.cumsum(whole) - whole
    return found


def few(scores: Sequence[int]) -> bool:
    """Return whether the probabilities of a choice among these are computed."""
    return len(scores) <= MOST_SCORES
