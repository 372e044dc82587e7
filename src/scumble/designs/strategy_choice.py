"""Which strategy to measure for a workload: the best of those known and those optimised for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scumble.designs.strategy import Floats, Strategy
from scumble.designs.strategy_convex import optimum, singular_value_bound
from scumble.designs.strategy_eigen import eigen_design
from scumble.designs.strategy_fixed import FANOUTS, hierarchy, identity, intervals, wavelet, widths
from scumble.designs.strategy_sums import weighted_sums

MOST_CELLS = 4096
_SMALL = 1024  # cells up to which no time is saved
_MOST_SUMS = 512


@dataclass(frozen=True, eq=False)
class Choice:
    """The strategy with the least total error, the errors of all that were tried, and what no
    strategy goes below; all for noise of variance 1 where a row changes the numbers by 1.
    """

    strategy: Strategy
    tried: dict[str, float]
    bound: float

    @property
    def error(self) -> float:
        return self.tried[self.strategy.name]


def choose(
    workload: Floats,
    questions: Floats | None = None,
    *,
    gaussian: bool,
    signed_price: float = 1.0,
) -> Choice:
    """The best strategy for W'W; `questions` are rows of W to begin a search with, if few. The
    error of a signed strategy counts `signed_price` times.
    """
    found: Strategy | None = None
    tried: dict[str, float] = {}
    bound = 0.0
    for strategy, floor in _candidates(workload, questions, gaussian):
        error = strategy.error(workload, gaussian=gaussian)
        error *= signed_price if strategy.signed else 1.0
        bound = max(bound, floor)
        if error < tried.get(strategy.name, np.inf):
            tried[strategy.name] = error
            if found is None or error <= min(tried.values()):
                found = strategy
    assert found is not None  # noqa: S101 - single cells are always tried
    return Choice(found, tried, bound)


def _candidates(
    workload: Floats, questions: Floats | None, gaussian: bool
) -> Iterator[tuple[Strategy, float]]:
    """Strategies, each with a lower bound for all that was found on the way."""
    cells = len(workload)
    yield identity(cells), 0.0
    if cells == 1:
        return
    yield wavelet(cells), 0.0
    trees = {fanout: hierarchy(cells, fanout) for fanout in FANOUTS if fanout < 2 * cells}
    if cells > _SMALL:  # one of fan-out 2 never wins there, and one of 64 nearly never
        trees = {fanout: tree for fanout, tree in trees.items() if fanout in (4, 16)}
    for tree in trees.values():
        yield tree, 0.0
    if gaussian:
        best = optimum(workload, gap=1e-3 if cells <= _SMALL else 2e-2)
        yield best.strategy(), best.bound
        if cells <= _SMALL:
            yield eigen_design(workload), 0.0
        return
    for start in _starts(workload, questions, trees):
        yield weighted_sums(workload, start, steps=150 if cells <= _SMALL else 40), 0.0
    # Columns of L1 norm 1 have L2 norm at most 1: the bound holds for them too.
    yield identity(cells), singular_value_bound(workload)


def _starts(
    workload: Floats, questions: Floats | None, trees: dict[int, Strategy]
) -> Iterator[Floats]:
    """Sums to begin with: the inner nodes of the best hierarchy, and the questions themselves."""
    cells = len(workload)
    best = min(trees, key=lambda fanout: trees[fanout].error(workload, gaussian=False))
    inner = widths(cells, best)[1:-1] or [cells]
    if len(rows := intervals(cells, inner)) <= _MOST_SUMS:
        yield rows.astype(np.float64)
    if questions is not None and 0 < len(questions) <= min(_MOST_SUMS, max(cells // 2, 8)):
        yield questions
