"""Does a sample come from a law? Chi-square, with a stated rate of false alarms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-6  # how often a true law is rejected


def rejects(counts: Sequence[int] | NDArray[Any], shares: Sequence[float]) -> bool:
    """Whether counts of outcomes are too far from the shares that a law gives them."""
    counts, expected = np.asarray(counts, float), np.asarray(shares, float) * np.sum(counts)
    assert expected.min() >= 5, "too few expected for chi-square"
    assert abs(sum(shares) - 1) < 1e-9
    distance = ((counts - expected) ** 2 / expected).sum()
    return bool(distance > stats.chi2.isf(ALARM, len(counts) - 1))


def rejects_law(sample: NDArray[Any], cdf: Callable[[float], float], edges: Sequence[int]) -> bool:
    """The same for whole numbers, cut at edges: (-inf, e1], (e1, e2], ..., (en, inf)."""
    below = [0.0, *(cdf(edge) for edge in edges), 1.0]
    counts = np.bincount(np.searchsorted(edges, sample.astype(float)), minlength=len(edges) + 1)
    return rejects(counts, np.diff(below).tolist())
