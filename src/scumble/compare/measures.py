"""Error measures.

Measures of error: estimates of several runs against true answers.

Every measure gives one number for each run, so that its spread over runs can be told; `spread`
makes mean and deviation of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A measure over runs: its mean, the standard deviation of one run, least and largest."""

    mean: float
    deviation: float
    least: float
    largest: float
    runs: int

    @property
    def stderr(self) -> float:
        """Of the mean; NaN of a single run."""
        return self.deviation / sqrt(self.runs) if self.runs else float("nan")


def spread(runs: Floats) -> Spread:
    """What several runs say together; the deviation of a single run is NaN."""
    deviation = float(runs.std(ddof=1)) if len(runs) > 1 else float("nan")
    return Spread(float(runs.mean()), deviation, float(runs.min()), float(runs.max()), len(runs))


@dataclass(frozen=True, eq=False)
class Answers:
    """Estimates of m questions in r runs about a table of `rows` rows, and the truth.

    `values`, `low` and `high` have shape (r, m); the limits are of intervals, where there are any.
    """

    truth: Floats
    values: Floats
    rows: int
    low: Floats | None = None
    high: Floats | None = None

    def __post_init__(self) -> None:
        for given in (self.values, self.low, self.high):
            if given is not None and given.shape != (len(self.values), len(self.truth)):
                raise ParameterError("Estimates need one row for each run and a column for each "
                                     "question.")  # fmt: skip

    @property
    def errors(self) -> Floats:
        """Estimate less truth."""
        return self.values - self.truth

    def chosen(self, questions: npt.NDArray[np.bool_]) -> Answers:
        """Only some of the questions."""
        cut = [None if each is None else each[:, questions] for each in (self.low, self.high)]
        return Answers(self.truth[questions], self.values[:, questions], self.rows, *cut)

    def by_selectivity(self, edges: Sequence[float]) -> list[tuple[float, float, Answers]]:
        """The questions whose share of the rows lies from one edge up to before the next; bands
        without questions are left out.
        """
        share = self.truth / max(self.rows, 1)
        bands = pairwise(edges)
        found = [(low, high, (share >= low) & (share < high)) for low, high in bands]
        return [(low, high, self.chosen(which)) for low, high, which in found if which.any()]


# --- one number for each run ---------------------------------------------------------------------


def absolute(answers: Answers) -> Floats:
    """The mean of |error|."""
    return np.asarray(np.abs(answers.errors).mean(axis=1))


def squared(answers: Answers) -> Floats:
    """The mean of error²."""
    return np.asarray(np.square(answers.errors).mean(axis=1))


def root(answers: Answers) -> Floats:
    """The root of the mean of error²."""
    return np.sqrt(squared(answers))


def relative(answers: Answers, *, sanity: float | Floats | None = None) -> Floats:
    """The mean of |error| / truth over the questions whose truth is above 0; with a sanity bound,
    of |error| / max(truth, sanity) over all. The bound may be another one for each question.
    """
    return np.asarray(relative_each(answers, sanity=sanity).mean(axis=1))


def relative_median(answers: Answers, *, sanity: float | Floats | None = None) -> Floats:
    """The median in place of the mean: a few tiny counts do not decide it."""
    return np.median(relative_each(answers, sanity=sanity), axis=1)


def relative_each(answers: Answers, *, sanity: float | Floats | None = None) -> Floats:
    """The relative error of every answer that has one."""
    if sanity is not None:
        if not np.all(np.asarray(sanity) > 0):
            raise ParameterError.of("relative", "sanity", "a number above 0", sanity)
        return np.asarray(np.abs(answers.errors) / np.maximum(answers.truth, sanity))
    some = answers.chosen(answers.truth > 0)
    if not len(some.truth):
        raise ParameterError("No question has a true answer above 0; give a sanity bound.")
    return np.asarray(np.abs(some.errors) / some.truth)


def bias(answers: Answers) -> Floats:
    """The mean of the errors with their signs."""
    return np.asarray(answers.errors.mean(axis=1))


