"""Figures of a database: a heat map of popularity, and counts answered against counts submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scumble.public.plot.figures import COLOURS, FAINT, INK, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Darker means more answers: lightness alone gives the order, in grey and for the colour-blind. What
# is used up is nearly black, clearly darker than the darkest blue.
_DARKEST = 0.8
_GAP = 0.06  # inches between two names
_MOST = 1000  # squares along an axis; a screen shows no more


@dataclass(frozen=True)
class Axis:
    """An attribute along one axis of the map: its ticks, by code, and their labels."""

    name: str
    ticks: Sequence[int]
    labels: Sequence[str]


def popularity(counts: NDArray[np.int64], across: Axis, up: Axis, limit: int) -> Figure:
    """Draw how many answers cover each pair of values of two attributes.

    `counts` has a row for each value of `across`; a pair is used up at `limit` answers.
    """
    figure, axes = blank(8.2, 5.2)
    width, height = counts.shape
    image = axes.imshow(
        _coarse(_coarse(counts).T),
        cmap=_colours(),
        vmin=0,
        vmax=limit - 0.5,  # the limit itself is shown as "over"
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, -0.5, height - 0.5),
    )
    axes.grid(visible=False)
    axes.set_xticks(across.ticks, across.labels)
    axes.set_yticks(up.ticks, up.labels)
    axes.set_xlabel(across.name, color=INK)
    axes.set_ylabel(up.name, color=INK)
    bar = figure.colorbar(image, ax=axes, pad=0.02, extend="max", extendfrac=0.06)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, length=0, labelsize=10)
    bar.set_ticks(range(0, limit, _step(limit)))
    bar.ax.set_title(f"{limit:,}: used up", color=INK, fontsize=10)
    bar.set_label("most answers that cover a point", color=INK)
    if _crowded(figure, axes):
        axes.tick_params(axis="x", rotation=90)
    return figure


def _step(limit: int) -> int:
    """Return the distance of ticks, a round number such that there are at most six."""
    step = 1
    while 6 * step < limit:
        step *= 2 if str(step)[0] in "15" else 5
    return step


def _crowded(figure: Figure, axes: Axes) -> bool:
    """Return whether labels of the x axis would overlap."""
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    gap = figure.dpi * _GAP
    return any(one.x1 + gap > other.x0 for one, other in pairwise(boxes))


def _colours() -> Colormap:
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    blues = colormaps["Blues"](np.linspace(0.02, _DARKEST, 256))
    return LinearSegmentedColormap.from_list("popularity", blues).with_extremes(over=INK)


def _coarse(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduce many rows by maxima, so that cells that are used up do not vanish between pixels."""
    if len(counts) <= _MOST:
        return counts
    starts = np.linspace(0, len(counts), _MOST, endpoint=False).astype(np.int64)
    return np.maximum.reduceat(counts, starts, axis=0)


# Capacity: counts answered against counts submitted.

_DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_FAR = 3.0  # a bound that exceeds all curves by this factor is not drawn: it would flatten them


@dataclass(frozen=True)
class Answered:
    """The number of counts answered, by the number submitted."""

    name: str
    submitted: Sequence[int]
    answered: Sequence[int]


@dataclass(frozen=True)
class Bound:
    """A number of counts that no database with this promise and this noise can exceed."""

    name: str
    value: float


def fixed_volume(loss: float, volume: float) -> Bound:
    """Return the bound of Lemma 3 for boxes that hold a share `volume` of points; `loss` is ελ."""
    value = loss / (2 * volume * (1 - volume))
    return Bound(f"ελ/(2s(1−s)) for s = {100 * volume:.3g} %", value)


def least_volume(loss: float, volume: float) -> Bound:
    """Return the bound of Lemma 3 for boxes that hold, and leave out, at least `volume`."""
    return Bound(f"ελ/s′ for s′ = {100 * volume:.3g} %", loss / volume)


def capacity(curves: Sequence[Answered], bounds: Sequence[Bound] = ()) -> Figure:
    """Draw a line per curve and a level for each bound; bounds far above are given as text."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = blank(8.2, 4.6)
    most = max((max(curve.answered, default=0) for curve in curves), default=0)
    for number, curve in enumerate(curves):
        _draw_curve(axes, curve, number)
    near = [bound for bound in bounds if bound.value <= _FAR * most]
    for bound in near:
        _draw_bound(axes, bound)
    top = max([most, *(bound.value for bound in near), 1])
    axes.set_ylim(0, 1.12 * top)
    axes.set_xlim(0, max([1, *(max(curve.submitted, default=0) for curve in curves)]))
    far = [bound for bound in bounds if bound not in near]
    if far:
        listed = "; ".join(f"{bound.name}: {bound.value:,.0f}" for bound in far)
        axes.set_title(f"bound, far above: {listed}", color=FAINT, fontsize=9, loc="left")
    axes.set_xlabel("counts submitted", color=INK)
    axes.set_ylabel("counts answered", color=INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False, loc="lower right", labelcolor=INK, fontsize=10)
    return figure


def _draw_curve(axes: Axes, curve: Answered, number: int) -> None:
    place = number % len(COLOURS)
    axes.plot(
        curve.submitted,
        curve.answered,
        color=COLOURS[place],
        linestyle=_DASHES[place],
        linewidth=2.4,
        label=curve.name,
    )


def _draw_bound(axes: Axes, bound: Bound) -> None:
    axes.axhline(bound.value, color=FAINT, linewidth=1, linestyle=":")
    axes.annotate(
        f"{bound.name}: {bound.value:,.0f}",
        (0, bound.value),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        color=FAINT,
        fontsize=9,
    )
