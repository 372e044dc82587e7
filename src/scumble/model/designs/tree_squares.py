"""Weighted least squares on a tree, in two passes.

Every level of a tree was measured with noise of its own variance, 1/weight, or not at all (weight
0). Upwards, a node's measurement and the sum of its children's estimates are averaged by their
inverse variances; downwards, what the parent knows better is shared among the children in
proportion to their variances. The result is the weighted least squares estimate (Hay, Rastogi,
Miklau, Suciu, VLDB 2010, for any fan-outs and any weights).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.steps import Step


class TreeSquares:
    """The estimate of all leaves from all levels, and the transpose of that map.

    A level runs along the middle direction of tensors of three. Levels go from the leaves up.
    """

    def __init__(self, leaves: int, steps: Sequence[Step], weights: Sequence[float]) -> None:
        self._steps = tuple(steps)
        self._own: list[Floats] = []  # how much of a node's estimate is its own measurement
        self._shares: list[Floats] = []  # of what a parent knows better, by child
        variance = np.full((1, leaves, 1), 1 / weights[0])
        for step, weight in zip(steps, weights[1:], strict=True):
            summed = step.sum(variance)
            own = weight * summed / (1 + weight * summed)
            self._shares.append(_short(variance / step.spread(summed)))
            self._own.append(_short(own))
            variance = summed * (1 - own)

    def reconstruct(self, levels: Sequence[Floats | None]) -> Floats:
        """The leaves; `None` stands for a level that was not measured."""
        estimates = [_there(levels[0])]
        sums = []
        for step, own, measured in zip(self._steps, self._own, levels[1:], strict=True):
            summed = step.sum(estimates[-1])
            sums.append(summed)
            # Its own share of what the measurement says beyond the children.
            estimates.append(summed if measured is None else summed + own * (measured - summed))
        best = estimates.pop()
        for step, share in zip(reversed(self._steps), reversed(self._shares), strict=True):
            best = estimates.pop() + share * step.spread(best - sums.pop())
        return best

    def adjoint(self, weights: Floats) -> list[Floats]:
        """By level, what every measurement adds to the weighted sum of the leaves."""
        pulled = [weights]
        for step, share in zip(self._steps, self._shares, strict=True):
            pulled.append(step.sum(share * pulled[-1]))
        whole = pulled[-1]
        levels = []
        for place in range(len(self._steps) - 1, -1, -1):
            own = self._own[place] * whole
            levels.append(own)
            lower = self._steps[place].spread(whole - own - pulled[place + 1])
            whole = pulled[place] + lower
        return [whole, *reversed(levels)]


def _short(numbers: Floats) -> Floats:
    """One number in place of many equal ones."""
    first = numbers[:, :1]
    return first if (numbers == first).all() else numbers


def _there(level: Floats | None) -> Floats:
    if level is None:
        raise ValueError("the leaves of a tree are always measured")
    return level
