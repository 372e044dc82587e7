"""The points of a comparison: exposure and errors of each setting, which settings are beaten by
others, a sentence for each, and their export.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from scumble.compare import databases
from scumble.compare.comparison import Results
from scumble.compare.measures import (
    ERRORS,
    MEASURES,
    RepeatedAnswers,
    RunsOfSetting,
    RunSpread,
    all_measures,
    biased,
    chance_difference,
    error_quantile,
    spread,
    unrounded,
)
from scumble.compare.runs import Run
from scumble.compare.settings import ROWS, published_by
from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import at_most, percent_at_least, percent_at_most
from scumble.private.recommend import DATABASE, Recommendation, publish_command

_DOUBTFUL = 0.85  # a lower coverage of 95 % intervals is mentioned: few runs do not explain it
_SAME, _DRAWN = 1e-6, 0.01  # relative difference of equal exposures; if one is a mean of draws


@dataclass(frozen=True)
class Band:
    """The error of counts that select a share of the rows of at least `low` and below `high`."""

    low: float
    high: float
    counts: int
    error: RunSpread

    @property
    def words(self) -> str:
        return f"{100 * self.low:g}–{min(100 * self.high, 100):g} %"


@dataclass(frozen=True)
class Point:
    """One setting: its exposure, and the error of its answers by the chosen measure."""

    method: str
    words: str
    success: float
    basis: str
    posterior: float | None
    whole: bool  # its promise is for whole rows, not only for sensitive values
    delta: float
    error: RunSpread
    numbers: dict[str, RunSpread]  # by every measure
    intervals: int  # of which the coverage was measured
    biased: float | None  # share of the questions
    typical: tuple[float, float] | None  # a count, and a bound of 19 of 20 errors of such counts
    bands: tuple[Band, ...]
    beaten_by: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    worst: float | None = None  # the chance against the unluckiest person, in any run
    command: str = ""  # the shell command that publishes with this setting

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"

    @property
    def private(self) -> bool:
        """Whether the setting is differentially private, with or without δ."""
        return self.posterior is not None

    @property
    def strength(self) -> int:
        """The strength of the promise: 0 no DP, 1 DP of sensitive values, 2 DP of whole rows."""
        return self.private + (self.private and self.whole)


def check_measure(name: str) -> None:
    """Raise an error if the measure cannot be the axis of a comparison."""
    if name not in ERRORS:
        raise ParameterError.of("compare", "measure", f"one of {', '.join(ERRORS)}", name)


def points(results: Results, measure: str) -> list[Point]:
    """Return a point for each setting that has a run, in the order of their first runs."""
    check_measure(measure)
    by_name: dict[tuple[str, str], list[Run]] = {}
    for run in results.runs:
        by_name.setdefault((run.method, run.words), []).append(run)
    found = [_point(results, runs, measure) for runs in by_name.values()]
    return [_with_rival(point, found) for point in found]


def _point(results: Results, runs: Sequence[Run], measure: str) -> Point:
    found = _measured(results, runs)
    numbers = all_measures(found)
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
        worst=max((run.worst for run in runs if run.worst is not None), default=None),
        delta=first.delta,
        error=numbers[measure],
        numbers=numbers,
        intervals=sum(run.intervals for run in runs),
        biased=biased(found.answers),
        typical=_typical(found.answers.chosen(found.counts)),
        bands=_bands(found, measure if MEASURES[measure].single else "relative"),
        parameters=parameters,
        command=command_of_setting(first.method, parameters, results.about),
    )


def _measured(results: Results, runs: Sequence[Run]) -> RunsOfSetting:
    rows, truth = int(results.about["rows"]), np.array(results.truth)
    values = unrounded(truth, np.array([run.values for run in runs]))
    return RunsOfSetting(
        RepeatedAnswers(truth, values, rows),
        np.array(results.counts, bool),
        np.array([run.distances for run in runs]),
        *(
            np.array([np.nan if each is None else each for each in numbers])
            for numbers in ([run.coverage for run in runs], [run.half for run in runs])
        ),
    )


def _typical(counts: RepeatedAnswers) -> tuple[float, float] | None:
    """Return the median of the true counts above 0, and a bound of 19 of 20 errors of counts from
    half of it to twice as large.
    """
    if not len(counts.truth):
        return None
    somebody = counts.truth[counts.truth > 0]
    middle = float(np.median(somebody)) if len(somebody) else 0.0
    near = (counts.truth >= middle / 2) & (counts.truth <= 2 * middle)
    if not near.any():
        near[:] = True
    return middle, error_quantile(counts.chosen(near).errors, 0.95)


def _bands(found: RunsOfSetting, measure: str) -> tuple[Band, ...]:
    """Return the errors by selectivity; bands to which the measure does not apply are left out."""
    return tuple(
        Band(low, high, len(some.answers.truth), spread(runs))
        for low, high, some in found.by_selectivity()
        if (runs := MEASURES[measure].of(some)) is not None
    )


def _with_rival(point: Point, others: Sequence[Point]) -> Point:
    """Return the point with `beaten_by` set if another setting exposes no more and errs no more.

    A setting with a weaker promise beats none: without DP one with DP, and one that publishes other
    columns unchanged one that protects whole rows. A database that was planned for just these
    questions beats none: it answers no others.
    """
    for other in others:
        if other.method == databases.PURE != point.method:
            continue
        alike = other.strength >= point.strength
        if other is not point and alike and _beats(other, point):
            return replace(point, beaten_by=other.name)
    return point


def _beats(other: Point, point: Point) -> bool:
    """Return whether `other` is better: neither success, worst case nor promise may be worse.

    Of settings with the same exposure one is better only if its error is significantly smaller.
    """
    ends = [1.0 if each.posterior is None else each.posterior for each in (other, point)]
    if ends[0] > ends[1] * (1 + _SAME):
        return False
    if other.worst is not None and other.worst > (point.worst or 1.0) * (1 + _SAME):
        return False
    less = other.error.mean + chance_difference(other.error, point.error) < point.error.mean
    if point.basis == "limit":  # its exposure may be smaller: only the promises are compared
        return less
    same = _DRAWN if "drawn" in (other.basis, point.basis) else _SAME
    if other.success > point.success * (1 + same):
        return False
    if other.success < point.success * (1 - same):
        return other.error.mean <= point.error.mean
    return less


def sentence(point: Point) -> str:
    """Say in a sentence what a setting means for the attacker and for the answers."""
    learned, erred = _learned(point), _erred(point)
    missed = ""
    coverage = point.numbers.get("coverage")
    if coverage is not None and coverage.mean < _DOUBTFUL:
        held = f"{100 * coverage.mean:.0f} %"
        missed = f" Its intervals of 95 % held the truth in {held} of the cases only."
    by = point.beaten_by
    beaten = f" It is beaten by {by}, which exposes no more and errs no more." if by else ""
    return f"{learned}; {erred}.{missed}{beaten}"


def _learned(point: Point) -> str:
    """Say how often the attacker of the chart is right, and what holds for the unluckiest person.

    The attacker knows all other columns of a person and finds all values equally likely.
    """
    about = {"limit": "at most ", "drawn": "about "}.get(point.basis, "")
    guess = f"the best guess is right in {about}{percent_at_most(point.success)} of the cases"
    if point.posterior is not None:
        but = f" (except with probability {at_most(point.delta)})" if point.delta else ""
        bound = 1.0 if point.worst is None else point.worst
        others = "" if point.whole else "; all other columns are published unchanged"
        return f"{guess}, and in at most {percent_at_most(bound)} about anybody{but}{others}"
    unlucky = ""
    if point.worst is not None:
        unlucky = f", and in {percent_at_most(point.worst)} about the unluckiest person"
    rho1, rho2 = (point.parameters.get(name) for name in ("rho1", "rho2"))
    shares = ""
    if rho1 and rho2:
        shares = (
            f"; a value that at most {percent_at_least(rho1)} (ρ1) of the rows have is right in at "
            f"most {percent_at_most(rho2)} (ρ2) for somebody who knows just these shares"
        )
    return f"not DP: {guess}{unlucky}{shares}; no limit holds for whoever knows more"


def _erred(point: Point) -> str:
    if point.typical is None:
        return f"the answers are off by {100 * point.numbers['median'].mean:.2g} % in the median"
    count, error = point.typical
    if not error:
        often = "" if not point.error.mean else " nineteen times in twenty"
        return f"a count of {_digits(count)} is answered exactly{often}"
    reach = f"±{_digits(error, up=True)} nineteen times in twenty"
    if point.method.endswith(ROWS):  # their error is measured here, and promised nowhere
        return f"a count of {_digits(count)} in synthetic rows was within {reach}"
    return f"a count of {_digits(count)} will be within {reach}"


def _digits(number: float, *, up: bool = False) -> str:
    """Return a number rounded to two digits, upwards if `up`."""
    if number < 1:
        return f"{number:.2g}"
    step = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    whole = math.ceil(number / step) if up else round(number / step)
    return f"{whole * step:,.0f}"


# The points as CSV, and as dictionaries.


def as_csv(found: Sequence[Point]) -> str:
    """Return the points as CSV, one line for each setting."""
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
        "worst",
        "posterior",
        "delta",
        "runs",
    ]
    head += ["error", "error stderr"]
    head += [words for name in names for words in (name, f"{name} deviation")]
    head += ["intervals", "biased", *(f"error at {words}" for words in bands), "beaten by"]
    writer.writerow(head)
    for point in found:
        place = [
            point.success,
            point.basis,
            point.worst,
            point.posterior,
            point.delta,
            point.error.runs,
        ]
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


def as_fields(point: Point) -> dict[str, Any]:
    """Return a point as a dictionary."""
    return {
        "method": point.method,
        "setting": point.words,
        "private": point.private,
        "whole rows": point.whole,
        "success": point.success,
        "basis": point.basis,
        "worst": point.worst,
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
        "sentence": sentence(point),
        "command": point.command,
    }


def _fields(given: RunSpread) -> dict[str, float | None]:
    numbers = asdict(given)
    del numbers["runs"]
    return {name: _number(value) for name, value in numbers.items()}


def _number(value: float) -> float | None:
    """Return the value; None if it is not finite."""
    return value if math.isfinite(value) else None


# The command that publishes a table with a setting.

_DRAW = "scumble rows view -o rows.csv"
# The flag of an option that has another name than the parameter, for a value of the parameter.
_FLAGS: dict[tuple[str, object], str] = {("adaptive", False): "uniform", ("joint", True): "joint"}


def command_of_setting(method: str, parameters: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return the command that publishes the table of the comparison with these parameters, or
    makes a database over it.
    """
    schema, source = str(about.get("schema") or "SCHEMA"), str(about.get("source") or "TABLE")
    if method in databases.METHODS:
        given = {**parameters, **about.get("reading", {})}
        return Recommendation(DATABASE, given, "").command(source, schema)
    options: dict[str, Any] = {}
    for name, value in parameters.items():
        flag = _FLAGS.get((name, value)) if isinstance(value, (bool, str)) else None
        options |= {flag: True} if flag else {name: value}
    if published_by(method) == "workload":
        options["queries"] = str(about.get("file") or "QUESTIONS.sql")
    options |= about.get("reading", {})
    command = publish_command(source, published_by(method), options, schema, "view")
    return command if method == published_by(method) else f"{command} && {_DRAW}"
