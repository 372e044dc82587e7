"""What a comparison measures of the runs of one setting, each by a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from scumble.compare import measures
from scumble.compare.measures import Answers, Spread, spread

Floats = npt.NDArray[np.float64]

BETA = 0.05  # of the answers may be further off than α and ρ say
SHARE = 0.001  # of the rows: the sanity bound of relative errors, and the α for which β is told
BANDS = (0.0, 0.001, 0.01, 0.1, 1.01)
_ROUNDING = 1e-9  # of a number, or of one
_CHANCE = 0.01  # of the questions that look biased though they are not


@dataclass(frozen=True, eq=False)
class Measured:
    """Answers of several runs; which are counts; for each run how far tables are from the true
    ones, and the share of the intervals that held the truth.
    """

    answers: Answers
    counts: npt.NDArray[np.bool_]
    distances: Floats
    coverage: Floats

    @property
    def scale(self) -> Floats:
        """A count is measured against itself or a small share of the rows, a sum or an average by
        itself.
        """
        bound = max(SHARE * self.answers.rows, 1.0)
        return np.where(self.counts, bound, np.maximum(np.abs(self.answers.truth), 1e-300))

    def by_selectivity(self) -> list[tuple[float, float, Measured]]:
        """The counts, by the share of the rows that they select."""
        counts = self.answers.chosen(self.counts)
        return [
            (low, high, replace(self, answers=some, counts=np.ones(len(some.truth), bool)))
            for low, high, some in counts.by_selectivity(BANDS)
        ]


@dataclass(frozen=True)
class Measure:
    """A number for each run; None where there is nothing to measure."""

    words: str
    head: str  # of a column
    of: Callable[[Measured], Floats | None]
    percent: bool = False
    single: bool = True  # of single answers, so that bands of them can be told apart


def _plain(found: Measured) -> Floats | None:
    positive = found.answers.truth > 0
    return measures.relative(found.answers) if positive.any() else None


def _distance(found: Measured) -> Floats | None:
    return found.distances.mean(axis=1) if found.distances.shape[1] else None


def _coverage(found: Measured) -> Floats | None:
    return None if np.isnan(found.coverage).any() else found.coverage


# What may stand on the axis: errors, of which less is better.
ERRORS: Mapping[str, Measure] = MappingProxyType(
    {
        "relative": Measure(
            "mean relative error",
            "relative",
            lambda found: measures.relative(found.answers, sanity=found.scale),
            percent=True,
        ),
        "median": Measure(
            "median relative error",
            "median",
            lambda found: measures.relative_median(found.answers, sanity=found.scale),
            percent=True,
        ),
        "unbounded": Measure(
            "mean relative error without sanity bound", "no bound", _plain, percent=True
        ),
        "absolute": Measure(
            "mean absolute error", "absolute", lambda found: measures.absolute(found.answers)
        ),
        "root": Measure(
            "root mean square error", "root mean sq.", lambda found: measures.root(found.answers)
        ),
        "squared": Measure(
            "mean squared error", "squared", lambda found: measures.squared(found.answers)
        ),
        "marginal": Measure("mean L1 distance of tables", "L1 of tables", _distance, single=False),
        "alpha": Measure(
            f"α for β = {100 * BETA:g} %",
            f"α (β {100 * BETA:g} %)",
            lambda found: measures.alpha_for(found.answers, BETA),
        ),
        "beta": Measure(
            f"β for α = {100 * SHARE:g} %",
            f"β (α {100 * SHARE:g} %)",
            lambda found: 1 - measures.useful(found.answers, SHARE),
            percent=True,
        ),
        "rho": Measure(
            f"ρ for β = {100 * BETA:g} %",
            f"ρ (β {100 * BETA:g} %)",
            lambda found: measures.rho_for(found.answers, BETA),
        ),
    }
)
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        **ERRORS,
        "bias": Measure("bias", "bias", lambda found: measures.bias(found.answers)),
        "coverage": Measure(
            "coverage of intervals of 95 %", "coverage", _coverage, percent=True, single=False
        ),
    }
)


def measured(found: Measured) -> dict[str, Spread]:
    """Every measure that there is something for, over the runs."""
    every = {name: measure.of(found) for name, measure in MEASURES.items()}
    return {name: spread(runs) for name, runs in every.items() if runs is not None}


def biased(answers: Answers) -> float | None:
    """The share of the questions whose mean error over the runs is further from 0 than chance takes
    one in a hundred (by Student's law); None of fewer than three runs.
    """
    runs = len(answers.values)
    if runs < 3:
        return None
    from scipy.special import stdtrit

    mean, stderr = measures.bias_each(answers)
    limit = float(stdtrit(runs - 1, 1 - _CHANCE / 2))
    return float((np.abs(mean) > limit * stderr).mean())


def unrounded(truth: Floats, values: Floats) -> Floats:
    """Estimates whose error is only that of computing with so many digits, as the truth."""
    tiny = _ROUNDING * np.maximum(np.abs(truth), 1.0)
    return np.where(np.abs(values - truth) <= tiny, truth, values)


def within(errors: Floats, share: float) -> float:
    """What such a share of the errors stays within."""
    return float(np.quantile(np.abs(errors), share, method="inverted_cdf"))


def apart(one: Spread, other: Spread) -> float:
    """How far two means of runs may lie apart by chance, but for one time in a thousand; nothing of
    single runs, which tell nothing about chance.
    """
    runs = one.runs + other.runs
    if one.runs < 2 or other.runs < 2:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(runs - 2, 0.999)) * sqrt(one.stderr**2 + other.stderr**2)
