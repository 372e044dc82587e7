"""The HTML report of the demo: one page that loads nothing from the network."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from scumble._version import __version__
from scumble.demo.story import COUNTED, EPSILON, EPSILONS, EVERY_CONDITION, QUESTIONS
from scumble.model.query import query_command
from scumble.public import plot
from scumble.public.estimate import format_number
from scumble.public.html_page import render_page, svg_markup

if TYPE_CHECKING:
    from markupsafe import Markup

    from scumble.demo.story import DemoAnswer, Story
    from scumble.public.estimate import Estimate
    from scumble.public.release import Release

_ANSWERS = (
    f"A black bar is the truth, a dot the answer of a release at ε = {EPSILON:g}, and the line "
    "through it the interval that holds the truth with probability 95 %. The histogram is closer, "
    "because somebody is trusted with the true rows; for the uniform release nobody has to be. "
    "Answers are not cut off at 0, so that sums of them stay right on average."
)
_COST = (
    "The typical error of these counts when the table is published with more or with less privacy. "
    "A line is the standard error that the releases state; a dot is the error that was found by "
    "comparing with the truth."
)


def page(story: Story, folder: Path) -> str:
    """Return the report as one HTML page; `folder` is where it will be, for its commands."""
    held, asked = story.covered
    schema = next(iter(story.releases.values())).schema
    questions = groupby(story.lines, key=lambda line: line.question)
    return render_page(
        "scumble.demo",
        people=f"{story.people:,}",
        epsilon=f"{EPSILON:g}",
        cells=f"{schema.size(COUNTED):,}",
        counted=", ".join(COUNTED[:-1]) + " and " + COUNTED[-1],
        releases=story.releases,
        questions=[(question, list(lines)) for question, lines in questions],
        exact=format_exact,
        numbers=_numbers,
        held=held,
        asked=asked,
        limits=_limits,
        figures=figures(story) if plot.available() else [],
        commands="\n".join(commands(folder)),
        version=__version__,
    )


def commands(folder: Path) -> list[str]:
    """Return commands to try next."""
    return [
        f"scumble show {shlex.quote(str(folder / 'uniform'))}",
        query_command(folder / "uniform", EVERY_CONDITION.sql),
        query_command(folder / "histogram", QUESTIONS[1].sql) + " --json",
    ]


def figures(story: Story) -> list[tuple[str, Markup, str]]:
    """Return title, drawing and caption of each figure."""
    answers = plot.intervals(
        [str(line.group[0]) for line in story.conditions],
        [line.truth for line in story.conditions],
        [_series(name, story.conditions) for name in story.releases],
        "people with the condition",
    )
    cost = plot.tradeoff(
        EPSILONS,
        [plot.Curve(name, spread.stated, spread.found) for name, spread in story.spreads.items()],
        prior=0.1,
        axis="error of a count (people)",
    )
    drawn = [
        ("People with each condition: two answers and the truth", answers, _ANSWERS),
        ("What privacy costs", cost, _COST),
    ]
    return [(title, svg_markup(plot.svg(figure), title), words) for title, figure, words in drawn]


def _series(name: str, lines: Sequence[DemoAnswer]) -> plot.Series:
    answers = [line.answers[name] for line in lines]
    low, high = zip(*(answer.interval() for answer in answers), strict=True)
    return plot.Series(name, [answer.value for answer in answers], low, high)


def _numbers(answer: Estimate) -> tuple[str, str, str]:
    """Return an answer and the limits of its interval, rounded as its error allows."""
    low, high = answer.interval()
    value, low_text, high_text = (
        format_number(number, answer.stderr) for number in (answer.value, low, high)
    )
    return value, low_text, high_text


def _limits(release: Release) -> list[str]:
    """Return what the guarantees of a release do not promise, each once."""
    return list(dict.fromkeys(limit for each in release.guarantees for limit in each.limits))


def format_exact(number: float) -> str:
    """Format a true count as an integer, a true average with one decimal, and NaN as "none"."""
    if math.isnan(number):
        return "none"
    return f"{number:z,.0f}" if number.is_integer() else f"{number:z,.1f}"
