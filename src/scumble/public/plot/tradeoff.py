"""What privacy costs: the error of an answer against ε, and against what an attacker may learn."""

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
from scumble.public.plot.curves import COLOURS, INK, MARKERS, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """Errors of one kind of release at every ε: as stated beforehand, and as they turned out."""

    name: str
    stated: Sequence[float]
    found: Sequence[float]


def tradeoff(
    epsilons: Sequence[float], curves: Sequence[Curve], *, prior: float, axis: str
) -> Figure:
    """A line for the stated error, a marker for the error found, and what each ε means on top."""
    from matplotlib.ticker import LogLocator

    figure, axes = blank(8.2, 4.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for number, curve in enumerate(curves):
        _draw(axes, epsilons, curve, number)
    axes.set_xlabel("ε, the privacy loss of one person (smaller is more private)", color=INK)
    axes.set_ylabel(axis, color=INK)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 3)))
    axes.minorticks_off()
    # Room on the right for the names that stand at the ends of the lines.
    axes.set_xlim(epsilons[0] * 0.85, epsilons[-1] * 1.75)
    _say_on_top(axes, epsilons, prior)
    return figure


def _draw(axes: Axes, epsilons: Sequence[float], curve: Curve, number: int) -> None:
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


def _say_on_top(axes: Axes, epsilons: Sequence[float], prior: float) -> None:
    """A second scale: where an attacker who gave `prior` to a value can end."""
    top = axes.secondary_xaxis("top")
    top.spines["top"].set_visible(False)
    top.tick_params(colors=INK, length=0, labelsize=10)
    gammas = [gamma_above_epsilon(Fraction(str(epsilon))) for epsilon in epsilons]
    ends = [posterior_at_most(Fraction(str(prior)), gamma) for gamma in gammas]
    top.set_xticks(epsilons, [percent_at_most(end) for end in ends])
    top.minorticks_off()
    top.set_xlabel(
        f"an attacker who gave {percent_at_least(prior)} to a value can end at most at", color=INK
    )
