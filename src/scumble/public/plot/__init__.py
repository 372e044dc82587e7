"""Figures of answers and their errors; the only package that imports matplotlib."""

from scumble.public.plot.answers import Curve, intervals, tradeoff
from scumble.public.plot.figures import MISSING, Line, Panel, Series, available, curves, png, svg

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
