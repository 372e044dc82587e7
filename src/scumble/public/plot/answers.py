"""Answers with their intervals against the truth, one line per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scumble.public.plot.curves import COLOURS, INK, MARKERS, Series, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def intervals(
    groups: Sequence[str], truth: Sequence[float], series: Sequence[Series], axis: str
) -> Figure:
    """A line per group, the largest on top: a bar for the truth, a dot and whisker per series."""
    figure, axes = blank(8.2, 1.3 + 0.38 * len(groups))
    order = sorted(range(len(groups)), key=lambda place: truth[place])
    rows = range(len(order))
    axes.set_yticks(rows, [groups[place] for place in order])
    axes.grid(visible=False, axis="y")
    true = [truth[place] for place in order]
    axes.scatter(true, rows, marker="|", s=240, linewidths=2.2, color=INK, zorder=4)
    for number, one in enumerate(series):
        _whiskers(axes, one, order, number, len(series))
    axes.set_xlabel(axis, color=INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(-0.7, len(order) + 0.25)
    # Room on the right for the names beside the topmost group.
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.1 * (right - left))
    _name_directly(axes, truth, series, order)
    return figure


def _whiskers(axes: Axes, one: Series, order: Sequence[int], number: int, of: int) -> None:
    # The series stand a little above and below the line of their group, so that none hides another.
    shift = 0.2 * ((of - 1) / 2 - number) * 2 / max(of - 1, 1)
    lines = [row + shift for row in range(len(order))]
    colour, values = COLOURS[number], [one.values[place] for place in order]
    low, high = ([limits[place] for place in order] for limits in (one.low, one.high))
    axes.hlines(lines, low, high, color=colour, linewidth=2.0)
    axes.scatter(values, lines, marker=MARKERS[number], s=26, color=colour, zorder=3)


def _name_directly(
    axes: Axes, truth: Sequence[float], series: Sequence[Series], order: Sequence[int]
) -> None:
    """Names beside the topmost group instead of a legend that has to be looked up."""
    top, row = order[-1], len(order) - 1
    right = max([truth[top], *(one.high[top] for one in series)])
    for number, one in enumerate(series):
        shift = 0.2 * ((len(series) - 1) / 2 - number) * 2 / max(len(series) - 1, 1)
        axes.annotate(
            one.name,
            (right, row + shift * 1.6),
            xytext=(8, 0),
            textcoords="offset points",
            color=COLOURS[number],
            va="center",
            fontsize=10,
            fontweight="bold",
        )
    axes.annotate(
        "truth",
        (truth[top], row + 0.35),
        xytext=(0, 3),
        textcoords="offset points",
        color=INK,
        ha="center",
        va="bottom",
        fontsize=10,
        fontweight="bold",
    )
