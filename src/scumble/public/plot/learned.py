"""What an attacker learns about everybody: the certainty of the best guess, person by person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scumble.public.plot.curves import COLOURS, FAINT, INK, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learned(certainty: Sequence[float], people: Sequence[int], before: float) -> Figure:
    """The share of people whose likeliest value has at least so large a posterior; `before` is the
    best guess of who has seen no release.
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
