"""Figure style, panels and lines.

What all figures share: a series of answers, the look of the axes, and the way to a file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure

# Two colours of Okabe and Ito's palette that stay apart under every kind of colour blindness and in
# grey; the marker differs as well, so that colour never carries the meaning alone.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
MISSING = "matplotlib is not installed (pip install 'scumble[plot]')."
INK, FAINT = "#222222", "#8a8a8a"


@dataclass(frozen=True)
class Series:
    """The answers of one release to a row of questions, with the limits of their intervals."""

    name: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def available() -> bool:
    """Whether the plotting library is installed (`pip install 'scumble[plot]'`)."""
    return find_spec("matplotlib") is not None


def svg(figure: Figure) -> str:
    """The figure as an SVG element to put inside a page: text as outlines, the same everywhere."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "scumble"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # The description of the file is for a file; inside a page it only names other sites.
    element = re.sub(r"<metadata>.*?</metadata>", "", text.getvalue(), flags=re.DOTALL)
    return element[element.index("<svg") :]


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150)
    return data.getvalue()


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one quiet pair of axes, made without any global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    quiet(axes)
    return figure, axes


def quiet(axes: Axes) -> None:
    """Only a bottom line and a pale grid, so that what is drawn stands out."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, length=0, labelsize=10)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


# Curves side by side: panels of named lines, each name at the end of its line.

# Okabe and Ito's palette without its yellow, which is too pale for a line.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_APART = 0.055  # of the height of a panel: names do not come nearer to each other


@dataclass(frozen=True)
class Line:
    """One named line; a bound is thin and grey, without marks, and `look` fixes colour and mark.
    Dots are a cloud of points without a line; `spread` is a pale band so far above and below.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: int = 0
    bound: bool = False
    marks: bool = True
    dashed: bool = False
    dots: bool = False
    spread: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True  # upwards, unless the axis is logarithmic
    frame: tuple[float, float] | None = None  # the ends of the upward axis, where they are fixed
    room: float = 0.45  # for names on the right, of the width of the lines


def curves(panels: Sequence[Panel]) -> Figure:
    """A figure of panels, at most two in a row."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    # The resolution is that of clouds, which are pictures: thousands of outlines fill a file.
    figure = Figure(figsize=(6.2 * columns, 4.1 * rows), layout="constrained", dpi=200)
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        quiet(axes)
        _draw(axes, panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for line in panel.lines:
        colour = FAINT if line.bound else _PALETTE[line.look % len(_PALETTE)]
        if line.dots:
            cloud = axes.scatter(line.x, line.y, s=5, color=colour, alpha=0.5, linewidths=0)
            cloud.set_rasterized(True)
            continue
        if line.spread is not None:
            _band(axes, line, colour, log=panel.log_y)
        axes.plot(
            line.x,
            line.y,
            color=colour,
            linewidth=1.2 if line.bound else 1.8,
            linestyle=":" if line.bound else "--" if line.dashed else "-",
            marker=MARKERS[line.look % len(MARKERS)] if line.marks and not line.bound else None,
            markersize=5,
        )
    axes.set_title(panel.title, color=INK, fontsize=11, loc="left")
    axes.set_xlabel(panel.across, color=INK)
    axes.set_ylabel(panel.up, color=INK)
    _scale(axes, panel)
    _name(axes, panel)


def _band(axes: Axes, line: Line, colour: str, *, log: bool) -> None:
    """A logarithmic axis has no zero: there the band ends a little below the line."""
    pairs = list(zip(line.y, line.spread or (), strict=True))
    low = [max(y - far, y / 3) if log else y - far for y, far in pairs]
    axes.fill_between(line.x, low, [y + far for y, far in pairs], color=colour, alpha=0.14, lw=0)


def _scale(axes: Axes, panel: Panel) -> None:
    """Ticks where the values are, a zero at the bottom, and room for the names on the right."""
    from matplotlib.ticker import LogLocator

    values = sorted({x for line in panel.lines for x in line.x})
    if len(values) <= 6:
        words = [f"{x:.0%}" if panel.across.endswith("volume s") else f"{x:,g}" for x in values]
        powers = [word for x in values if (word := _power(x))]
        whole = len(powers) == len(values) and values[-1] >= 100
        axes.set_xticks(values, powers if whole else words)
        axes.minorticks_off()
    elif panel.log_x:
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.minorticks_off()
    else:
        axes.locator_params(axis="x", nbins=5)
        axes.set_xticks([x for x in axes.get_xticks() if 0 <= x <= values[-1]])
        axes.xaxis.set_major_formatter("{x:,.10g}")
    if panel.frame is not None:
        axes.set_ylim(*panel.frame)
    low, high = values[0], values[-1]
    if panel.log_x:
        axes.set_xlim(low / (high / low) ** 0.04, high * (high / low) ** panel.room)
    else:
        axes.set_xlim(low - 0.04 * (high - low), high + panel.room * (high - low))
    if panel.log_y:
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.10g}")
        return
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if max(y for line in panel.lines for y in line.y) >= 1000:
        axes.yaxis.set_major_formatter("{x:,.0f}")


def _power(x: float) -> str | None:
    """A power of ten as one."""
    digits = len(f"{x:.0f}") - 1
    return f"$10^{digits}$" if x == 10**digits else None


def _name(axes: Axes, panel: Panel) -> None:
    """Put every name at the end of its line, moved up or down where names would meet."""
    transform = axes.transData + axes.transAxes.inverted()
    named = [line for line in panel.lines if line.name]
    ends = [float(transform.transform((line.x[-1], line.y[-1]))[1]) for line in named]
    for place, line in zip(_apart(ends), named, strict=True):
        axes.annotate(
            line.name,
            (line.x[-1], place),
            xycoords=("data", "axes fraction"),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=FAINT if line.bound else _PALETTE[line.look % len(_PALETTE)],
            fontsize=9,
            fontweight="normal" if line.bound else "bold",
        )


def _apart(ends: Sequence[float]) -> list[float]:
    """The places nearest to the ends, by squares, that are far enough from each other: names that
    would meet become a block around the mean of their ends.
    """
    order = sorted(range(len(ends)), key=ends.__getitem__)
    blocks: list[list[float]] = []  # of ends, each less the room for the names below it
    for rank, place in enumerate(order):
        blocks.append([ends[place] - rank * _APART])
        while len(blocks) > 1 and fmean(blocks[-2]) >= fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = [fmean(block) for block in blocks for _ in block]
    highest = 0.99 - (len(ends) - 1) * _APART
    found = [0.0] * len(ends)
    for rank, place in enumerate(order):
        found[place] = max(min(level[rank], highest), _APART / 2) + rank * _APART
    return found
