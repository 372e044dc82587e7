"""What all figures share: the style of axes, export to SVG and PNG, and panels of lines."""

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

# Okabe and Ito's palette. The first two colours are distinct under every type of colour blindness
# and in grey. The markers differ as well, so that colour never carries the meaning alone.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
MISSING = "matplotlib is not installed (pip install 'scumble[plot]')."
INK, FAINT = "#222222", "#8a8a8a"


@dataclass(frozen=True)
class Series:
    """The answers of one release to several questions, with the limits of their intervals."""

    name: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def available() -> bool:
    """Return whether matplotlib is installed (`pip install 'scumble[plot]'`)."""
    return find_spec("matplotlib") is not None


def svg(figure: Figure) -> str:
    """Return the figure as an SVG element for an HTML page, with text as outlines."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "scumble"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # Inside a page, the metadata of the file are useless and name other sites.
    element = re.sub(r"<metadata>.*?</metadata>", "", text.getvalue(), flags=re.DOTALL)
    return element[element.index("<svg") :]


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150)
    return data.getvalue()


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure with one styled pair of axes, made without pyplot's global state."""
    figure, [axes] = blank_panels(1, 1, width, height)
    return figure, axes


def blank_panels(
    number: int, across: int, width: float, height: float
) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many styled pairs of axes, in rows of at most `across`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    down = -(-number // across)
    panels = [figure.add_subplot(down, across, place) for place in range(1, number + 1)]
    for axes in panels:
        style_axes(axes)
    return figure, panels


def style_axes(axes: Axes) -> None:
    """Style axes: only a bottom line and a pale grid."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, length=0, labelsize=10)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


# Panels of named lines, each name at the end of its line.

# Okabe and Ito's palette without its yellow, which is too pale for a line.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_APART = 0.055  # the least distance of two names, as a share of the height of a panel


@dataclass(frozen=True)
class Line:
    """One named line.

    `style` is a number that selects the colour and the marker. A `bound` is thin and grey, without
    markers. `dots` draws a cloud of points without a line. `spread` is the half-width of a pale
    band around the line.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: int = 0
    bound: bool = False
    marks: bool = True
    dashed: bool = False
    dots: bool = False
    spread: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True  # the y axis, unless it is logarithmic
    frame: tuple[float, float] | None = None  # fixed limits of the y axis
    label_space: float = 0.45  # on the right for names, as a share of the width of the lines


def curves(panels: Sequence[Panel]) -> Figure:
    """Return a figure of panels, at most two in a row."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    # The resolution is for clouds of points, which are rasterised to keep files small.
    figure = Figure(figsize=(6.2 * columns, 4.1 * rows), layout="constrained", dpi=200)
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, number)
        style_axes(axes)
        _draw(axes, panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for line in panel.lines:
        colour = FAINT if line.bound else _PALETTE[line.style % len(_PALETTE)]
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
            marker=MARKERS[line.style % len(MARKERS)] if line.marks and not line.bound else None,
            markersize=5,
        )
    axes.set_title(panel.title, color=INK, fontsize=11, loc="left")
    axes.set_xlabel(panel.x_label, color=INK)
    axes.set_ylabel(panel.y_label, color=INK)
    _scale(axes, panel)
    _label_lines(axes, panel)


def _band(axes: Axes, line: Line, colour: str, *, log: bool) -> None:
    """Draw the band around a line; on a logarithmic axis, it ends at a third of the line."""
    pairs = list(zip(line.y, line.spread or (), strict=True))
    low = [max(y - far, y / 3) if log else y - far for y, far in pairs]
    axes.fill_between(line.x, low, [y + far for y, far in pairs], color=colour, alpha=0.14, lw=0)


def _scale(axes: Axes, panel: Panel) -> None:
    """Set ticks at the values, the y axis from zero, and space for names on the right."""
    from matplotlib.ticker import LogLocator

    values = sorted({x for line in panel.lines for x in line.x})
    if len(values) <= 6:
        words = [f"{x:.0%}" if panel.x_label.endswith("volume s") else f"{x:,g}" for x in values]
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
        axes.set_xlim(low / (high / low) ** 0.04, high * (high / low) ** panel.label_space)
    else:
        axes.set_xlim(low - 0.04 * (high - low), high + panel.label_space * (high - low))
    if panel.log_y:
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.10g}")
        return
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if max(y for line in panel.lines for y in line.y) >= 1000:
        axes.yaxis.set_major_formatter("{x:,.0f}")


def _power(x: float) -> str | None:
    """Format a power of ten; None if the number is not one."""
    digits = len(f"{x:.0f}") - 1
    return f"$10^{digits}$" if x == 10**digits else None


def _label_lines(axes: Axes, panel: Panel) -> None:
    """Write every name at the end of its line, moved up or down where names would overlap."""
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
            color=FAINT if line.bound else _PALETTE[line.style % len(_PALETTE)],
            fontsize=9,
            fontweight="normal" if line.bound else "bold",
        )


def _apart(ends: Sequence[float]) -> list[float]:
    """Return the positions nearest to the `ends`, in squares, that are at least _APART apart.

    Names that would overlap become a block around the mean of their ends.
    """
    order = sorted(range(len(ends)), key=ends.__getitem__)
    blocks: list[list[float]] = []  # of ends, each minus the space of the names below it
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
