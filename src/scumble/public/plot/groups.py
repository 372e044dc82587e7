"""The figure of an answer by groups: a point and an interval for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scumble.model.errors import ScumbleError
from scumble.public.plot.figures import COLOURS, FAINT, INK, MISSING, available, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_groups(
    names: Sequence[str],
    values: Sequence[float],
    limits: Sequence[tuple[float, float]],
    reasons: Sequence[str],
    axis: str,
) -> Figure:
    """Draw each group in a row, the first on top: a dot for its value, a line for its interval.

    `reasons` say why a group has no value; such a group has neither dot nor line. `axis` is the
    label of the x axis.
    """
    if not available():
        raise ScumbleError(MISSING)
    figure, axes = blank(8.2, 1.3 + 0.32 * max(len(names), 1))
    rows = range(len(names) - 1, -1, -1)
    axes.set_yticks(list(rows), list(names))
    axes.grid(visible=False, axis="y")
    for row, value, (low, high), reason in zip(rows, values, limits, reasons, strict=True):
        if reason:
            place = axes.get_yaxis_transform()
            axes.text(0.01, row, reason, transform=place, va="center", color=FAINT, fontsize=9)
        elif math.isfinite(low) and math.isfinite(high):
            axes.hlines(row, low, high, color=COLOURS[0], linewidth=2.0)
            axes.scatter([value], [row], s=26, color=COLOURS[0], zorder=3)
        else:
            axes.scatter([value], [row], s=26, color=FAINT, zorder=3)
    axes.set_xlabel(axis, color=INK)
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set_ylim(-0.7, len(names) - 0.3)
    return figure
