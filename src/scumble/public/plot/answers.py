"""Figures of answers: intervals against the truth, the cost of privacy, certainty of guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from scumble.model.privacy.guarantee import (
    gamma_above_epsilon,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)
from scumble.public.plot.figures import COLOURS, FAINT, INK, MARKERS, Series, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def intervals(
    groups: Sequence[str], truth: Sequence[float], series: Sequence[Series], axis: str
) -> Figure:
    """Draw answers with their intervals against the truth.

    Each group has a row, the largest on top: a bar for the truth, a dot and a line per series.
    `axis` is the label of the x axis.
    """
    figure, axes = blank(8.2, 1.3 + 0.38 * len(groups))
    order = sorted(range(len(groups)), key=lambda place: truth[place])
    rows = range(len(order))
    axes.set_yticks(rows, [groups[place] for place in order])
    axes.grid(visible=False, axis="y")
    true = [truth[place] for place in order]
    axes.scatter(true, rows, marker="|", s=240, linewidths=2.2, color=INK, zorder=4)
    for number, one in enumerate(series):
        _draw_series(axes, one, order, number, len(series))
    axes.set_xlabel(axis, color=INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(-0.7, len(order) + 0.25)
    # Space on the right for the names beside the topmost group.
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.1 * (right - left))
    _label_series(axes, truth, series, order)
    return figure


def _draw_series(axes: Axes, one: Series, order: Sequence[int], number: int, of: int) -> None:
    # The series are shifted up and down a little, so that none hides another.
    shift = 0.2 * ((of - 1) / 2 - number) * 2 / max(of - 1, 1)
    lines = [row + shift for row in range(len(order))]
    colour, values = COLOURS[number], [one.values[place] for place in order]
    low, high = ([limits[place] for place in order] for limits in (one.low, one.high))
    axes.hlines(lines, low, high, color=colour, linewidth=2.0)
    axes.scatter(values, lines, marker=MARKERS[number], s=26, color=colour, zorder=3)


def _label_series(
    axes: Axes, truth: Sequence[float], series: Sequence[Series], order: Sequence[int]
) -> None:
    """Write the names of the series beside the topmost group, instead of a legend."""
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


@dataclass(frozen=True)
class Curve:
    """Errors of one mechanism at every ε: as stated beforehand, and as measured."""

    name: str
    stated: Sequence[float]
    found: Sequence[float]


def tradeoff(
    epsilons: Sequence[float], curves: Sequence[Curve], *, prior: float, axis: str
) -> Figure:
    """Draw the error of answers against ε: a line as stated, a marker as measured.

    The upper axis shows the posterior that an attacker with the prior `prior` can reach at most.
    `axis` is the label of the y axis.
    """
    from matplotlib.ticker import LogLocator

    figure, axes = blank(8.2, 4.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for number, curve in enumerate(curves):
        _draw_curve(axes, epsilons, curve, number)
    axes.set_xlabel("ε, the privacy loss of one person (smaller is more private)", color=INK)
    axes.set_ylabel(axis, color=INK)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 3)))
    axes.minorticks_off()
    # Space on the right for the names at the ends of the lines.
    axes.set_xlim(epsilons[0] * 0.85, epsilons[-1] * 1.75)
    _posterior_axis(axes, epsilons, prior)
    return figure


def _draw_curve(axes: Axes, epsilons: Sequence[float], curve: Curve, number: int) -> None:
    colour = COLOURS[number]
    axes.plot(epsilons, curve.stated, color=colour, linewidth=2.4)
    dots = axes.scatter(epsilons, curve.found, s=52, marker=MARKERS[number], color=colour)
    dots.set(edgecolors="white", zorder=3)
    axes.annotate(
        curve.name,
        (epsilons[-1], curve.stated[-1]),
        xytext=(9, 0),
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=10,
        fontweight="bold",
    )


def _posterior_axis(axes: Axes, epsilons: Sequence[float], prior: float) -> None:
    """Add an upper axis: the largest posterior of an attacker with the prior `prior`."""
    top = axes.secondary_xaxis("top")
    top.spines["top"].set_visible(False)
    top.tick_params(colors=INK, length=0, labelsize=10)
    gammas = [gamma_above_epsilon(Fraction(str(epsilon))) for epsilon in epsilons]
    ends = [posterior_at_most(Fraction(str(prior)), gamma) for gamma in gammas]
    top.set_xticks(epsilons, [percent_at_most(end) for end in ends])
    top.minorticks_off()
    top.set_xlabel(
        f"someone who believed a value with {percent_at_least(prior)} can reach at most", color=INK
    )


def learned(certainty: Sequence[float], people: Sequence[int], before: float) -> Figure:
    """Draw the share of people whose most likely value has at least a given posterior.

    `certainty` are the posteriors, `people` the number of people with each. `before` is the
    certainty of the best guess without the release.
    """
    figure, axes = blank(7.6, 3.6)
    pairs = sorted(zip(certainty, people, strict=True), reverse=True)
    whole = sum(people)
    levels, shares, so_far = [1.0], [0.0], 0
    for level, number in pairs:
        levels += [level, level]
        shares += [so_far / whole, (so_far + number) / whole]
        so_far += number
    axes.plot([*levels, 0.0], [*shares, 1.0], color=COLOURS[0], linewidth=2)
    axes.axvline(before, color=FAINT, linestyle=(0, (4, 3)), linewidth=1.2)
    axes.annotate(
        "without the release",
        (before, 1.0),
        xytext=(5, -4),
        textcoords="offset points",
        color=FAINT,
        fontsize=9,
        va="top",
    )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.03)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel("certainty about the likeliest value", color=INK)
    axes.set_ylabel("people at or above it", color=INK)
    return figure
