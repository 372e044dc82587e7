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

_WIDTH, _ROW, _PAD = 600, 260, 24
_CHARACTERS = 48  # that fit under the axis of a whole drawing, on a phone too
_FAR = 0.7  # share of the largest number from which on the axis does not begin at 0


@dataclass(frozen=True)
class Scale:
    """A scale from numbers to places on the drawing. It ends at ticks."""

    low: float
    high: float
    step: float
    width: float = _WIDTH

    @classmethod
    def of(cls, numbers: Sequence[float], most: int = 6) -> Scale | None:
        """Return a scale with about `most` ticks that shows all finite numbers; None if there are
        none. It begins at 0, unless all numbers are far from it.
        """
        finite = [number for number in numbers if math.isfinite(number)]
        if not finite:
            return None
        low, high = min(finite), max(finite)
        if not low > _FAR * high > 0:
            low = min(low, 0.0)
        if not high < _FAR * low < 0:
            high = max(high, 0.0)
        if low == high:
            low, high = (0.0, 1.0) if not low else sorted((low - abs(low) / 2, low + abs(low) / 2))
        raw = (high - low) / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw * (1 - 1e-9))
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step)

    def place(self, number: float) -> float:
        """Return where a number is drawn; what is outside is at the edge."""
        share = (number - self.low) / (self.high - self.low)
        return _PAD + min(max(share, 0.0), 1.0) * (self.width - 2 * _PAD)

    def ticks(self) -> list[float]:
        """Return the numbers at the ticks: 1, 2 or 5 times a power of 10 apart."""
        number = round((self.high - self.low) / self.step)
        return [self.low + place * self.step for place in range(number + 1)]

    def label(self, number: float) -> str:
        """Return a number as it stands at a tick."""
        digits = max(0, -math.floor(math.log10(self.step)))
        return f"{round(number, digits) + 0.0:,.{digits}f}"


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
    parts += [_dot(scale, estimate.value, 37), _axis(scale, 58, scale.ticks())]
    return _svg(80, words, parts)


def row_drawing(estimate: Estimate, level: float, scale: Scale | None) -> Markup:
    """Return the bar of one row of a table, on the scale of the whole table."""
    low, high = estimate.interval(level)
    if scale is None or not math.isfinite(estimate.value):
        return Markup("")
    scale = replace(scale, width=_ROW)
    parts = [
        *(
            f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="20"/>'
            for x in map(scale.place, _ends(scale))
        ),
        _bar(scale, low, high, 5, 10, "interval"),
        _dot(scale, estimate.value, 10, 2.5),
    ]
    return _svg(20, _words(estimate, level), parts, "row")


def used_drawing(used: int, limit: int) -> Markup:
    """Return a bar of how much of the promise is used at the most popular point."""
    share = min(used / limit, 1.0) if limit else 1.0
    return share_drawing(share, f"{used} of {limit} answers used in the most-asked part")


def share_drawing(share: float, words: str = "") -> Markup:
    """Return a bar of a share that is used."""
    words = words or f"{100 * share:.3g} % used"
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


def _dot(scale: Scale, value: float, y: float, radius: float = 4.5) -> str:
    return f'<circle class="value" cx="{scale.place(value):.1f}" cy="{y}" r="{radius}"/>'


def axis_drawing(scale: Scale) -> Markup:
    """Return the axis under the bars of the rows of a table."""
    small = replace(scale, width=_ROW)
    words = f"Axis from {small.label(small.low)} to {small.label(small.high)}"
    return _svg(20, words, [_axis(small, 4, _ends(small))], "row")


def _ends(scale: Scale) -> list[float]:
    """Return the ticks of a narrow axis: the ends, and 0 if it lies well between them."""
    middle = [0.0] if scale.width / 4 < scale.place(0.0) < 3 * scale.width / 4 else []
    return [scale.low, *middle, scale.high]


def _axis(scale: Scale, y: float, ticks: Sequence[float]) -> str:
    size = sum(len(scale.label(number)) + 2 for number in ticks)
    every = max(1, math.ceil(size / _CHARACTERS))  # has a label
    drawn = "".join(
        f'<line class="axis" x1="{x:.1f}" y1="{y - 4}" x2="{x:.1f}" y2="{y}"/>'
        + (f'<text class="tick" x="{x:.1f}" y="{y + 14}">{words}</text>' if shown else "")
        for place, number in enumerate(ticks)
        for x, words, shown in [(scale.place(number), scale.label(number), not place % every)]
    )
    ends = f'x1="{scale.place(scale.low):.1f}" x2="{scale.place(scale.high):.1f}"'
    return f'<line class="axis" {ends} y1="{y}" y2="{y}"/>{drawn}'


def _svg(height: int, words: str, parts: Sequence[str], kind: str = "drawing") -> Markup:
    label = escape(words)
    stretched = ' preserveAspectRatio="none"' if kind in ("strip", "used-bar") else ""
    width = _ROW if kind == "row" else _WIDTH
    # Every part is made of numbers and of our own words.
    return Markup(  # noqa: S704
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}"'
        f"{stretched}><title>{label}</title>{''.join(parts)}</svg>"
    )
