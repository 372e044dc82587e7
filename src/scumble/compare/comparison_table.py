"""The points of a comparison for programs: as CSV, and as fields."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scumble.compare.measures import Spread
from scumble.compare.points import Point, sentence


def as_csv(found: Sequence[Point]) -> str:
    """One line for each setting."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for point in found for name in point.numbers))
    bands = list(dict.fromkeys(band.words for point in found for band in point.bands))
    head = [
        "method",
        "setting",
        "DP",
        "whole rows",
        "success",
        "basis",
        "posterior",
        "delta",
        "runs",
    ]
    head += ["error", "error stderr"]
    head += [words for name in names for words in (name, f"{name} deviation")]
    head += ["intervals", "biased", *(f"error at {words}" for words in bands), "beaten by"]
    writer.writerow(head)
    for point in found:
        place = [point.success, point.basis, point.posterior, point.delta, point.error.runs]
        spreads = [point.numbers.get(name) for name in names]
        by_band = {band.words: band.error.mean for band in point.bands}
        writer.writerow(
            [point.method, point.words, point.private, point.whole, *place]
            + [point.error.mean, _number(point.error.stderr)]
            + [x for s in spreads for x in ((s.mean, _number(s.deviation)) if s else (None, None))]
            + [point.intervals, point.biased, *(by_band.get(words) for words in bands)]
            + [point.beaten_by]
        )
    return text.getvalue()


def as_fields(point: Point, values: int) -> dict[str, Any]:
    """A point for a program to read."""
    return {
        "method": point.method,
        "setting": point.words,
        "private": point.private,
        "whole rows": point.whole,
        "success": point.success,
        "basis": point.basis,
        "posterior": point.posterior,
        "delta": point.delta,
        "error": point.error.mean,
        "error stderr": _number(point.error.stderr),
        "runs": point.error.runs,
        "measures": {name: _fields(each) for name, each in point.numbers.items()},
        "intervals": point.intervals,
        "biased": point.biased,
        "bands": [
            {"from": b.low, "below": b.high, "counts": b.counts, **_fields(b.error)}
            for b in point.bands
        ],
        "beaten by": point.beaten_by,
        "sentence": sentence(point, values),
        "command": point.command,
    }


def _fields(given: Spread) -> dict[str, float | None]:
    numbers = asdict(given)
    del numbers["runs"]
    return {name: _number(value) for name, value in numbers.items()}


def _number(value: float) -> float | None:
    """What is not known has no number."""
    return value if math.isfinite(value) else None
