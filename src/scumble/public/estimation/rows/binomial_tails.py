"""Binomial tails for any number of trials, up to 10^30 and more.

They are the regularised incomplete beta function, which scipy computes to eleven digits for every
number of trials. `scipy.special.bdtr` and `bdtrc` take the trials for a 32-bit number, and return
NaN, 0 or 1 from 2^31 on.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def at_most(numbers: Any, trials: int, probability: float) -> Any:
    """Return P(Bin(trials, probability) <= number) for every one of `numbers`."""
    from scipy.special import betaincc

    return _tails(betaincc, numbers, trials, probability, below=0.0)


def at_least(numbers: Any, trials: int, probability: float) -> Any:
    """Return P(Bin(trials, probability) >= number) for every one of `numbers`."""
    from scipy.special import betainc

    return _tails(betainc, np.asarray(numbers) - 1, trials, probability, below=1.0)


def _tails(function: Any, numbers: Any, trials: int, probability: float, below: float) -> Any:
    """Return `function(number + 1, trials - number, probability)` where 0 <= number < trials.

    The tail of smaller numbers is `below`, and that of larger ones is 1 - `below`.
    """
    numbers = np.asarray(numbers)
    tails = np.where(numbers < 0, below, 1 - below)
    usable = (numbers >= 0) & (numbers < trials)
    some = numbers[usable].astype(np.float64)
    tails[usable] = function(some + 1, float(trials) - some, probability)
    return tails
