"""Hierarchical axis: levels, least squares, budget plan.

Trees over the cells of one ordered attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scumble.model.designs.axis import Floats, Integers, cell_classes


@dataclass(frozen=True)
class Tree:
    """Neighbouring cells in blocks, those in larger blocks, and so on; one group a measured level.

    `fanouts` are the children of a node, from those whose children are cells up; the last node of a
    level may have fewer. `weights` are inverse variances of the levels' noises up to a factor, from
    the cells up; a level of weight 0 is not measured.
    """

    kind: ClassVar[str] = "tree"
    signed: ClassVar[bool] = False

    size: int
    fanouts: tuple[int, ...]
    weights: tuple[float, ...]

    @cached_property
    def _steps(self) -> tuple[EqualGroups, ...]:
        steps: list[EqualGroups] = []
        below = self.size
        for children in self.fanouts:
            steps.append(EqualGroups(below, children))
            below = steps[-1].above
        return tuple(steps)

    @property
    def _measured(self) -> tuple[bool, ...]:
        return tuple(weight > 0 for weight in self.weights)

    @property
    def lengths(self) -> tuple[int, ...]:
        nodes = (self.size, *(step.above for step in self._steps))
        return tuple(n for n, there in zip(nodes, self._measured, strict=True) if there)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * sum(self._measured)

    @cached_property
    def _squares(self) -> LevelLeastSquares:
        return LevelLeastSquares(self.size, self._steps, self.weights)

    def nonnegative_gram(self, weights: Sequence[Fraction]) -> bool:
        return True

    @property
    def cell_classes(self) -> Integers:
        return cell_classes(self.size, self.fanouts)

    def measure(self, counts: Integers) -> list[Integers]:
        levels = [counts]
        for step in self._steps:
            levels.append(step.sum(levels[-1]))
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        given = iter(parts)
        return self._squares.reconstruct(
            [next(given) if there else None for there in self._measured]
        )

    def adjoint(self, weights: Floats) -> list[Floats]:
        levels = self._squares.adjoint(weights)
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "size": self.size,
            "fanouts": list(self.fanouts),
            "weights": list(self.weights),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tree:
        fanouts, weights = tuple(map(int, data["fanouts"])), tuple(map(float, data["weights"]))
        return cls(int(data["size"]), fanouts, weights)


# Steps from one level of a tree to the next: the children of each node are next to each other.
#
# A step acts along the middle direction of tensors of three.

Number = TypeVar("Number", np.int64, np.float64)


class Grouping(Protocol):
    """The children of every node of a level."""

    @property
    def above(self) -> int:
        """How many parents there are."""

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """The sums over the children of each node."""

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """Every node's number for each of its children."""


@dataclass(frozen=True)
class EqualGroups:
    """Every node has the same number of children, but the last one, which may have fewer."""

    below: int
    children: int

    @property
    def above(self) -> int:
        return -(-self.below // self.children)

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        before, length, after = tensor.shape
        whole = length // self.children
        head = tensor[:, : whole * self.children].reshape(before, whole, self.children, after)
        sums: NDArray[Number] = head.sum(axis=2)
        if whole == self.above:
            return sums
        tail = tensor[:, whole * self.children :].sum(axis=1, keepdims=True)
        return np.concatenate([sums, tail], axis=1)

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.repeat(tensor, self.children, axis=1)[:, : self.below]


@dataclass(frozen=True)
class FamilyGroups:
    """Every parent has a number of children of its own."""

    sizes: tuple[int, ...]

    @property
    def above(self) -> int:
        return len(self.sizes)

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.array([0, *accumulate(self.sizes[:-1])], np.intp)

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.add.reduceat(tensor, self._starts, axis=1)

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.repeat(tensor, self.sizes, axis=1)


# Weighted least squares on a tree, in two passes.
#
# Every level of a tree was measured with noise of its own variance, 1/weight, or not at all
# (weight 0). Upwards, a node's measurement and the sum of its children's estimates are averaged
# by their inverse variances; downwards, what the parent knows better is shared among the children
# in proportion to their variances. The result is the weighted least squares estimate (Hay,
# Rastogi, Miklau, Suciu, VLDB 2010, for any fan-outs and any weights).


class LevelLeastSquares:
    """The estimate of all leaves from all levels, and the transpose of that map.

    A level runs along the middle direction of tensors of three. Levels go from the leaves up.
    """

    def __init__(self, leaves: int, steps: Sequence[Grouping], weights: Sequence[float]) -> None:
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


# Plans of trees: fan-outs and shares of the budget that answer ranges well, known before any row
# is read.
#
# With whole blocks the least squares estimate of the cells has a covariance whose eigenspaces are
# the levels: the cells' means over the blocks of one level, minus those of the next. So the mean
# variance over all ranges is a sum with one term a level.

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
