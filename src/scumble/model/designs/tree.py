"""Hierarchies over the cells of one ordered attribute: measured levels, least squares, and the
fan-outs and budget shares that answer ranges well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scumble.model import stored
from scumble.model.designs.axis import Floats, Integers, cell_classes, nested_products


@dataclass(frozen=True)
class Tree:
    """A hierarchy of intervals of cells. Each measured level is one group.

    `fanouts` are the numbers of children of a node, from the parents of cells up; the last node of
    a level may have fewer. `weights` are the inverse variances of the noise of the levels up to a
    factor, from the cells up; a level of weight 0 is not measured.
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

    @property
    def pair_products(self) -> Integers:
        return nested_products(len(self.lengths))

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
        fanouts = stored.items(partial(stored.whole, least=1), data["fanouts"])
        weights = stored.items(stored.weight, data["weights"])
        if max(fanouts, default=1) > max(stored.whole(data["size"], 1), _LARGEST_FANOUT):
            raise ValueError("a node has more children than there are cells")
        if len(weights) != 1 + len(fanouts) or not weights[0]:
            raise ValueError("every level has a weight, and cells are measured")
        return cls(stored.whole(data["size"], 1), fanouts, weights)


# --- from one level of a tree to the next --------------------------------------------------------
# The children of a node are adjacent. All maps act along the middle of three directions.

Number = TypeVar("Number", np.int64, np.float64)


class Grouping(Protocol):
    """The children of every node of a level."""

    @property
    def above(self) -> int:
        """The number of parents."""

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """Return the sum over the children of each node."""

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """Return the number of each node, repeated for each of its children."""


@dataclass(frozen=True)
class EqualGroups:
    """Every node has the same number of children, except the last one, which may have fewer."""

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
    """Parent i has `sizes[i]` children."""

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


# --- weighted least squares on a tree, in two passes ---------------------------------------------
#
# Every level of a tree was measured with noise of its own variance, 1/weight, or not at all (weight
# 0). Upwards, the measurement of a node and the sum of its children's estimates are averaged by
# their inverse variances. Downwards, the correction of the parent is distributed among the children
# in proportion to their variances. The result is the weighted least squares estimate (Hay, Rastogi,
# Miklau, Suciu, VLDB 2010, here for any fan-outs and any weights).


class LevelLeastSquares:
    """The linear estimate of all leaves from all levels, and the transpose of that map.

    A level runs along the middle of three directions. Levels are ordered from the leaves up.
    """

    def __init__(self, leaves: int, steps: Sequence[Grouping], weights: Sequence[float]) -> None:
        self._steps = tuple(steps)
        self._own: list[Floats] = []  # weight of a node's own measurement in its estimate
        self._shares: list[Floats] = []  # share of each child in the correction of its parent
        variance = np.full((1, leaves, 1), 1 / weights[0])
        for step, weight in zip(steps, weights[1:], strict=True):
            summed = step.sum(variance)
            own = weight * summed / (1 + weight * summed)
            self._shares.append(_short(variance / step.spread(summed)))
            self._own.append(_short(own))
            variance = summed * (1 - own)

    def reconstruct(self, levels: Sequence[Floats | None]) -> Floats:
        """Return the estimates of the leaves; `None` stands for a level that was not measured."""
        estimates = [_there(levels[0])]
        sums = []
        for step, own, measured in zip(self._steps, self._own, levels[1:], strict=True):
            summed = step.sum(estimates[-1])
            sums.append(summed)
            estimates.append(summed if measured is None else summed + own * (measured - summed))
        best = estimates.pop()
        for step, share in zip(reversed(self._steps), reversed(self._shares), strict=True):
            best = estimates.pop() + share * step.spread(best - sums.pop())
        return best

    def adjoint(self, weights: Floats) -> list[Floats]:
        """Return, by level, the coefficient of every measurement in the weighted sum of leaves."""
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
    """Return a single number in place of many equal ones."""
    first = numbers[:, :1]
    return first if (numbers == first).all() else numbers


