"""Error measures: estimates of several runs against true answers.

Every measure returns one number for each run; `spread` returns their mean and standard deviation.
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
class RunSpread:
    """A measure over runs: its mean, the standard deviation of one run, least and largest."""

    mean: float
    deviation: float
    least: float
    largest: float
    runs: int

    @property
    def stderr(self) -> float:
        """The standard error of the mean; NaN for a single run."""
        return self.deviation / sqrt(self.runs) if self.runs else float("nan")


def spread(runs: Floats) -> RunSpread:
    """Summarise one number for each run; the deviation of a single run is NaN."""
    deviation = float(runs.std(ddof=1)) if len(runs) > 1 else float("nan")
    return RunSpread(float(runs.mean()), deviation, float(runs.min()), float(runs.max()), len(runs))


@dataclass(frozen=True, eq=False)
class RepeatedAnswers:
    """Estimates of m questions in r runs about a table of `rows` rows, and the true answers.

    `values`, `low` and `high` have shape (r, m); `low` and `high` are the ends of intervals.
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

    def chosen(self, questions: npt.NDArray[np.bool_]) -> RepeatedAnswers:
        """Return the answers to some of the questions only."""
        cut = [None if each is None else each[:, questions] for each in (self.low, self.high)]
        return RepeatedAnswers(self.truth[questions], self.values[:, questions], self.rows, *cut)

    def by_selectivity(self, edges: Sequence[float]) -> list[tuple[float, float, RepeatedAnswers]]:
        """Return (low, high, answers) for the questions whose share of the rows is at least `low`
        and below `high`, for each pair of neighbouring edges; empty bands are left out.
        """
        share = self.truth / max(self.rows, 1)
        bands = pairwise(edges)
        found = [(low, high, (share >= low) & (share < high)) for low, high in bands]
        return [(low, high, self.chosen(which)) for low, high, which in found if which.any()]


# --- one number for each run ---------------------------------------------------------------------


def absolute(answers: RepeatedAnswers) -> Floats:
    """The mean of |error|."""
    return np.asarray(np.abs(answers.errors).mean(axis=1))


def squared(answers: RepeatedAnswers) -> Floats:
    """The mean of error²."""
    return np.asarray(np.square(answers.errors).mean(axis=1))


def root(answers: RepeatedAnswers) -> Floats:
    """The root of the mean of error²."""
    return np.sqrt(squared(answers))


def relative(answers: RepeatedAnswers, *, sanity: float | Floats | None = None) -> Floats:
    """The mean of |error| / truth over the questions whose truth is above 0.

    With a sanity bound: the mean of |error| / max(truth, sanity) over all questions. The bound is a
    number, or one for each question.
    """
    return np.asarray(relative_each(answers, sanity=sanity).mean(axis=1))


def relative_median(answers: RepeatedAnswers, *, sanity: float | Floats | None = None) -> Floats:
    """The median of relative errors, which a few tiny counts do not dominate."""
    return np.median(relative_each(answers, sanity=sanity), axis=1)


def relative_each(answers: RepeatedAnswers, *, sanity: float | Floats | None = None) -> Floats:
    """The relative error of every answer that has one."""
    if sanity is not None:
        if not np.all(np.asarray(sanity) > 0):
            raise ParameterError.of("relative", "sanity", "a number above 0", sanity)
        return np.asarray(np.abs(answers.errors) / np.maximum(answers.truth, sanity))
    some = answers.chosen(answers.truth > 0)
    if not len(some.truth):
        raise ParameterError("No question has a true answer above 0; give a sanity bound.")
    return np.asarray(np.abs(some.errors) / some.truth)


def bias(answers: RepeatedAnswers) -> Floats:
    """The mean of the errors with their signs."""
    return np.asarray(answers.errors.mean(axis=1))


def coverage(answers: RepeatedAnswers) -> Floats:
    """The share of the intervals that hold the truth."""
    if answers.low is None or answers.high is None:
        raise ParameterError("Coverage needs intervals; these answers have none.")
    held = (answers.low <= answers.truth) & (answers.truth <= answers.high)
    return np.asarray(held.mean(axis=1))


def useful(answers: RepeatedAnswers, alpha: float) -> Floats:
    """(α, β)-usefulness: the share 1 - β of the answers that are within α · rows."""
    return np.asarray((np.abs(answers.errors) <= alpha * answers.rows).mean(axis=1))


def alpha_for(answers: RepeatedAnswers, beta: float) -> Floats:
    """The least α for which a share of at least 1 - β of the answers is within α · rows."""
    return _within(answers, beta) / max(answers.rows, 1)


def rho_for(answers: RepeatedAnswers, beta: float) -> Floats:
    """The least ρ for which a share of at least 1 - β of the answers is within ρ √rows."""
    return _within(answers, beta) / sqrt(max(answers.rows, 1))


def _within(answers: RepeatedAnswers, beta: float) -> Floats:
    if not 0 <= beta < 1:
        raise ParameterError.of("usefulness", "beta", "a number from 0 to below 1", beta)
    return np.quantile(np.abs(answers.errors), 1 - beta, axis=1, method="inverted_cdf")


