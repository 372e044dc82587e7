"""Aggregated points, dominated ones, sentences, CSV.

Points: what the runs of each setting come to, which settings are beaten by others, and each one
in a sentence.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from scumble.compare.advice import publish_command
from scumble.compare.comparison import Results
from scumble.compare.measures import (
    ERRORS,
    MEASURES,
    Answers,
    Measured,
    Spread,
    apart,
    biased,
    measured,
    spread,
    unrounded,
    within,
)
from scumble.compare.runs import Run
from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import at_most, percent_at_least, percent_at_most
from scumble.private.hooks import PRIOR

_DOUBTFUL = 0.85  # coverage of intervals of 95 % that few runs do not come to by chance
_SAME, _DRAWN = 1e-6, 0.01  # exposures that differ by less are the same; if one is a mean of draws


@dataclass(frozen=True)
class Band:
    """The error of counts that select a share of the rows from `low` up to before `high`."""

    low: float
    high: float
    counts: int
    error: Spread

    @property
    def words(self) -> str:
        return f"{100 * self.low:g}–{min(100 * self.high, 100):g} %"


@dataclass(frozen=True)
class Point:
    """One setting: what it exposes, and the error of the answers by the chosen measure."""

    method: str
    words: str
    success: float
    basis: str
    posterior: float | None
    whole: bool  # its promise is for whole rows, not only for sensitive values
    delta: float
    error: Spread
    numbers: dict[str, Spread]  # by every measure
    intervals: int  # that were looked at
    biased: float | None  # share of the questions
    typical: tuple[float, float] | None  # a count, and what 19 of 20 errors of such stay within
    bands: tuple[Band, ...]
    beaten_by: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""  # that publishes so

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"

    @property
    def private(self) -> bool:
        """Differentially private, with or without δ."""
        return self.posterior is not None

    @property
    def strength(self) -> int:
        """Of what is promised: nothing like DP, DP of sensitive values, DP of whole rows."""
        return self.private + (self.private and self.whole)


def check_measure(name: str) -> None:
    """Refuse what cannot stand on the axis."""
    if name not in ERRORS:
        raise ParameterError.of("compare", "measure", f"one of {', '.join(ERRORS)}", name)


def points(results: Results, measure: str) -> list[Point]:
    """One for each setting that has a run, in the order in which they were first made."""
    check_measure(measure)
    by_name: dict[tuple[str, str], list[Run]] = {}
    for run in results.runs:
        by_name.setdefault((run.method, run.words), []).append(run)
    found = [_point(results, runs, measure) for runs in by_name.values()]
    return [_judged(point, found) for point in found]


def _point(results: Results, runs: Sequence[Run], measure: str) -> Point:
    found = _measured(results, runs)
    numbers = measured(found)
    if measure not in numbers:
        raise ParameterError(
            f"The questions have no {MEASURES[measure].words}: it needs counts by GROUP BY, or "
            "true answers above 0. Choose another --measure."
        )
    first = runs[0]
    parameters = results.settings.get(f"{first.method}, {first.words}", {})
    return Point(
        method=first.method,
        words=first.words,
        success=float(np.mean([run.success for run in runs])),
        basis=first.basis,
        posterior=first.posterior,
        whole=first.whole,
        delta=first.delta,
        error=numbers[measure],
        numbers=numbers,
        intervals=sum(run.intervals for run in runs),
        biased=biased(found.answers),
        typical=_typical(found.answers.chosen(found.counts)),
        bands=_bands(found, measure if MEASURES[measure].single else "relative"),
        parameters=parameters,
        command=publishing(first.method, parameters, results.about),
    )


def _measured(results: Results, runs: Sequence[Run]) -> Measured:
    rows, truth = int(results.about["rows"]), np.array(results.truth)
    values = unrounded(truth, np.array([run.values for run in runs]))
    return Measured(
        Answers(truth, values, rows),
        np.array(results.counts, bool),
        np.array([run.distances for run in runs]),
        np.array([np.nan if run.coverage is None else run.coverage for run in runs]),
    )


def _typical(counts: Answers) -> tuple[float, float] | None:
    """The median of the true counts of anybody, and the error that 19 of 20 answers to counts from
    half to twice as large stay within.
    """
    if not len(counts.truth):
        return None
    somebody = counts.truth[counts.truth > 0]
    middle = float(np.median(somebody)) if len(somebody) else 0.0
    near = (counts.truth >= middle / 2) & (counts.truth <= 2 * middle)
    if not near.any():
        near[:] = True
    return middle, within(counts.chosen(near).errors, 0.95)


def _bands(found: Measured, measure: str) -> tuple[Band, ...]:
    """By selectivity; a band without anything to measure is left out."""
    return tuple(
        Band(low, high, len(some.answers.truth), spread(runs))
        for low, high, some in found.by_selectivity()
        if (runs := MEASURES[measure].of(some)) is not None
    )


def _judged(point: Point, others: Sequence[Point]) -> Point:
    """Whether another setting exposes no more and errs no more. One that is not DP beats none that
    is, and one that publishes other columns as they are beats none that protects whole rows: their
    promises are not alike.
    """
    for other in others:
        alike = other.strength >= point.strength
        if other is not point and alike and _beats(other, point):
            return replace(point, beaten_by=other.name)
    return point


def _beats(other: Point, point: Point) -> bool:
    """Both the chance to guess and the promise must be no worse. Of settings that expose the same,
    one errs less only if that is more than chance.
    """
    ends = [1.0 if each.posterior is None else each.posterior for each in (other, point)]
    if ends[0] > ends[1] * (1 + _SAME):
        return False
    less = other.error.mean + apart(other.error, point.error) < point.error.mean
    if point.basis == "limit":  # it may expose less than that: there is only the promise to compare
        return less
    same = _DRAWN if "drawn" in (other.basis, point.basis) else _SAME
    if other.success > point.success * (1 + same):
        return False
    if other.success < point.success * (1 - same):
        return other.error.mean <= point.error.mean
    return less


def sentence(point: Point, values: int) -> str:
    """What a choice means, for who has to make it."""
    learned, erred = _learned(point, values), _erred(point)
    missed = ""
    coverage = point.numbers.get("coverage")
    if coverage is not None and coverage.mean < _DOUBTFUL:
        held = f"{100 * coverage.mean:.0f} %"
        missed = f" Its intervals of 95 % held the truth in {held} of the cases only."
    by = point.beaten_by
    beaten = f" It is beaten by {by}, which exposes no more and errs no more." if by else ""
    return f"{learned}; {erred}.{missed}{beaten}"


def _learned(point: Point, values: int) -> str:
    prior = percent_at_least(PRIOR)
    if point.posterior is not None:
        but = f" (but for a chance of {at_most(point.delta)})" if point.delta else ""
        end = percent_at_most(point.posterior)
        if end == prior:
            return f"an attacker who gave {prior} to a value still gives it {prior}{but}"
        return f"an attacker who gave {prior} to a value can end at most at {end}{but}"
    rho1, rho2 = (point.parameters.get(name) for name in ("rho1", "rho2"))
    shares = ""
    if rho1 and rho2:
        shares = (
            "an attacker who gave, as the table's own share has it, at most "
            f"{percent_at_least(rho1)} (ρ1) to a value can end at most at {percent_at_most(rho2)} "
            "(ρ2); "
        )
    return (
        f"not DP: {shares}an attacker who finds all {values} values equally likely guesses right "
        f"in {percent_at_most(point.success)} of the cases, and for whoever knows more there is no "
        "limit"
    )


def _erred(point: Point) -> str:
    if point.typical is None:
        return f"the answers are off by {100 * point.numbers['median'].mean:.2g} % in the median"
    count, error = point.typical
    if not error:
        often = "" if not point.error.mean else " nineteen times in twenty"
        return f"a count of {_digits(count)} is answered exactly{often}"
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


# The points of a comparison for programs: as CSV, and as fields.


def as_csv(found: Sequence[Point]) -> str:
    """One line for each setting."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for point in found for name in point.numbers))
    bands = list(dict.fromkeys(band.words for point in found for band in point.bands))
    head = [
        "method",
        "setting",
        "DP",
        "whole rows",
        "success",
        "basis",
        "posterior",
        "delta",
        "runs",
    ]
    head += ["error", "error stderr"]
    head += [words for name in names for words in (name, f"{name} deviation")]
    head += ["intervals", "biased", *(f"error at {words}" for words in bands), "beaten by"]
    writer.writerow(head)
    for point in found:
        place = [point.success, point.basis, point.posterior, point.delta, point.error.runs]
        spreads = [point.numbers.get(name) for name in names]
        by_band = {band.words: band.error.mean for band in point.bands}
        writer.writerow(
            [point.method, point.words, point.private, point.whole, *place]
            + [point.error.mean, _number(point.error.stderr)]
            + [x for s in spreads for x in ((s.mean, _number(s.deviation)) if s else (None, None))]
            + [point.intervals, point.biased, *(by_band.get(words) for words in bands)]
            + [point.beaten_by]
        )
    return text.getvalue()


