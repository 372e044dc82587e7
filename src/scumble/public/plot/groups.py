"""The figures of an answer by groups: a point and an interval for each, one panel a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scumble.model.errors import ScumbleError
from scumble.public.plot.figures import COLOURS, FAINT, INK, MISSING, available, blank_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3  # panels side by side


@dataclass(frozen=True)
class GroupValues:
    """One number of each group: its values, intervals, and why a group has no value.

    A group with a reason has neither dot nor line. `axis` is the label of the x axis.
    """

    values: Sequence[float]
    limits: Sequence[tuple[float, float]]
    reasons: Sequence[str]
    axis: str


def draw_groups(names: Sequence[str], numbers: Sequence[GroupValues]) -> Figure:
    """Draw each group in a row, the first on top: a dot for its value, a line for its interval.

    Each of several numbers has a panel with an axis of its own, as their units may differ.
    """
    if not available():
        raise ScumbleError(MISSING)
    across = min(len(numbers), _ACROSS)
    down = -(-len(numbers) // across)
    height = 1.3 + 0.32 * max(len(names), 1)
    figure, panels = blank_panels(len(numbers), across, 5 + 3.2 * across, height * down)
    for place, (axes, each) in enumerate(zip(panels, numbers, strict=True)):
        _draw_panel(axes, [""] * len(names) if place % across else names, each)
    return figure


def _draw_panel(axes: Axes, names: Sequence[str], drawn: GroupValues) -> None:
    rows = range(len(names) - 1, -1, -1)
    axes.set_yticks(list(rows), list(names))
    axes.grid(visible=False, axis="y")
    columns = zip(rows, drawn.values, drawn.limits, drawn.reasons, strict=True)
    for row, value, (low, high), reason in columns:
        if reason:
            place = axes.get_yaxis_transform()
            axes.text(0.01, row, reason, transform=place, va="center", color=FAINT, fontsize=9)
        elif math.isfinite(low) and math.isfinite(high):
            axes.hlines(row, low, high, color=COLOURS[0], linewidth=2.0)
            axes.scatter([value], [row], s=26, color=COLOURS[0], zorder=3)
        else:
            axes.scatter([value], [row], s=26, color=FAINT, zorder=3)
    axes.set_xlabel(drawn.axis, color=INK)
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set_ylim(-0.7, len(names) - 0.3)
