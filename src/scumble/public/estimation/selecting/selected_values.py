"""Shrunk values of groups that were chosen because their estimates are large or small.

The largest of noisy numbers are on average too large: the noise helped to choose them. The expected
true number of a group, given its estimate, does not depend on how the group was chosen, if it is
known how the true numbers of all groups are spread. That is estimated from the estimates of all
groups, shown or not: it is the spread under which these are most likely (Kiefer and Wolfowitz,
1956), found by expectation and maximisation from equal shares on the estimates themselves.

The noise is taken as normal with the standard error of each group. This is a model, and so there is
no interval: that of the estimate holds without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from scumble.public.estimate import LEVEL, Estimate, Exact

SELECTED = (
    "a selected value is the value less the noise that is expected in it, because the groups were "
    "picked by their values; it follows a model of all groups, and the intervals are not of it"
)

Floats = npt.NDArray[np.float64]

_STEPS = 100
_EXTREME = 300  # of the largest and of the smallest estimates, each of which is taken by itself
_MIDDLE = 400  # that stand for all others


def selected_values(groups: Sequence[Estimate]) -> list[float | None]:
    """Return the expected true number of each group, given the estimates of all of them.

    Without a standard error above 0 there is nothing to expect, and None is returned.
    """
    values = np.array([each.value for each in groups], np.float64)
    errors = np.array([_standard_error(each) for each in groups])
    noisy = np.flatnonzero(np.isfinite(values) & np.isfinite(errors) & (errors > 0))
    if len(noisy) < 2:
        return [None] * len(groups)
    found: list[float | None] = [None] * len(groups)
    expected = _expected(values[noisy], errors[noisy])
    for place, number in zip(noisy.tolist(), expected.tolist(), strict=True):
        found[place] = number
    return found


def _standard_error(estimate: Estimate) -> float:
    """Return the standard error; of an answer with bounds, that of the longer side of its typical
    interval, the other of which may end at a bound.
    """
    if isinstance(estimate.law, Exact) or math.isnan(estimate.value):
        return 0.0
    if estimate.bounds is None:
        return estimate.stderr
    low, high = estimate.typical_interval(LEVEL)
    return max(high - estimate.value, estimate.value - low) / NormalDist().inv_cdf((1 + LEVEL) / 2)


def _expected(values: Floats, errors: Floats) -> Floats:
    places, weights = _representatives(values)
    support = values[places]
    likelihood = _likelihood(support, errors[places], support)
    shares = np.full(len(support), 1 / len(support))
    for _ in range(_STEPS):
        joint = likelihood * shares
        shares = weights @ (joint / joint.sum(1, keepdims=True))
    found = np.empty(len(values))
    for start in range(0, len(values), len(support)):
        part = slice(start, start + len(support))
        joint = _likelihood(values[part], errors[part], support) * shares
        found[part] = joint @ support / joint.sum(1)
    return found


def _likelihood(values: Floats, errors: Floats, support: Floats) -> Floats:
    """Return the densities of the estimates for each true number of the support, up to a factor."""
    away = (values[:, None] - support) / errors[:, None]
    nearest = np.abs(away).min(1, keepdims=True)
    density: Floats = np.exp((nearest**2 - away**2) / 2)
    return density


def _representatives(values: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the places of at most 1,000 estimates that stand for all, and their shares."""
    order = np.argsort(values, kind="stable")
    if len(order) <= 2 * _EXTREME + _MIDDLE:
        return order, np.full(len(order), 1 / len(order))
    ends = np.linspace(_EXTREME, len(order) - _EXTREME, _MIDDLE + 1).astype(np.intp)
    places = np.concatenate(
        (order[:_EXTREME], order[(ends[:-1] + ends[1:]) // 2], order[-_EXTREME:])
    )
    counts = np.concatenate((np.ones(_EXTREME), np.diff(ends), np.ones(_EXTREME)))
    return places, counts / len(order)
