"""Figures of answers and their errors; the only room that imports the plotting library."""

from scumble.plot.curves import Line, Panel, curves
from scumble.plot.figure import MISSING, Series, available, png, svg
from scumble.plot.intervals import intervals
from scumble.plot.tradeoff import Curve, tradeoff

__all__ = [
    "MISSING",
    "Curve",
    "Line",
    "Panel",
    "Series",
    "available",
    "curves",
    "intervals",
    "png",
    "svg",
    "tradeoff",
]
