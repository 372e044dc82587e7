"""Clouds: estimates against true answers, a dot for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scumble.public.plot.curves_part import Line, Panel

_ROOM = 0.2  # for one short name on the right
_MARGIN = 0.03


def clouds(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[Panel]:
    """A panel for each method, all with the same axes, or the eye compares nothing."""
    most = float(max(row["truth"] for row in rows))
    ends = [float(row["estimate"]) for row in rows] + [0.0, most]
    low, high = min(ends), max(ends)
    frame = low - _MARGIN * (high - low), high + _MARGIN * (high - low)
    found = []
    for look, method in enumerate(methods):
        part = [row for row in rows if row["method"] == method]
        truth, estimates = ([row[key] for row in part] for key in ("truth", "estimate"))
        lines = [
            Line("", truth, estimates, look, dots=True),
            Line("perfect", [0.0, most], [0.0, most], bound=True),
        ]
        panel = Panel(
            method, "true answer", "estimate", lines, from_zero=False, frame=frame, room=_ROOM
        )
        found.append(panel)
    return found