def coverage(answers: Answers) -> Floats:
    """The share of the intervals that hold the truth."""
    if answers.low is None or answers.high is None:
        raise ParameterError("Coverage needs intervals; these answers have none.")
    held = (answers.low <= answers.truth) & (answers.truth <= answers.high)
    return np.asarray(held.mean(axis=1))


def useful(answers: Answers, alpha: float) -> Floats:
    """(α, β)-usefulness: the share 1 - β of the answers that are within α · rows."""
    return np.asarray((np.abs(answers.errors) <= alpha * answers.rows).mean(axis=1))


def alpha_for(answers: Answers, beta: float) -> Floats:
    """The least α for which a share of at least 1 - β of the answers is within α · rows."""
    return _within(answers, beta) / max(answers.rows, 1)


def rho_for(answers: Answers, beta: float) -> Floats:
    """The least ρ for which a share of at least 1 - β of the answers is within ρ √rows."""
    return _within(answers, beta) / sqrt(max(answers.rows, 1))


def _within(answers: Answers, beta: float) -> Floats:
    if not 0 <= beta < 1:
        raise ParameterError.of("usefulness", "beta", "a number from 0 to below 1", beta)
    return np.quantile(np.abs(answers.errors), 1 - beta, axis=1, method="inverted_cdf")


# --- of single questions, over runs --------------------------------------------------------------


def bias_each(answers: Answers) -> tuple[Floats, Floats]:
    """The mean error of every question over the runs, and its standard error (NaN of one run)."""
    errors = answers.errors
    runs = len(errors)
    deviation = errors.std(axis=0, ddof=1) if runs > 1 else np.full(errors.shape[1], np.nan)
    return errors.mean(axis=0), deviation / sqrt(runs)


# --- of whole tables -----------------------------------------------------------------------------


def marginal_distance(truth: npt.NDArray[np.generic], estimate: npt.NDArray[np.generic]) -> float:
    """Σ |estimate - truth| over the cells of a table, as a share of what is truly in it: 0 if it is
    right, 1 if all cells are said to be empty, and without a limit where noise is larger. The total
    of the estimates would be no measure: of noisy cells it may be near 0.
    """
    counts, guesses = truth.astype(np.float64), estimate.astype(np.float64)
    return float(np.abs(guesses - counts).sum()) / max(float(counts.sum()), 1.0)


# What a comparison measures of the runs of one setting, each by a name.

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
    return relative(found.answers) if positive.any() else None


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
            lambda found: relative(found.answers, sanity=found.scale),
            percent=True,
        ),
        "median": Measure(
            "median relative error",
            "median",
            lambda found: relative_median(found.answers, sanity=found.scale),
            percent=True,
        ),
        "unbounded": Measure(
            "mean relative error without sanity bound", "no bound", _plain, percent=True
        ),
        "absolute": Measure(
            "mean absolute error", "absolute", lambda found: absolute(found.answers)
        ),
        "root": Measure(
            "root mean square error", "root mean sq.", lambda found: root(found.answers)
        ),
        "squared": Measure("mean squared error", "squared", lambda found: squared(found.answers)),
        "marginal": Measure("mean L1 distance of tables", "L1 of tables", _distance, single=False),
        "alpha": Measure(
            f"α for β = {100 * BETA:g} %",
            f"α (β {100 * BETA:g} %)",
            lambda found: alpha_for(found.answers, BETA),
        ),
        "beta": Measure(
            f"β for α = {100 * SHARE:g} %",
            f"β (α {100 * SHARE:g} %)",
            lambda found: 1 - useful(found.answers, SHARE),
            percent=True,
        ),
        "rho": Measure(
            f"ρ for β = {100 * BETA:g} %",
            f"ρ (β {100 * BETA:g} %)",
            lambda found: rho_for(found.answers, BETA),
        ),
    }
)
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        **ERRORS,
        "bias": Measure("bias", "bias", lambda found: bias(found.answers)),
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

    mean, stderr = bias_each(answers)
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
