"""The report of the demo: one page that needs nothing from the network."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from scumble._version import __version__
from scumble.demo.story import COUNTED, EPSILON, EPSILONS, EVERY_CONDITION, QUESTIONS
from scumble.public import plot
from scumble.public.estimate import format_exact, format_number, query_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scumble.demo.story import Line, Story
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
    """The whole report as HTML; `folder` is where it will lie, for the commands that it shows."""
    held, asked = story.covered
    template = Template(files("scumble.demo").joinpath("page.html").read_text(encoding="utf-8"))
    schema = next(iter(story.releases.values())).schema
    return template.substitute(
        people=f"{story.people:,}",
        epsilon=f"{EPSILON:g}",
        cells=f"{schema.size(COUNTED):,}",
        counted=escape(", ".join(COUNTED[:-1]) + " and " + COUNTED[-1]),
        heads="".join(_head(name) for name in story.releases),
        rows="".join(_question(list(lines)) for _, lines in _by_question(story.lines)),
        held=held,
        asked=asked,
        promises="".join(_promise(name, release) for name, release in story.releases.items()),
        figures="".join(figures(story)) if plot.available() else "",
        commands=escape("\n".join(commands(folder))),
        version=__version__,
    )


def commands(folder: Path) -> list[str]:
    """What a person may type next."""
    return [
        f"scumble show {shlex.quote(str(folder / 'uniform'))}",
        query_command(folder / "uniform", EVERY_CONDITION.sql),
        query_command(folder / "histogram", QUESTIONS[1].sql) + " --json",
    ]


def figures(story: Story) -> list[str]:
    """Both plots with what there is to see in them."""
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
    return [
        _figure("People with each condition: two answers and the truth", answers, _ANSWERS),
        _figure("What privacy costs", cost, _COST),
    ]


def _figure(title: str, figure: Figure, caption: str) -> str:
    name = escape(title)
    drawing = plot.svg(figure).replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    words = f"<figcaption>{escape(caption)}</figcaption>"
    return f"<h2>{name}</h2>\n<figure>{drawing}{words}</figure>\n"


def _series(name: str, lines: Sequence[Line]) -> plot.Series:
    answers = [line.answers[name] for line in lines]
    low, high = zip(*(answer.interval() for answer in answers), strict=True)
    return plot.Series(name, [answer.value for answer in answers], low, high)


def _by_question(lines: Sequence[Line]) -> groupby[str, Line]:
    return groupby(lines, key=lambda line: line.question.words)


def _head(name: str) -> str:
    return f'<th scope="col" class="number {escape(name)}">{escape(name)}</th>'


def _question(lines: Sequence[Line]) -> str:
    """A heading with the words and the SQL, then a row per group."""
    question, columns = lines[0].question, len(lines[0].answers) + 2
    words = f"{escape(question.words)}<code>{escape(question.sql)}</code>"
    rows = "".join(f"<tr>{_row(line)}</tr>" for line in lines)
    return f'<tbody><tr><th colspan="{columns}" scope="rowgroup">{words}</th></tr>{rows}</tbody>\n'


def _row(line: Line) -> str:
    group = escape(", ".join(map(str, line.group)))
    truth = f'<td>{group}</td><td class="number">{format_exact(line.truth)}</td>'
    return truth + "".join(_answer(answer) for answer in line.answers.values())


def _answer(answer: Estimate) -> str:
    low, high = (format_number(limit, answer.stderr) for limit in answer.interval())
    value = format_number(answer.value, answer.stderr)
    return f'<td class="number">{value}<span class="interval">{low} to {high}</span></td>'


def _promise(name: str, release: Release) -> str:
    promised = "".join(
        f'<li>{escape(str(guarantee))} <span class="proof">({escape(guarantee.proof)})</span></li>'
        for guarantee in release.guarantees
    )
    limits = dict.fromkeys(limit for each in release.guarantees for limit in each.limits)
    missing = "".join(f"<li>{escape(limit)}</li>" for limit in limits)
    return (
        f'<h3 class="{escape(name)}">{escape(name)}</h3><ul>{promised}</ul>'
        f"<p><b>Not promised by {escape(name)}:</b></p><ul>{missing}</ul>\n"
    )
