"""Which strategy to measure for a workload: the best of those known and those optimised for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scumble.model.designs.strategy import Floats, Strategy
from scumble.model.designs.strategy_convex import optimum, singular_value_bound
from scumble.model.designs.strategy_eigen import eigen_design
from scumble.model.designs.strategy_fixed import (
    FANOUTS,
    hierarchy,
    hierarchy_name,
    identity,
    intervals,
    wavelet,
    widths,
)
from scumble.model.designs.strategy_sums import weighted_sums

_SMALL = 1024  # cells up to which no time is saved
_MOST_SUMS = 512
_CELLS_A_SUM = 12
_LARGE_FANOUTS = (8, 16)


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
    cells = len(workload)
    choice = _Search(workload, gaussian, signed_price, identity(cells))
    if cells == 1:
        choice.bound = float(workload[0, 0])
    else:
        for strategy in _known(cells, gaussian=gaussian):
            choice.consider(strategy)
        if gaussian:
            best = optimum(workload, gap=1e-3 if cells <= _SMALL else 2e-2)
            choice.consider(best.strategy(), best.bound)
            if cells <= _SMALL:
                choice.consider(eigen_design(workload))
        else:
            for start in _starts(cells, questions, choice.tried):
                steps = 150 if cells <= _SMALL else 60
                choice.consider(weighted_sums(workload, start, steps=steps))
    if cells > 1 and not gaussian:
        # Columns of L1 norm 1 have L2 norm at most 1: the bound holds for them too.
        choice.bound = singular_value_bound(workload)
    return choice.found()


class _Search:
    """What was tried until now."""

    def __init__(
        self, workload: Floats, gaussian: bool, signed_price: float, first: Strategy
    ) -> None:
        self._workload, self._gaussian, self._price = workload, gaussian, signed_price
        self._best = first
        self.tried = {first.name: self._error(first)}
        self.bound = 0.0

    def consider(self, strategy: Strategy, bound: float = 0.0) -> None:
        error = self._error(strategy)
        self.bound = max(self.bound, bound)
        if error < min(self.tried.values()):
            self._best = strategy
        self.tried[strategy.name] = min(error, self.tried.get(strategy.name, error))

    def _error(self, strategy: Strategy) -> float:
        error = strategy.error(self._workload, gaussian=self._gaussian)
        return error * (self._price if strategy.signed else 1.0)

    def found(self) -> Choice:
        return Choice(self._best, self.tried, self.bound)


def _known(cells: int, *, gaussian: bool) -> Iterator[Strategy]:
    """Fixed strategies. Beyond some size only those that have a chance: the wavelet has none with
    Laplace noise, and hierarchies of other fan-outs than these have little.
    """
    small = cells <= _SMALL
    if gaussian or small:
        yield wavelet(cells)
    for fanout in FANOUTS if small else _LARGE_FANOUTS:
        if fanout < 2 * cells:
            yield hierarchy(cells, fanout)


def _starts(cells: int, questions: Floats | None, tried: dict[str, float]) -> Iterator[Floats]:
    """Sums to begin with: the inner nodes of the best hierarchy, and the questions themselves."""
    most = max(cells // _CELLS_A_SUM, 8)  # more sums take longer, and were no better
    inner = {fanout: widths(cells, fanout)[1:-1] or [cells] for fanout in FANOUTS}
    few = [f for f in FANOUTS if sum(-(-cells // width) for width in inner[f]) <= most]
    best = min(few, key=lambda fanout: tried.get(hierarchy_name(fanout), np.inf))
    yield intervals(cells, inner[best]).astype(np.float64)
    if questions is not None and 0 < len(questions) <= min(_MOST_SUMS, max(cells // 2, 8)):
        yield questions