def _there(level: Floats | None) -> Floats:
    if level is None:
        raise ValueError("the leaves of a tree are always measured")
    return level


# --- plans of trees, made before any row is read -------------------------------------------------
#
# With complete blocks the covariance of the least squares estimate of the cells has the levels as
# eigenspaces: the means of the cells over the blocks of one level, minus those of the next. So the
# mean variance over all ranges is a sum with one term for each level.

Budget = Literal["uniform", "optimal"]

_LARGEST_FANOUT = 10**6  # that Hierarchy takes
_STEPS = 200  # iterations for the optimal shares; the last ones change nothing
_GRAIN = 1 << 12  # shares are rounded to multiples of 1/4096, then scaled to add up to 1


@dataclass(frozen=True)
class TreePlan:
    """Fan-outs from the leaves up, and the share of each level in the budget; a level of share 0 is
    not measured.
    """

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
        """The shares of the measured levels."""
        return tuple(share for share in self.shares if share)

    @property
    def error(self) -> float:
        """The mean variance of the count of a random range, in units of the variance of noise that
        spends the whole budget on one level.
        """
        return float(self._errors.sum())

    @property
    def total_error(self) -> float:
        """The part of `error` along the number of all rows, which vanishes where it is known."""
        return float(self._errors[-1])

    @property
    def _errors(self) -> Floats:
        """The terms of `error`, one for each level from the cells up."""
        return self._spread / np.cumsum(np.array(self.weights) * self._blocks)

    @property
    def _blocks(self) -> Floats:
        """The number of cells in a block of each level, from the cells up."""
        blocks = [1]
        for fanout in self.fanouts:
            blocks.append(min(blocks[-1] * fanout, self.size))
        return np.array(blocks, np.float64)

    @property
    def _spread(self) -> Floats:
        """For each level, the mean squared norm of the projection of a range on its eigenspace."""
        lengths = [_mean_square(self.size, int(block)) for block in self._blocks]
        return -np.diff([*lengths, 0.0])

    def optimal(self) -> TreePlan:
        """Return the plan with the same fan-outs and the shares that minimise `error`.

        Given the coefficients of the estimate, the best shares are proportional to the cube root
        (Gaussian: the square root) of the sum of their squares by level. Given the shares, the best
        coefficients are those of least squares. Alternating both never increases the error.
        """
        blocks, spread = self._blocks, self._spread
        power = 1 if self.gaussian else 2
        shares = np.array(self.shares, float)
        for _ in range(_STEPS):
            weights = shares**power
            inverse = np.cumsum(weights * blocks)
            # Minus the derivative of the error with respect to weight · block of each level.
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
    """Return the plan with these settings; without `fanout`, the one with the smallest `error`."""
    if fanout is not None:
        return _plan(size, fanout, root, gaussian, budget)
    return _best(size, root, gaussian, budget)


@lru_cache(maxsize=256)
def _best(size: int, root: bool, gaussian: bool, budget: Budget) -> TreePlan:
    """Return the best plan over all heights, each with the smallest fan-out that reaches it."""
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
    """Return the smallest fan-out >= 2 with fanout**height >= size."""
    fanout = max(int(float(size) ** (1 / height)) - 1, 2)
    while fanout**height < size:
        fanout += 1
    return fanout


def _mean_square(size: int, block: int) -> float:
    """Return the mean, over all ranges, of the squared norm of the range's indicator after every
    block is replaced by its mean.
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
    """Return the number of ranges that hold both of two cells of a block, summed over all pairs of
    cells and all blocks.

    Cells x <= y are in (x + 1)(size - y) ranges. For a block that begins at t this is the sum over
    i, j < length of (t + 1 + min(i, j))(size - t - max(i, j)). `first` is the sum of t + 1 over the
    blocks, `last` that of size - t, and `both` that of their product.
    """
    least = length * (length - 1) * (2 * length - 1) // 6
    most = length * length * (length - 1) - least
    product = (length * (length - 1) // 2) ** 2
    return length * length * both - first * most + last * least - blocks * product
