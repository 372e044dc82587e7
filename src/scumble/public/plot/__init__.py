"""Figures of answers and their errors; the only room that imports the plotting library."""

from scumble.public.plot.answers import intervals
from scumble.public.plot.curves import MISSING, Series, available, png, svg
from scumble.public.plot.curves_part import Line, Panel, curves
from scumble.public.plot.tradeoff import Curve, tradeoff

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
