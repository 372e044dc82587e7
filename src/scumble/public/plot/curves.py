"""What all figures share: a series of answers, the look of the axes, and the way to a file."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
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
