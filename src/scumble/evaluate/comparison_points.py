"""Points: what the runs of each setting come to, which settings are beaten by others, and each one
in a sentence.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.errors import ParameterError
from scumble.evaluate import measures
from scumble.evaluate.comparison import Results, Run
from scumble.evaluate.comparison_settings import PRIOR
from scumble.evaluate.measures import Answers, Spread, spread
from scumble.guarantee import at_most, percent_at_least, percent_at_most

Floats = npt.NDArray[np.float64]

SANITY = 0.001  # of the rows: counts below it are not measured by themselves
_DOUBTFUL = 0.85  # coverage of intervals of 95 % that few runs do not come to by chance
_SAME = 1e-6  # exposures that differ by less are the same
BANDS = (0.0, 0.001, 0.01, 0.1, 1.01)
MEASURES = {
    "relative": "mean relative error",
    "median": "median relative error",
    "absolute": "mean absolute error",
    "root": "root mean square error",
}


@dataclass(frozen=True)
class Point:
    """One setting: what it exposes, and the error of the answers by the chosen measure."""

    method: str
    words: str
    success: float
    basis: str
    posterior: float | None
    delta: float
    error: Spread
    numbers: dict[str, float]
    typical: tuple[float, float] | None  # a count, and what 19 of 20 errors of such stay within
    bands: tuple[tuple[float, float, int, float], ...]
    beaten_by: str = ""

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"

    @property
    def private(self) -> bool:
        """Differentially private, with or without δ."""
        return self.posterior is not None


def points(results: Results, measure: str) -> list[Point]:
    """One for each setting that has a run, in the order in which they were first made."""
    if measure not in MEASURES:
        raise ParameterError.of("compare", "measure", f"one of {', '.join(MEASURES)}", measure)
    by_name: dict[tuple[str, str], list[Run]] = {}
    for run in results.runs:
        by_name.setdefault((run.method, run.words), []).append(run)
    found = [_point(results, runs, measure) for runs in by_name.values()]
    return [_judged(point, found) for point in found]


def _point(results: Results, runs: Sequence[Run], measure: str) -> Point:
    truth = np.array(results.truth)
    values = np.array([run.values for run in runs])
    rows = int(results.about["rows"])
    counts = np.array(results.counts, bool)
    answers = Answers(truth, values, rows)
    # A count is measured against itself or a small share of the rows, anything else by itself.
    scale = np.where(counts, max(SANITY * rows, 1.0), np.abs(truth))
    each: dict[str, Callable[[], Floats]] = {
        "relative": lambda: measures.relative(answers, sanity=scale),
        "median": lambda: measures.relative_median(answers, sanity=scale),
        "absolute": lambda: measures.absolute(answers),
        "root": lambda: measures.root(answers),
        "bias": lambda: measures.bias(answers),
        "α for β = 5 %": lambda: measures.alpha_for(answers, 0.05),
        "ρ for β = 5 %": lambda: measures.rho_for(answers, 0.05),
    }
    tried = sum(run.intervals for run in runs)
    covered = {"coverage": sum(run.held for run in runs) / tried} if tried else {}
    first = runs[0]
    return Point(
        method=first.method,
        words=first.words,
        success=float(np.mean([run.success for run in runs])),
        basis=first.basis,
        posterior=first.posterior,
        delta=first.delta,
        error=spread(each[measure]()),
        numbers={name: float(found().mean()) for name, found in each.items()} | covered,
        typical=_typical(answers.chosen(counts)),
        bands=_bands(answers.chosen(counts)),
    )


def _typical(counts: Answers) -> tuple[float, float] | None:
    """The median of the true counts in two digits, and the error that 19 of 20 answers to counts
    from half to twice as large stay within.
    """
    if not len(counts.truth):
        return None
    middle = float(np.median(counts.truth))
    near = (counts.truth >= middle / 2) & (counts.truth <= 2 * middle)
    if not near.any():
        near[:] = True
    errors = np.abs(counts.chosen(near).errors)
    return middle, float(np.quantile(errors, 0.95, method="inverted_cdf"))


def _bands(counts: Answers) -> tuple[tuple[float, float, int, float], ...]:
    """By selectivity: from, to, how many counts, mean relative error."""
    return tuple(
        (low, high, len(some.truth), float(measures.relative(some, sanity=1.0).mean()))
        for low, high, some in counts.by_selectivity(BANDS)
    )


def _judged(point: Point, others: Sequence[Point]) -> Point:
    """Whether another setting exposes no more and errs no more. A setting that is not DP beats none
    that is: their promises are not alike.
    """
    for other in others:
        alike = other.private or not point.private
        if other is not point and alike and _beats(other, point):
            return replace(point, beaten_by=other.name)
    return point


def _beats(other: Point, point: Point) -> bool:
    """Of settings that expose the same, one errs less only if that is more than chance."""
    if other.success > point.success * (1 + _SAME):
        return False
    if other.success < point.success * (1 - _SAME):
        return other.error.mean <= point.error.mean
    apart = math.hypot(other.error.stderr, point.error.stderr)
    return other.error.mean + (0 if math.isnan(apart) else 3 * apart) < point.error.mean


def sentence(point: Point, values: int) -> str:
    """What a choice means, for who has to make it."""
    learned, erred = _learned(point, values), _erred(point)
    missed = ""
    if point.numbers.get("coverage", 1.0) < _DOUBTFUL:
        held = f"{100 * point.numbers['coverage']:.0f} %"
        missed = f" Its intervals of 95 % held the truth in {held} of the cases only."
    beaten = f" {point.beaten_by} exposes no more and errs no more." if point.beaten_by else ""
    return f"{learned}; {erred}.{missed}{beaten}"


def _learned(point: Point, values: int) -> str:
    prior = percent_at_least(PRIOR)
    if point.posterior is not None:
        but = f" (but for a chance of {at_most(point.delta)})" if point.delta else ""
        end = percent_at_most(point.posterior)
        return f"an attacker who gave {prior} to this value can end at most at {end}{but}"
    return (
        f"not DP: an attacker who finds all {values} values equally likely guesses right in "
        f"{percent_at_most(point.success)} of the cases, and for whoever knows more there is no "
        "limit"
    )


def _erred(point: Point) -> str:
    if point.typical is None:
        return f"the answers are off by {100 * point.numbers['median']:.2g} % in the median"
    count, error = point.typical
    return (
        f"a count of {_digits(count)} will be within ±{_digits(error, up=True)} nineteen times in "
        "twenty"
    )


def _digits(number: float, *, up: bool = False) -> str:
    """A number in two digits, or whole if it is small."""
    if number < 1:
        return f"{number:.2g}"
    step = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    whole = math.ceil(number / step) if up else round(number / step)
    return f"{whole * step:,.0f}"


def as_csv(found: Sequence[Point]) -> str:
    """One line for each setting."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = list(found[0].numbers) if found else []
    head = ["method", "setting", "DP", "success", "basis", "posterior", "error", "error stderr"]
    writer.writerow([*head, "runs", *numbers, "beaten by"])
    for point in found:
        place = [point.success, point.basis, point.posterior, point.error.mean, point.error.stderr]
        writer.writerow(
            [point.method, point.words, point.private, *place, point.error.runs]
            + [point.numbers.get(name) for name in numbers]
            + [point.beaten_by]
        )
    return text.getvalue()


def as_fields(point: Point, values: int) -> dict[str, Any]:
    """A point for a program to read."""
    return {
        "method": point.method,
        "setting": point.words,
        "private": point.private,
        "success": point.success,
        "basis": point.basis,
        "posterior": point.posterior,
        "error": point.error.mean,
        "error stderr": None if math.isnan(point.error.stderr) else point.error.stderr,
        "runs": point.error.runs,
        **point.numbers,
        "bands": [list(band) for band in point.bands],
        "beaten by": point.beaten_by,
        "sentence": sentence(point, values),
    }
