"""How long a database answers as it is asked: counts answered against counts submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scumble.public.plot.curves import COLOURS, FAINT, INK, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_FAR = 3.0  # a bound that is so many times higher than all curves would only flatten them


@dataclass(frozen=True)
class Answered:
    """How many counts were answered, after each number of them that was submitted."""

    name: str
    submitted: Sequence[int]
    answered: Sequence[int]


@dataclass(frozen=True)
class Bound:
    """What no database with this promise and this noise can exceed."""

    name: str
    value: float


def fixed_volume(loss: float, volume: float) -> Bound:
    """Lemma 3 for boxes that all hold one share of the points; `loss` is ελ."""
    value = loss / (2 * volume * (1 - volume))
    return Bound(f"ελ/(2s(1−s)) for s = {100 * volume:.3g} %", value)


def least_volume(loss: float, volume: float) -> Bound:
    """Lemma 3 for boxes that hold at least, and leave out at least, one share of the points."""
    return Bound(f"ελ/s′ for s′ = {100 * volume:.3g} %", loss / volume)


def capacity(curves: Sequence[Answered], bounds: Sequence[Bound] = ()) -> Figure:
    """A line per curve, and a level for each bound; one that is far above is only told."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = blank(8.2, 4.6)
    most = max((max(curve.answered, default=0) for curve in curves), default=0)
    for number, curve in enumerate(curves):
        _draw(axes, curve, number)
    near = [bound for bound in bounds if bound.value <= _FAR * most]
    for bound in near:
        _level(axes, bound)
    top = max([most, *(bound.value for bound in near), 1])
    axes.set_ylim(0, 1.12 * top)
    axes.set_xlim(0, max([1, *(max(curve.submitted, default=0) for curve in curves)]))
    far = [bound for bound in bounds if bound not in near]
    if far:
        said = "; ".join(f"{bound.name}: {bound.value:,.0f}" for bound in far)
        axes.set_title(f"bound, far above: {said}", color=FAINT, fontsize=9, loc="left")
    axes.set_xlabel("counts submitted", color=INK)
    axes.set_ylabel("counts answered", color=INK)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
        side.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False, loc="lower right", labelcolor=INK, fontsize=10)
    return figure


def _draw(axes: Axes, curve: Answered, number: int) -> None:
    place = number % len(COLOURS)
    axes.plot(
        curve.submitted,
        curve.answered,
        color=COLOURS[place],
        linestyle=_DASHES[place],
        linewidth=2.4,
        label=curve.name,
    )


def _level(axes: Axes, bound: Bound) -> None:
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
