"""Plans of trees: fan-outs and shares of the budget that answer ranges well, known before any row
is read.

With whole blocks the least squares estimate of the cells has a covariance whose eigenspaces are the
levels: the cells' means over the blocks of one level, minus those of the next. So the mean variance
over all ranges is a sum with one term a level.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from scumble.model.designs.axis import Floats

Budget = Literal["uniform", "optimal"]

_STEPS = 200  # of the optimal shares: each makes the error smaller, the last ones by nothing
_GRAIN = 1 << 12  # shares are whole numbers of this part, before they are made to add up to 1


@dataclass(frozen=True)
class TreePlan:
    """Fan-outs from the leaves up, and what each level gets of the budget: 0 is not measured."""

    size: int
    fanouts: tuple[int, ...]
    shares: tuple[Fraction, ...]
    gaussian: bool

    @property
    def weights(self) -> tuple[float, ...]:
        """Inverse variances of the noise, up to a factor."""
        power = 1 if self.gaussian else 2
        return tuple(float(share**power) for share in self.shares)

    @property
    def measured(self) -> tuple[Fraction, ...]:
        """The shares of the levels that get some."""
        return tuple(share for share in self.shares if share)

    @property
    def error(self) -> float:
        """The mean variance of the count of a random range, in units of the variance that noise has
        if it gets the whole budget for one level.
        """
        inverse = np.cumsum(np.array(self.weights) * self._blocks)
        return float(self._spread @ (1 / inverse))

    @property
    def _blocks(self) -> Floats:
        """The cells of a block of each level, from the cells up."""
        blocks = [1]
        for fanout in self.fanouts:
            blocks.append(min(blocks[-1] * fanout, self.size))
        return np.array(blocks, np.float64)

    @property
    def _spread(self) -> Floats:
        """By level, the mean squared length of its part of a range."""
        lengths = [_mean_square(self.size, int(block)) for block in self._blocks]
        return -np.diff([*lengths, 0.0])

    def optimal(self) -> TreePlan:
        """The same fan-outs with the shares of the levels that make `error` least.

        Given the coefficients of the estimate the best shares are in proportion to the cube root
        (Gaussian: the square root) of the sum of their squares by level; given the shares the best
        coefficients are those of least squares. Taken in turns, both only make the error smaller.
        """
        blocks, spread = self._blocks, self._spread
        power = 1 if self.gaussian else 2
        shares = np.array(self.shares, float)
        for _ in range(_STEPS):
            weights = shares**power
            inverse = np.cumsum(weights * blocks)
            # What the levels from each one up leave of the error, by its weight.
            pulled = np.cumsum((spread / inverse**2)[::-1])[::-1]
            shares = (weights**2 * blocks * pulled) ** (1 / (power + 1))
            shares /= shares.sum()
        grains = np.maximum(np.round(shares * _GRAIN), [1, *[0] * len(self.fanouts)])
        total = int(grains.sum())
        exact = tuple(Fraction(int(grain), total) for grain in grains)
        return TreePlan(self.size, self.fanouts, exact, self.gaussian)


def tree_plan(
    size: int, *, fanout: int | None, root: bool, gaussian: bool, budget: Budget
) -> TreePlan:
    """The plan with these settings; without a fan-out, the one that answers ranges best."""
    if fanout is not None:
        return _plan(size, fanout, root, gaussian, budget)
    return _best(size, root, gaussian, budget)


@lru_cache(maxsize=256)
def _best(size: int, root: bool, gaussian: bool, budget: Budget) -> TreePlan:
    """Of all heights, each with the smallest fan-out that reaches it."""
    heights = range(1, size.bit_length() + 1)
    fanouts = dict.fromkeys(_least_fanout(size, height) for height in heights)
    plans = [_plan(size, fanout, root, gaussian, budget) for fanout in fanouts]
    return min(plans, key=lambda plan: plan.error)


def _plan(size: int, fanout: int, root: bool, gaussian: bool, budget: Budget) -> TreePlan:
    levels, nodes = 0, size
    while nodes > 1:
        levels, nodes = levels + 1, -(-nodes // fanout)
    measured = max(levels + root, 1)  # a single cell is its own root
    shares = [Fraction(1, measured)] * measured + [Fraction(0)] * (levels + 1 - measured)
    plan = TreePlan(size, (fanout,) * levels, tuple(shares), gaussian)
    return plan.optimal() if budget == "optimal" else plan


def _least_fanout(size: int, height: int) -> int:
    """The smallest number, from 2 on, whose power of that height is not below the size."""
    fanout = max(int(float(size) ** (1 / height)) - 1, 2)
    while fanout**height < size:
        fanout += 1
    return fanout


def _mean_square(size: int, block: int) -> float:
    """The mean over all ranges of the squared length of what is left of a range's indicator if
    every block is replaced by its mean.
    """
    whole, rest = divmod(size, block)
    places = whole * (whole - 1) // 2  # the sums of 0, 1, ... and of their squares
    squares = places * (2 * whole - 1) // 3
    first, last = block * places + whole, size * whole - block * places
    both = size * first - block * block * squares - block * places
    total = Fraction(_pairs(block, whole, first, last, both), block)
    if rest:
        start, left = size - rest + 1, rest
        total += Fraction(_pairs(rest, 1, start, left, start * left), rest)
    return float(2 * total / (size * (size + 1)))


def _pairs(length: int, blocks: int, first: int, last: int, both: int) -> int:
    """How many ranges hold both of two cells of a block, over all pairs and all blocks.

    Cells x <= y are in (x + 1)(size - y) ranges. With a block that begins at t that is the sum over
    i, j below its length of (first + min)(last - max), first = t + 1 and last = size - t; the sums
    of these and of their product over the blocks are given.
    """
    least = length * (length - 1) * (2 * length - 1) // 6
    most = length * length * (length - 1) - least
    product = (length * (length - 1) // 2) ** 2
    return length * length * both - first * most + last * least - blocks * product
