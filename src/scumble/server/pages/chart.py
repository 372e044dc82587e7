"""The chart of a comparison in SVG: what an attacker can learn against the error of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 16, 52
Place = tuple[float, float]
COLOURS = 8  # classes of marks: mark-0, mark-1, ...


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis: numbers from `low` to `high` are drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, numbers: Sequence[float], start: float, end: float) -> LogAxis:
        """Return an axis for positive numbers, with some space around them."""
        low, high = min(numbers), max(numbers)
        room = max((high / low) ** 0.08, 1.15)
        return cls(low / room, high * room, start, end)

    def place(self, number: float) -> float:
        """Return where a number is drawn; what is outside is at the edge."""
        share = math.log(max(number, 1e-300) / self.low) / math.log(self.high / self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round numbers on the axis: 1, 2 and 5 times powers of 10; few of them."""
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        powers = range(first, last + 1)
        steps = (1, 2, 5) if last - first <= 3 else (1,)
        found = [step * 10.0**power for power in powers for step in steps]
        return [each for each in found if self.low <= each <= self.high]


def comparison_chart(
    points: Sequence[Mapping[str, Any]], blind: float, measure: str, methods: Sequence[str]
) -> Markup:
    """Return the chart of a comparison; each mark has the number of its row in the table.

    Filled marks are differentially private, grey ones are beaten by another setting. An error of 0
    is at the lower edge.
    """
    finite = [each for each in points if each["error"] is not None]
    if not finite:
        return Markup("")
    errors = [each["error"] for each in finite if each["error"] > 0] or [0.01]
    across = LogAxis.of([blind, *(each["success"] for each in finite)], _LEFT, _WIDTH - _RIGHT)
    up = LogAxis.of(errors, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_frame(across, up, blind, measure)]
    places = {
        number: (across.place(each["success"]), up.place(each["error"] or up.low))
        for number, each in enumerate(points, 1)
        if each["error"] is not None
    }
    taken = list(places.values())
    for number, at in places.items():
        each = points[number - 1]
        label = _free(at, taken)
        taken.append(label)
        parts.append(_mark(number, each, at, label, methods.index(each["method"]) % COLOURS))
    words = f"{measure} against the chance of an attacker, of {len(points)} settings"
    # Every part is made of numbers, escaped texts and our own words.
    return Markup(  # noqa: S704
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(words)}">{"".join(parts)}</svg>'
    )


def _free(at: Place, taken: Sequence[Place]) -> Place:
    """Return where the number of a mark is written: beside it, away from what is there."""
    x, y = at
    others = [each for each in taken if each != at]

    def distance(place: Place) -> float:
        return min((math.dist(place, other) for other in others), default=math.inf)

    around = [(x + 13, y - 8), (x + 13, y + 12), (x - 13, y - 8), (x - 13, y + 12), (x, y - 14)]
    return next((each for each in around if distance(each) > 14), max(around, key=distance))


def _mark(number: int, point: Mapping[str, Any], at: Place, label: Place, colour: int) -> str:
    x, y = at
    kinds = [f"mark-{colour}", "filled" if point["private"] else "hollow"]
    kinds += ["beaten"] if point["beaten by"] else []
    title = escape(f"{number}: {point['method']}, {point['words']}")
    arrow = f'<path class="axis" d="M {x - 7:.1f} {y:.1f} h -12 l 4 -3 m -4 3 l 4 3"/>'
    return (
        f'<g class="mark {" ".join(kinds)}"><title>{title}</title>'
        f"{arrow if point['limit'] else ''}"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5"/>'
        f'<text class="number" x="{label[0]:.1f}" y="{label[1] + 4:.1f}">{number}</text></g>'
    )


def _frame(across: LogAxis, up: LogAxis, blind: float, measure: str) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in across.ticks():
        x = across.place(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}">{percent(tick)}</text>')
    for tick in up.ticks():
        y = up.place(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        label = f'x="{_LEFT - 8}" y="{y + 4:.1f}"'
        parts.append(f'<text class="tick side" {label}>{percent(tick)}</text>')
    x = across.place(blind)
    parts.append(f'<line class="blind" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
    label = f'x="{x + 6:.1f}" y="{bottom - 6}"'
    parts.append(f'<text class="tick blind-words" {label}>a blind guess</text>')
    middle, high = (_LEFT + right) / 2, (_TOP + bottom) / 2
    parts.append(
        f'<text class="title" x="{middle:.0f}" y="{_HEIGHT - 10}">'
        "an attacker's best chance to guess a person's value</text>"
    )
    parts.append(
        f'<text class="title" transform="translate(14 {high:.0f}) rotate(-90)">{escape(measure)}'
        "</text>"
    )
    return parts


def percent(share: float | None) -> str:
    """Return a share as percents with three digits; empty for None."""
    if share is None:
        return ""
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.3g} %"