def as_fields(point: Point, values: int) -> dict[str, Any]:
    """A point for a program to read."""
    return {
        "method": point.method,
        "setting": point.words,
        "private": point.private,
        "whole rows": point.whole,
        "success": point.success,
        "basis": point.basis,
        "posterior": point.posterior,
        "delta": point.delta,
        "error": point.error.mean,
        "error stderr": _number(point.error.stderr),
        "runs": point.error.runs,
        "measures": {name: _fields(each) for name, each in point.numbers.items()},
        "intervals": point.intervals,
        "biased": point.biased,
        "bands": [
            {"from": b.low, "below": b.high, "counts": b.counts, **_fields(b.error)}
            for b in point.bands
        ],
        "beaten by": point.beaten_by,
        "sentence": sentence(point, values),
        "command": point.command,
    }


def _fields(given: Spread) -> dict[str, float | None]:
    numbers = asdict(given)
    del numbers["runs"]
    return {name: _number(value) for name, value in numbers.items()}


def _number(value: float) -> float | None:
    """What is not known has no number."""
    return value if math.isfinite(value) else None


# The command that publishes a table for good as one setting of a comparison did.

# What one of two flags says.
_FLAGS = {("adaptive", False): "uniform", ("several", "compound"): "compound"}


def publishing(method: str, parameters: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """For the table that was compared on, or any that is like it."""
    options: dict[str, Any] = {}
    for name, value in parameters.items():
        flag = _FLAGS.get((name, value)) if isinstance(value, (bool, str)) else None
        if flag or value is True:
            options[flag or _dashed(name)] = True
        elif value is not False and value is not None:
            options[_dashed(name)] = _written(value)
    if method == "workload":
        options["queries"] = shlex.quote(str(about.get("file") or "QUESTIONS.sql"))
    options |= {name: _written(value) for name, value in about.get("reading", {}).items()}
    known = {"schema": str(about.get("schema") or "SCHEMA")}
    return publish_command(str(about.get("source") or "TABLE"), method, **known, **options)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _written(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return shlex.quote(",".join(map(str, value)))
    return f"{value:.12g}" if isinstance(value, float) else shlex.quote(str(value))
