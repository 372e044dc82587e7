"""Publishers side by side: what an attacker can guess against the error of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from scumble.public.plot.curves import FAINT, INK, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Full marks: a promise that holds against every attacker who knows all the rest.
_LOOKS = {
    "Uniform": ("#0072B2", "o", True),
    "Subset": ("#009E73", "s", True),
    "Aroma": ("#CC79A7", "D", False),
    "Partition": ("#E69F00", "^", False),
    "Anatomy": ("#D55E00", "v", False),
    "AlphaBeta": ("#56B4E9", "P", False),
    "Frapp": ("#666666", "X", False),
}


class Placed(Protocol):
    """A setting of a publisher with its two coordinates."""

    @property
    def method(self) -> str: ...
    @property
    def setting(self) -> str: ...
    @property
    def success(self) -> float: ...
    @property
    def error(self) -> float: ...


def choosing(points: Sequence[Placed], blind: float) -> Figure:
    """A curve per publisher; hollow marks are promises that some knowledge breaks."""
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
    colour, marker, full = _LOOKS[method]
    chances, errors = [p.success for p in points], [p.error for p in points]
    axes.plot(chances, errors, color=colour, linewidth=1.6, alpha=0.8)
    dots = axes.scatter(chances, errors, s=58, marker=marker, zorder=3)
    dots.set(facecolors=colour if full else "white", edgecolors=colour, linewidths=1.6)
    # Names stand above and to the right, but for what runs close to others or to the edge.
    offset, side = {"Aroma": ((-12, -16), "left"), "Anatomy": ((-9, -4), "right")}.get(
        method, ((7, 5), "left")
    )
    for place, point in enumerate(points):
        last = place == len(points) - 1
        axes.annotate(
            f"{method}, {point.setting}" if last else point.setting,
            (point.success, point.error),
            xytext=offset,
            ha=side,
            textcoords="offset points",
            color=colour,
            fontsize=10 if last else 8,
            fontweight="bold" if last else "normal",
        )
