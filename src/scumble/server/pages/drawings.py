"""Small drawings in SVG: an interval to scale, and bars of what is used.

They have classes instead of colours, so that the style sheet of the page decides about light and
dark, and no inline style, which the pages forbid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from scumble.public.estimate import Estimate, format_number

_WIDTH, _ROW, _PAD = 600, 220, 12


@dataclass(frozen=True)
class Scale:
    """A scale from numbers to places on the drawing."""

    low: float
    high: float
    width: float = _WIDTH

    @classmethod
    def of(cls, numbers: Sequence[float], *, zero: bool = False) -> Scale | None:
        """Return a scale that shows all finite numbers; None if there are none."""
        finite = [number for number in numbers if math.isfinite(number)]
        if not finite:
            return None
        low, high = min(finite), max(finite)
        low = min(low, 0.0) if zero else low
        room = (high - low) * 0.08 or max(abs(high), 1.0) * 0.05
        return cls(low if zero and low == 0 else low - room, high + room)

    def place(self, number: float) -> float:
        """Return where a number is drawn; what is outside is at the edge."""
        share = (number - self.low) / (self.high - self.low)
        return _PAD + min(max(share, 0.0), 1.0) * (self.width - 2 * _PAD)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers within the scale: 1, 2 or 5 times a power of 10 apart."""
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [round(step * place, 12) for place in range(first, last + 1)]


def interval_drawing(estimate: Estimate, level: float) -> Markup:
    """Return an estimate with its interval above an axis; with bounds, the noise alone inside."""
    low, high = estimate.interval(level)
    scale = Scale.of([estimate.value, low, high])
    if scale is None or low == high:
        return Markup("")
    words = _words(estimate, level)
    parts = [_bar(scale, low, high, 30, 14, "interval")]
    if estimate.noise_label(level):
        parts.append(_bar(scale, *estimate.noise_interval(level), 33, 8, "noise"))
    parts += [_dot(scale, estimate.value, 37), _axis(scale, 58, estimate.stderr)]
    return _svg(80, words, parts)


def row_drawing(estimate: Estimate, level: float, scale: Scale | None) -> Markup:
    """Return the bar of one row of a table, on the scale of the whole table."""
    low, high = estimate.interval(level)
    if scale is None or not math.isfinite(estimate.value):
        return Markup("")
    scale = replace(scale, width=_ROW)
    parts = [_bar(scale, low, high, 5, 10, "interval"), _dot(scale, estimate.value, 10)]
    return _svg(20, _words(estimate, level), parts, "row")


def used_drawing(used: int, limit: int) -> Markup:
    """Return a bar of how much of the promise is used at the most popular point."""
    share = min(used / limit, 1.0) if limit else 1.0
    words = f"{used} of {limit} answers used where most was asked"
    whole = f'<rect class="whole" x="0" y="2" width="{_WIDTH}" height="12" rx="6"/>'
    part = f'<rect class="used" x="0" y="2" width="{share * _WIDTH:.1f}" height="12" rx="6"/>'
    return _svg(16, words, [whole, part], "used-bar")


def room_strip(shares: Sequence[float], words: str) -> Markup:
    """Return a strip of cells, darker where more of the promise is used."""
    width = _WIDTH / max(len(shares), 1)
    cells = [
        f'<rect class="heat heat-{min(int(share * 5), 4) if share < 1 else 5}" '
        f'x="{place * width:.2f}" y="0" width="{width + 0.3:.2f}" height="14"/>'
        for place, share in enumerate(shares)
    ]
    return _svg(14, words, cells, "strip")


def _words(estimate: Estimate, level: float) -> str:
    low, high = (format_number(limit, estimate.stderr) for limit in estimate.interval(level))
    value = format_number(estimate.value, estimate.stderr)
    return f"{value}, {100 * level:g} % interval from {low} to {high}"


def _bar(scale: Scale, low: float, high: float, y: float, height: float, kind: str) -> str:
    start, end = scale.place(low), scale.place(high)
    width = max(end - start, 2.0)
    size = f'x="{start:.1f}" y="{y}" width="{width:.1f}" height="{height}"'
    return f'<rect class="{kind}" {size} rx="3"/>'


def _dot(scale: Scale, value: float, y: float) -> str:
    return f'<circle class="value" cx="{scale.place(value):.1f}" cy="{y}" r="4.5"/>'


def _axis(scale: Scale, y: float, error: float) -> str:
    ticks = "".join(
        f'<line class="axis" x1="{x:.1f}" y1="{y - 4}" x2="{x:.1f}" y2="{y}"/>'
        f'<text class="tick" x="{x:.1f}" y="{y + 14}">{format_number(number, error)}</text>'
        for number in scale.ticks()
        for x in [scale.place(number)]
    )
    return f'<line class="axis" x1="0" y1="{y}" x2="{_WIDTH}" y2="{y}"/>{ticks}'


def _svg(height: int, words: str, parts: Sequence[str], kind: str = "drawing") -> Markup:
    label = escape(words)
    stretched = ' preserveAspectRatio="none"' if kind in ("strip", "used-bar") else ""
    width = _ROW if kind == "row" else _WIDTH
    # Every part is made of numbers and of our own words.
    return Markup(  # noqa: S704
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}"'
        f"{stretched}><title>{label}</title>{''.join(parts)}</svg>"
    )
