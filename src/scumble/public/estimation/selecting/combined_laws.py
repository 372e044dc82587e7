"""Error laws of numbers that are computed from estimates.

| law        | of what                                                                         |
|------------|---------------------------------------------------------------------------------|
| `Combined` | any formula of several estimates, whose errors may depend on each other         |
| `Within`   | an estimate whose interval is given by a function of the level                  |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from scumble.public.estimate import Estimate, Exact, Law
from scumble.public.estimation.interval_laws import Scaled, Shifted
from scumble.public.estimation.selecting.interval_arithmetic import (
    Interval,
    apply,
    apply_interval,
    apply_stderr,
)
from scumble.public.sql.arithmetic import Apply, Constant, Node

Given = TypeVar("Given", bound=Estimate)

COMBINED = "computed from {} estimates, each with its interval at 1 - α/{}"


@dataclass(frozen=True)
class Within:
    """A law with a given standard error, whose interval is a function of the level alone."""

    stderr: float
    limits: Callable[[float], Interval]

    def interval(self, value: float, level: float) -> Interval:
        return self.limits(level)


def scaled(estimate: Given, factor: float, offset: float = 0.0) -> Given:
    """Return `factor` times an estimate, plus `offset`."""
    value, law = estimate.value, estimate.law
    if factor == 0:
        value, law = 0.0, Exact()
    elif factor != 1:
        value, law = value * factor, law if isinstance(law, Exact) else Scaled(law, factor)
    if offset:
        value, law = value + offset, law if isinstance(law, Exact) else Shifted(law, offset)
    return replace(estimate, value=value, law=law)


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
        uncertain = sum(not isinstance(each.law, Exact) for each in self.leaves.values())
        each_level = 1 - (1 - level) / max(uncertain, 1)
        low, high = _interval(self.node, self.leaves, each_level)
        return (low, high) if math.isnan(value) else (min(low, value), max(high, value))


def combined(node: Node, leaves: Mapping[Node, Estimate]) -> Estimate:
    """Return the estimate of a formula over the estimates of its parts `leaves`."""
    law: Law = Combined(node, leaves)
    many = sum(not isinstance(each.law, Exact) for each in leaves.values())
    notes = tuple(dict.fromkeys(note for each in leaves.values() for note in each.notes))
    value = _value(node, leaves)
    parts = list(leaves.values())
    if not many and not math.isnan(value):
        return parts[0].derived(value, Exact(), parts[0].method, notes, parts)
    if many <= 1:
        method = next((e.method for e in leaves.values() if not isinstance(e.law, Exact)), "")
    else:
        method = COMBINED.format(many, many)
    return parts[0].derived(value, law, method, notes, parts)


def _value(node: Node, leaves: Mapping[Node, Estimate]) -> float:
    if node in leaves:
        return leaves[node].value
    if isinstance(node, Constant):
        return node.value
    assert isinstance(node, Apply)  # noqa: S101  (every term is in a leaf)
    return apply(node.name, [_value(part, leaves) for part in node.parts])


def _interval(node: Node, leaves: Mapping[Node, Estimate], level: float) -> Interval:
    if node in leaves:
        return leaves[node].interval(level)
    if isinstance(node, Constant):
        return node.value, node.value
    assert isinstance(node, Apply)  # noqa: S101
    return apply_interval(node.name, [_interval(part, leaves, level) for part in node.parts])


def _stderr(node: Node, leaves: Mapping[Node, Estimate]) -> float:
    if node in leaves:
        return leaves[node].stderr
    if isinstance(node, Constant):
        return 0.0
    assert isinstance(node, Apply)  # noqa: S101
    values = [_value(part, leaves) for part in node.parts]
    return apply_stderr(node.name, values, [_stderr(part, leaves) for part in node.parts])
