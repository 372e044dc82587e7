"""The page of a comparison: one chart, a sentence for each choice, and the numbers behind it.

`page` makes the HTML, `write` saves it with CSV and JSON beside it, `read` loads the JSON again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import floor, isnan, log10
from pathlib import Path
from typing import NamedTuple

from scumble._version import __version__
from scumble.audit.report import write_owner_only
from scumble.compare.chart import Mark, draw_chart
from scumble.compare.comparison import Results
from scumble.compare.exposure import DRAWS
from scumble.compare.measures import BETA, MEASURES, SHARE, RunSpread
from scumble.compare.points import Point, as_csv, as_fields, points, sentence
from scumble.public.html_page import render_page

OWNER = (
    "For the owner only. This was made of the private table: its errors and true counts are "
    "covered by no promise. Do not publish this page, nor the files beside it."
)
PREVIEW = (
    "A preview on a synthetic stand-in: rows drawn from the schema alone, no private row was "
    "read. The errors of your own table will differ, most those of anatomy, generalise and "
    "partition."
)
_READING = (
    "To the left: the attacker learns less. Down: the answers are better. The attacker, in the "
    "chart and in all sentences, knows all other columns of a person and finds the sensitive "
    "values equally likely beforehand. The chance is exact for releases of rows (for partition "
    "within the worst sub-table, for anatomy with the frequencies known, for alphabeta and frapp "
    "as if nobody else had the same other columns). For summaries it is that of somebody who knows "
    f"all other rows too: a mean of {DRAWS:,} draws of the noise, or the limit that ε allows, with "
    "an arrow to the left, where it depends on the table what is measured. For databases it is "
    "that limit, too; database-pure was planned for just these questions, answers no others, and "
    "beats nothing else. It is a mean over people and over what may be published. With a promise, "
    "a bound holds for everybody. Without one, the line beside a mark reaches to the unluckiest "
    "person of this table, and an attacker who knows more may learn more: such a setting beats "
    "none with a promise. Methods that publish rows protect the sensitive values; the other "
    "columns stand in the rows as they are. Summaries protect whole rows, and are beaten only by "
    "each other."
)
_BIAS = 2  # most decimal places of the bias, whose size other columns show
_TINY = 1e-4  # smaller numbers are written with an exponent
# The measures of the first table (errors) and of the second (those that papers report besides).
_FIRST = ("relative", "median", "absolute", "root", "bias", "half", "coverage")
_SECOND = ("unbounded", "squared", "marginal", "alpha", "beta", "rho")


def marks(found: Sequence[Point]) -> list[Mark]:
    """Return the points as marks of the chart."""
    return [
        Mark(
            p.method,
            p.words,
            p.success,
            p.error.mean,
            p.private,
            p.whole,
            p.basis == "limit",
            bool(p.beaten_by),
            p.worst,
        )
        for p in found
    ]


class Columns(NamedTuple):
    """A table of numbers: the titles of its columns, and a row of texts for each choice."""

    head: list[str]
    rows: list[tuple[Point, list[str]]]


def page(results: Results, measure: str, *, when: datetime | None = None) -> str:
    """Return the whole page as HTML; `when` is its date, now by default."""
    found = points(results, measure)
    about = results.about
    values = int(about["values"])
    axis = MEASURES[measure]
    return render_page(
        "scumble.compare",
        subject=about["subject"],
        preview=about["preview"],
        notice=PREVIEW if about["preview"] else OWNER,
        setup=_setup(results, found),
        figure=draw_chart(marks(found), 1 / values, axis.words, percent=axis.percent),
        reading=_READING,
        points=found,
        sentence=lambda point: _capital(sentence(point)),
        words=_words,
        numbers=_numbers(found, _FIRST, more=True),
        explained=_explained(results, found),
        further=_numbers(found, _SECOND),
        measure=MEASURES[_of_bands(measure)].words.capitalize(),
        bands=_bands(found, _of_bands(measure)),
        left_out=results.refusals(),
        questions=list(dict.fromkeys(text.partition(" -- ")[0] for text in results.questions)),
        version=__version__,
        date=f"{when or datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def write(results: Results, measure: str, output: Path) -> list[Path]:
    """Write the page, the points as CSV and the results as JSON; return the files.

    Only the user who runs the command may read them.
    """
    found = points(results, measure)
    fields = {
        "notice": PREVIEW if results.about["preview"] else OWNER,
        "points": [as_fields(point) for point in found],
        **results.to_dict(),
    }
    texts = {
        output: page(results, measure),
        output.with_suffix(".csv"): as_csv(found),
        output.with_suffix(".json"): json.dumps(fields, ensure_ascii=False),
    }
    for path, text in texts.items():
        write_owner_only(path, text)
    return list(texts)


def read(path: Path) -> Results:
    """Return the results in the JSON file of a comparison."""
    data = json.loads(path.read_text("utf-8"))
    for name in ("notice", "points"):
        data.pop(name, None)
    return Results.from_dict(data)


def _setup(results: Results, found: Sequence[Point]) -> str:
    """Return what was compared, in sentences."""
    about = results.about
    runs = sorted({point.error.runs for point in found})
    most = "once" if runs[-1] == 1 else f"{runs[-1]} times"
    times = most if len(runs) == 1 else f"{runs[0]} to {runs[-1]} times"
    few = "; " + fewer(results) if fewer(results) else ""
    asked = f"{number(about['questions'], 'question')}, {number(len(results.truth), 'answer')}"
    return (
        f"{about['subject']}: {about['rows']:,} rows, {about['values']} values of "
        f"{' and '.join(about['sensitive'])} to hide among. The questions are {about['workload']} "
        f"({asked}{few}). Each setting was published {times}.{_columns(found)}"
    )


def _columns(found: Sequence[Point]) -> str:
    """Return a sentence on the columns that summaries measured."""
    sets = dict.fromkeys(tuple(point.parameters.get("attributes", ())) for point in found)
    said = [f"{', '.join(names[:-1])} and {names[-1]}" for names in sets if len(names) > 1]
    said += [names[0] for names in sets if len(names) == 1]
    return f" Summaries measured the columns {'; '.join(said)}." if said else ""


def fewer(results: Results) -> str:
    """Return a remark if a generator found fewer questions than were asked for, else nothing."""
    wanted, found = results.about.get("wanted"), results.about["questions"]
    return (
        f"asked for {wanted}, found {found}: no other questions select enough rows"
        if wanted
        else ""
    )


def number(many: int, thing: str) -> str:
    """Return a number and a noun, in the plural unless it is 1."""
    return f"{many:,} {thing}" if many == 1 else f"{many:,} {thing}s"


def _explained(results: Results, found: Sequence[Point]) -> str:
    """Return what the columns of the tables mean, in sentences."""
    bound = max(SHARE * int(results.about["rows"]), 1.0)
    intervals = sorted({point.intervals for point in found})
    counted = (
        f"{intervals[0]:,}" if len(intervals) == 1 else f"{intervals[0]:,} to {intervals[-1]:,}"
    )
    return (
        "Means over the repeats ± the standard deviation of one. Relative errors are |estimate − "
        f"truth| / max(truth, {bound:,.3g}), so that a count of nearly nobody does not decide (no "
        "bound: / truth, where the truth is above 0); sums and averages are measured by "
        "themselves. Half-width is the mean of half of the intervals of 95 %, with what the "
        "release does not tell: a small error beside wide intervals is one that no reader can rely "
        "on. Coverage is the share of the intervals that held the truth, the value in this table, "
        f"of {counted} for each setting; they speak of the uncertainty of privacy alone. Biased is "
        "the share of the answers whose mean error over the "
        "repeats is further from 0 than chance takes one answer in a hundred. L1 of tables is the "
        "sum of |estimate − truth| over all cells of a GROUP BY, divided by their true total: 0 if "
        "all are right, 1 if all are said to be empty, more where the noise is larger. "
        f"{100 * (1 - BETA):g} % of the answers are within α · rows, and within ρ √rows; a share β "
        f"is off by more than {100 * SHARE:g} % of the rows."
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _words(command: str) -> list[tuple[str, bool]]:
    """Split a command; True marks the names of options, within which lines do not break."""
    parts = re.split(r"(?<= )(--?[a-z][a-z-]*)", command)
    return [(part, bool(place % 2)) for place, part in enumerate(parts)]


def _numbers(found: Sequence[Point], wanted: Sequence[str], *, more: bool = False) -> Columns:
    """Return the measures `wanted` of every choice.

    With `more` also the attacker's chance, and the share of the answers that are biased.
    """
    names = [name for name in wanted if any(name in point.numbers for point in found)]
    head = [MEASURES[name].head for name in names]
    rows = [[_spread(name, point.numbers.get(name)) for name in names] for point in found]
    if more:
        head = ["best guess", *head, "biased"]
        rows = [
            [_guess(point), *row, "" if (b := point.biased) is None else f"{100 * b:.2g} %"]
            for point, row in zip(found, rows, strict=True)
        ]
    return Columns(head, list(zip(found, rows, strict=True)))


def _of_bands(measure: str) -> str:
    """Return the measure of the bands: that of the axis if it is one of single answers."""
    return measure if MEASURES[measure].single else "relative"


def _bands(found: Sequence[Point], measure: str) -> Columns:
    """Return the error of counts by the share of the rows that they select."""
    words = {(b.low, b.high): (b.words, b.counts) for point in found for b in point.bands}
    head = [f"{words[band][0]} ({words[band][1]:,} counts)" for band in sorted(words)]
    rows = []
    for point in found:
        known = {(band.low, band.high): band.error for band in point.bands}
        rows.append([_spread(measure, known.get(band)) for band in sorted(words)])
    return Columns(head, list(zip(found, rows, strict=True)))


def _spread(name: str, given: RunSpread | None) -> str:
    """Return a mean over runs, and the deviation of one run if there are several."""
    if given is None:
        return ""
    scale = 100 if MEASURES[name].percent else 1
    mean, deviation = scale * given.mean, scale * given.deviation
    text = _rounded(mean, _places(mean, 3))
    if mean and max(abs(mean), 0 if isnan(deviation) else deviation) < _TINY:
        text = f"{mean:.1e}" if isnan(deviation) else f"{mean:.1e} ± {deviation:.0e}"
        text = text.replace("-", "−")
    elif deviation > 0:
        own = min(_places(deviation, 2), max(_places(mean, 3) + 1, 0) if mean else 3)
        own = min(own, _BIAS) if name == "bias" else own
        text = f"{_rounded(mean, min(_places(mean, 3), own))} ± {_rounded(deviation, own)}"
    return f"{text} %" if scale == 100 else text


def _places(number: float, digits: int) -> int:
    """Return the decimal places for `digits` significant digits; negative before the point."""
    return digits - 1 - floor(log10(abs(number))) if number else digits


def _rounded(number: float, places: int) -> str:
    nearest = round(number, places)
    return f"{nearest:,.{max(places, 0)}f}".replace("-", "−") if nearest else "0"


def _guess(point: Point) -> str:
    sign = {"limit": "≤ ", "drawn": "≈ "}.get(point.basis, "")
    return f"{sign}{percents(point.success)}"


def percents(value: float) -> str:
    """Return a share in percent, in three digits, or as a whole number from 1000 % on."""
    return f"{100 * value:,.0f} %" if value >= 10 else f"{100 * value:.3g} %"
