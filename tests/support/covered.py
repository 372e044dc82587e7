"""Coverage by simulation: the number of intervals that hold the truth, and its least value.

The number of intervals that hold the truth is binomial; a check fails below the quantile of
`FALSE_ALARM`, so that it fails by chance once in a million sets of draws (and draws are fixed).
With 3,500 intervals it finds, with a probability of 99 %, a true coverage of 86 % or less where
90 % is stated, of 92 % where 95 % is, and of 97.5 % where 99 % is. More than that may pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scipy.stats import binom

import scumble as sc

COPIES = 3500
LEVELS = (0.9, 0.95, 0.99)
FALSE_ALARM = 1e-6
FOUND = {0.9: 0.86, 0.95: 0.92, 0.99: 0.975}  # the true coverage that is found, by level


def least(level: float, copies: int = COPIES) -> int:
    """Return the least number of `copies` intervals that must hold the truth at this level."""
    return int(binom.ppf(FALSE_ALARM, copies, level))


def held(estimates: Iterable[sc.Estimate], truth: float, level: float) -> int:
    """Return how many intervals hold the truth. Equal estimates have the same interval."""
    total = 0
    for estimate, times in Counter(estimates).items():
        low, high = estimate.interval(level)
        total += times * (low <= truth <= high)
    return total


def check(estimates: Iterable[sc.Estimate], truth: float) -> None:
    """Fail if the intervals of some level hold the truth too rarely."""
    listed = list(estimates)
    assert len(listed) == COPIES
    for level in LEVELS:
        assert held(listed, truth, level) >= least(level), level
