"""Error laws of numbers that are computed from estimates.

| law        | of what                                                                         |
|------------|---------------------------------------------------------------------------------|
| `Combined` | any formula of several estimates, whose errors may depend on each other         |
| `Quotient` | a quotient of sums or of averages, whose errors are known together              |
| `IntervalLaw` | an estimate whose interval is given by a function of the level               |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scumble.public.estimate import LEVEL, Estimate, Exact, Law, Undefined, Unknown
from scumble.public.estimation.selecting.interval_arithmetic import (
    EVERYTHING,
    Interval,
    apply,
    apply_interval,
    apply_stderr,
)
from scumble.public.sql.arithmetic import Apply, Constant, Node

COMBINED = "computed from {} estimates, each with its interval at 1 - α/{}"
QUOTIENT = "quotient of sums over rows; Fieller interval"
_STEPS = 60
_PRECISION = 0.01  # of the distance from the estimate to an end, which is rounded outwards
_BEYOND = 1.004  # how far to look beyond the place where a straight line is 0


@dataclass(frozen=True)
class IntervalLaw:
    """A law with a given standard error, whose interval is a function of the level alone."""

    stderr: float
    limits: Callable[[float], Interval]

    def interval(self, value: float, level: float) -> Interval:
        return self.limits(level)


@dataclass(frozen=True)
class Combined:
    """The law of a formula over estimates.

    With m estimates that have an error, each interval is taken at the level 1 - α/m. All of them
    hold together with probability 1 - α at least, whatever their dependence, and the interval of
    the formula has all values that it takes on them. The standard error is a bound to first order.
    """

    node: Node
    leaves: Mapping[Node, Estimate]

    @property
    def value(self) -> float:
        return _value(self.node, self.leaves)

    @property
    def stderr(self) -> float:
        return _stderr(self.node, self.leaves)

    def interval(self, value: float, level: float) -> Interval:
        each_level = _each_level(self.leaves, level)
        low, high = _interval(self.node, self.leaves, lambda each: each.interval(each_level))
        return (low, high) if math.isnan(value) else (min(low, value), max(high, value))


@dataclass(frozen=True)
class Quotient:
    """The law of a quotient: Fieller's interval.

    `differences(r, level)` returns estimates of sums over rows that fall by `slope` for each r, and
    of which one, or a mixture of them, is 0 for the true quotient. For a quotient of sums it is
    total - r · count, whose law knows how the errors of the two depend on each other. The interval
    holds every r for which 0 is between the least and the largest limit of the differences. It
    holds all r if 0 is in the interval of the divisor.
    """

    value: float
    divisor: Estimate
    slope: float
    differences: Callable[[float, float | None], list[Estimate]]

    @property
    def stderr(self) -> float:
        return self.differences(self.value, None)[0].stderr / abs(self.slope)

    def interval(self, value: float, level: float) -> Interval:
        low, high = self.divisor.interval(level)
        if low <= 0 <= high:
            return EVERYTHING

        def excess(r: float, side: int) -> float:
            """Return by how much 0 is inside of the limit that excludes an r far to a side."""
            limits = [each.interval(level) for each in self.differences(r, level)]
            if side * self.slope > 0:
                return max(most for _, most in limits)
            return -min(least for least, _ in limits)

        return self._end(excess, -1), self._end(excess, 1)

    def _end(self, excess: Callable[[float, int], float], side: int) -> float:
        """Return an excluded number that is hardly farther away than the last one that is not."""
        below = excess(self.value, side)
        if below <= 0:
            return self.value
        inside, outside = 0.0, below / abs(self.slope)  # distances from the value
        excluded = math.inf
        for _ in range(_STEPS):
            if math.isinf(outside):  # no number is excluded: the excess has no limit
                break
            above = excess(self.value + side * outside, side)
            slope = (below - above) / (outside - inside)
            if above < 0:
                excluded = outside
                if -above <= slope * _PRECISION * outside:
                    break
            else:
                inside, below = outside, above
            # Where a straight line is 0, and a little beyond.
            straight = inside + _BEYOND * below / slope if slope > 0 else math.inf
            farthest = 4 * outside if math.isinf(excluded) else (inside + 9 * excluded) / 10
            outside = min(max(straight, _BEYOND * inside), farthest)
            if not inside < outside:
                break
        return self.value + side * excluded


def combined(node: Node, leaves: Mapping[Node, Estimate]) -> Estimate:
    """Return the estimate of a formula over the estimates of its parts `leaves`."""
    law: Law = Combined(node, leaves)
    many = sum(not isinstance(each.law, Exact) for each in leaves.values())
    notes = tuple(dict.fromkeys(note for each in leaves.values() for note in each.notes))
    value = _value(node, leaves)
    parts = list(leaves.values())
    if math.isnan(value):
        law = _law_of_none(node, leaves, law)
    elif not many:
        law = Exact()
    if not many:
        return parts[0].derived(value, law, parts[0].method, notes, parts)
    if many <= 1:
        method = next((e.method for e in leaves.values() if not isinstance(e.law, Exact)), "")
    else:
        method = COMBINED.format(many, many)
    return parts[0].derived(value, law, method, notes, parts)


def _law_of_none(node: Node, leaves: Mapping[Node, Estimate], law: Law) -> Law:
    """Return the law of a formula without a value: `law` if too few people are why."""
    missing = [each for each in leaves.values() if math.isnan(each.value)]
    if any(isinstance(each.law, Unknown) for each in missing):
        return Unknown()
    return law if missing or _divides_by_few(node, leaves) else Undefined()


def _divides_by_few(node: Node, leaves: Mapping[Node, Estimate]) -> bool:
    """Return whether a formula has a quotient by a number of people that may be zero."""
    if node in leaves or not isinstance(node, Apply):
        return False
    divisor = node.parts[-1]
    few = node.name == "/" and _counts_people(divisor) and _may_be_zero(divisor, leaves)
    return few or any(_divides_by_few(part, leaves) for part in node.parts)


def _counts_people(node: Node) -> bool:
    """Return whether a formula is made of counts and sums alone."""
    if isinstance(node, Apply):
        return all(map(_counts_people, node.parts))
    return isinstance(node, Constant) or node.kind in ("count", "sum")


def _value(node: Node, leaves: Mapping[Node, Estimate]) -> float:
    if node in leaves:
        return leaves[node].value
    if isinstance(node, Constant):
        return node.value
    assert isinstance(node, Apply)  # noqa: S101  (every term is in a leaf)
    if node.name == "/" and _may_be_zero(node.parts[1], leaves):
        return math.nan
    return apply(node.name, [_value(part, leaves) for part in node.parts])


def _may_be_zero(node: Node, leaves: Mapping[Node, Estimate]) -> bool:
    """Return whether a divisor may be zero at `LEVEL` by its noise: then its quotients are nothing
    but noise, as `AverageLaw.few` says of averages.
    """
    stderr = _stderr(node, leaves)
    if not abs(_value(node, leaves)) < 3 * stderr < math.inf:
        return False
    level = _each_level(leaves, LEVEL)
    low, high = _interval(node, leaves, lambda each: each.noise_interval(level))
    return low <= 0 <= high


def _each_level(leaves: Mapping[Node, Estimate], level: float) -> float:
    """Return the level of each interval if all that have an error are to hold together."""
    uncertain = sum(not isinstance(each.law, Exact) for each in leaves.values())
    return 1 - (1 - level) / max(uncertain, 1)


def _interval(
    node: Node, leaves: Mapping[Node, Estimate], limits: Callable[[Estimate], Interval]
) -> Interval:
    """Return the limits of a formula, given those of its leaves."""
    if node in leaves:
        return limits(leaves[node])
    if isinstance(node, Constant):
        return node.value, node.value
    assert isinstance(node, Apply)  # noqa: S101
    return apply_interval(node.name, [_interval(part, leaves, limits) for part in node.parts])


def _stderr(node: Node, leaves: Mapping[Node, Estimate]) -> float:
    if node in leaves:
        return leaves[node].stderr
    if isinstance(node, Constant):
        return 0.0
    assert isinstance(node, Apply)  # noqa: S101
    values = [_value(part, leaves) for part in node.parts]
    return apply_stderr(node.name, values, [_stderr(part, leaves) for part in node.parts])
