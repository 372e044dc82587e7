"""The figure of docs/choosing.md: publishers on the same fictitious people, by exposure (which is
computed) and by the error of the same counts (which is measured).

python -m research.choosing docs/choosing.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, product
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import scumble as sc
from scumble.compare.exposure import release_exposure
from scumble.compare.truth import TrueTable
from scumble.demo.census import census
from scumble.public.plot.figures import FAINT, INK, blank, svg
from scumble.public.sandbox import Sandbox

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scumble.private.mechanism import Mechanism


# Colour, marker, and whether the mark is filled: the promise holds against every attacker who knows
# all other rows.
_STYLES = {
    "Uniform": ("#0072B2", "o", True),
    "Subset": ("#009E73", "s", True),
    "Aroma": ("#CC79A7", "D", False),
    "Partition": ("#E69F00", "^", False),
    "Anatomy": ("#D55E00", "v", False),
    "AlphaBeta": ("#56B4E9", "P", False),
    "Frapp": ("#666666", "X", False),
}


class Placed(Protocol):
    """A setting of a publisher with its two coordinates, exposure and error."""

    @property
    def method(self) -> str: ...
    @property
    def setting(self) -> str: ...
    @property
    def success(self) -> float: ...
    @property
    def error(self) -> float: ...


def choosing(points: Sequence[Placed], blind: float) -> Figure:
    """Draw a curve for each publisher; hollow marks are promises that some knowledge breaks."""
    figure, axes = blank(8.6, 5.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axvline(blind, color=FAINT, linewidth=1, linestyle=":")
    axes.annotate(
        "blind guess",
        (blind, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -10),
        textcoords="offset points",
        color=FAINT,
        fontsize=9,
    )
    ordered = sorted(points, key=lambda point: (point.method, point.success))
    for method, group in groupby(ordered, key=lambda point: point.method):
        _draw(axes, method, list(group))
    axes.annotate(
        "full: holds against all who know the rest\nhollow: holds against some, see the text",
        (0.99, 0.985),
        xycoords="axes fraction",
        ha="right",
        va="top",
        color=FAINT,
        fontsize=9,
    )
    axes.set_xlabel("best chance to guess a person's value (log scale)", color=INK)
    axes.set_ylabel("error of a count, root mean square (log scale)", color=INK)
    axes.set_xticks([0.07, 0.1, 0.2, 0.3, 0.5, 1], ["7 %", "10 %", "20 %", "30 %", "50 %", "100 %"])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.set_xlim(blind * 0.93, 1.0)
    return figure


def _draw(axes: Axes, method: str, points: Sequence[Placed]) -> None:
    colour, marker, full = _STYLES[method]
    chances, errors = [p.success for p in points], [p.error for p in points]
    axes.plot(chances, errors, color=colour, linewidth=1.6, alpha=0.8)
    dots = axes.scatter(chances, errors, s=58, marker=marker, zorder=3)
    dots.set(facecolors=colour if full else "white", edgecolors=colour, linewidths=1.6)
    # Names stand above and to the right, but for what runs close to others or to the edge.
    offset, side = {"Aroma": ((-12, -16), "left"), "Anatomy": ((-9, -4), "right")}.get(
        method, ((7, 5), "left")
    )
    by_error = method == "Anatomy"  # its last point is among those of other methods
    named = max(points, key=lambda p: p.error if by_error else p.success)
    below = (7, -13) if method == "Subset" else offset  # its last point is close to Uniform's
    for point in points:
        crowded = by_error and point is max(points, key=lambda p: p.success)
        axes.annotate(
            f"{method}, {point.setting}" if point is named else point.setting,
            (point.success, point.error),
            xytext=(7, 5) if crowded else below if point is named else offset,
            ha="left" if crowded else side,
            textcoords="offset points",
            color=colour,
            fontsize=10 if point is named else 8,
            fontweight="bold" if point is named else "normal",
        )


PEOPLE = 50_000
REPEATS = 5
AGES = ((18, 39), (40, 64), (65, 90))


@dataclass(frozen=True)
class Point:
    """A setting of a publisher: the success of the best attacker, and the error of an answer."""

    method: str
    setting: str
    success: float
    error: float


def settings() -> Iterator[tuple[str, Mechanism]]:
    """Yield the mechanisms that are compared, each with a description of its setting."""
    for epsilon in (0.5, 1, 2, 3):
        yield f"ε = {epsilon:g}", sc.Uniform(epsilon=epsilon)
        yield f"ε = {epsilon:g}", sc.Subset(epsilon=epsilon)
    for k in (5, 15, 49, 200):
        yield f"k = {k}", sc.Aroma(k=k)
    for rho2 in (0.3, 0.4, 0.5):
        yield f"ρ2 = {rho2:g}", sc.Partition(rho1=0.2, rho2=rho2)
    for l in (2, 3, 4):  # noqa: E741  # the letter that everybody uses for it
        yield f"l = {l}", sc.Anatomy(l=l, suppress=True)
    yield "k = 10, γ = 0.2", sc.AlphaBeta(k=10, gamma=0.2, duplicates="collapse")
    yield "k = 10, γ = 0.2", sc.Frapp(reading="published", k=10, gamma=0.2)


def points(people: int = PEOPLE, repeats: int = REPEATS) -> Iterator[Point]:
    """Publish with every setting and compare the answers with the truth."""
    table, schema = census(people)
    questions = [
        f"SELECT COUNT(*) FROM people WHERE condition = '{condition}' AND sex = '{sex}' "
        f"AND age BETWEEN {low} AND {high}"
        for condition, sex, (low, high) in product(
            schema["condition"].labels().to_pylist(), ("female", "male"), AGES
        )
    ]
    true = TrueTable.read(table, schema)
    truths = {name: _truths(rows, schema, questions) for name, rows in _tables(table, schema)}
    for words, mechanism in settings():
        truth = truths["distinct" if mechanism.name == "alphabeta" else "all"]
        squares, success = 0.0, 0.0
        for _ in range(repeats):
            release = sc.publish(table, schema, mechanism)
            answers = release.answer_many(questions)
            squares += sum(_square(a, t) for a, t in zip(answers, truth, strict=True))
            success = release_exposure(release, true, Fraction(1, 10)).success
        error = sqrt(squares / repeats / len(questions))
        yield Point(type(mechanism).__name__, words, success, error)


def _square(answer: Any, truth: float) -> float:
    error: float = answer.value - truth
    return error * error


def _tables(table: pa.Table, schema: sc.Schema) -> Iterator[tuple[str, pa.Table]]:
    """Yield the table and the same without duplicate rows, which sets of tuples are about."""
    names = [attribute.name for attribute in schema.published]
    yield "all", table.select(names)
    yield "distinct", table.select(names).group_by(names).aggregate([])


def _truths(table: pa.Table, schema: sc.Schema, questions: list[str]) -> list[float]:
    engine = Sandbox(schema, {"people": table})
    return [engine.rows(sql).column(0)[0].as_py() for sql in questions]


if __name__ == "__main__":
    measured = []
    for point in points():
        measured.append(point)
        line = f"{point.method:10} {point.setting:18} {point.success:7.1%} {point.error:9.1f}"
        sys.stdout.write(f"{line}\n")
    Path(sys.argv[1]).write_text(svg(choosing(measured, 1 / 15)), "utf-8")