# --- of single questions, over runs --------------------------------------------------------------


def bias_each(answers: RepeatedAnswers) -> tuple[Floats, Floats]:
    """The mean error of every question over the runs, and its standard error (NaN of one run)."""
    errors = answers.errors
    runs = len(errors)
    deviation = errors.std(axis=0, ddof=1) if runs > 1 else np.full(errors.shape[1], np.nan)
    return errors.mean(axis=0), deviation / sqrt(runs)


# --- of whole tables -----------------------------------------------------------------------------


def marginal_distance(truth: npt.NDArray[np.generic], estimate: npt.NDArray[np.generic]) -> float:
    """Return Σ |estimate - truth| over the cells of a table, divided by the true total.

    It is 0 if all estimates are right, 1 if all are 0, and unbounded for larger noise. It is not
    divided by the total of the estimates, which may be near 0 for noisy cells.
    """
    counts, guesses = truth.astype(np.float64), estimate.astype(np.float64)
    return float(np.abs(guesses - counts).sum()) / max(float(counts.sum()), 1.0)


# The measures of a comparison, by name.

BETA = 0.05  # the share of the answers that may be further off than α and ρ say
SHARE = 0.001  # of the rows: the sanity bound of relative errors, and the α for which β is given
BANDS = (0.0, 0.001, 0.01, 0.1, 1.01)
_ROUNDING = 1e-9  # relative to a number, at least 1
_CHANCE = 0.01  # the share of unbiased questions that are called biased by chance


@dataclass(frozen=True, eq=False)
class RunsOfSetting:
    """The runs of one setting: their answers, which of them are counts, and for each run the
    distances of its tables from the true ones, the share of intervals that held the truth, and the
    mean of half of their widths.
    """

    answers: RepeatedAnswers
    counts: npt.NDArray[np.bool_]
    distances: Floats
    coverage: Floats
    half: Floats

    @property
    def scale(self) -> Floats:
        """The sanity bound of each question: a small share of the rows for a count, the absolute
        true value for a sum or an average.
        """
        bound = max(SHARE * self.answers.rows, 1.0)
        return np.where(self.counts, bound, np.maximum(np.abs(self.answers.truth), 1e-300))

    def by_selectivity(self) -> list[tuple[float, float, RunsOfSetting]]:
        """Return the counts, by the share of the rows that they select."""
        counts = self.answers.chosen(self.counts)
        return [
            (low, high, replace(self, answers=some, counts=np.ones(len(some.truth), bool)))
            for low, high, some in counts.by_selectivity(BANDS)
        ]


@dataclass(frozen=True)
class Measure:
    """A measure: `of` returns a number for each run, or None where it does not apply."""

    words: str
    head: str  # of a column
    of: Callable[[RunsOfSetting], Floats | None]
    percent: bool = False
    single: bool = True  # of single answers, so that it can be computed for bands of them


def _plain(found: RunsOfSetting) -> Floats | None:
    positive = found.answers.truth > 0
    return relative(found.answers) if positive.any() else None


def _distance(found: RunsOfSetting) -> Floats | None:
    return found.distances.mean(axis=1) if found.distances.shape[1] else None


def _coverage(found: RunsOfSetting) -> Floats | None:
    return None if np.isnan(found.coverage).any() else found.coverage


def _half(found: RunsOfSetting) -> Floats | None:
    return None if np.isnan(found.half).any() else found.half


# The measures that can be an axis: smaller is better.
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
        "half": Measure("mean half-width of intervals of 95 %", "half-width", _half, single=False),
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


def all_measures(found: RunsOfSetting) -> dict[str, RunSpread]:
    """Return every measure that applies, over the runs."""
    every = {name: measure.of(found) for name, measure in MEASURES.items()}
    return {name: spread(runs) for name, runs in every.items() if runs is not None}


def biased(answers: RepeatedAnswers) -> float | None:
    """Return the share of the questions whose mean error over the runs differs significantly from 0
    at a level of 1 % (Student's t-test); None for fewer than three runs.
    """
    runs = len(answers.values)
    if runs < 3:
        return None
    from scipy.special import stdtrit

    mean, stderr = bias_each(answers)
    limit = float(stdtrit(runs - 1, 1 - _CHANCE / 2))
    return float((np.abs(mean) > limit * stderr).mean())


def unrounded(truth: Floats, values: Floats) -> Floats:
    """Return the estimates, with those replaced by the truth that differ by rounding only."""
    tiny = _ROUNDING * np.maximum(np.abs(truth), 1.0)
    return np.where(np.abs(values - truth) <= tiny, truth, values)


def error_quantile(errors: Floats, share: float) -> float:
    """Return the bound that a share `share` of the absolute errors stays within."""
    return float(np.quantile(np.abs(errors), share, method="inverted_cdf"))


def chance_difference(one: RunSpread, other: RunSpread) -> float:
    """Return the difference of two means that chance exceeds once in a thousand times; 0 for single
    runs, whose variance is unknown.
    """
    runs = one.runs + other.runs
    if one.runs < 2 or other.runs < 2:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(runs - 2, 0.999)) * sqrt(one.stderr**2 + other.stderr**2)
