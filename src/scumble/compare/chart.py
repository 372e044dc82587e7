"""The chart of a comparison in SVG: what an attacker can learn against the error of the answers.

Methods with a promise and methods without one are in two panels with the same axes, so that nobody
compares an average person with a bound for everybody. There is no style sheet: the chart stands in
pages that forbid inline styles, and in a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# Okabe and Ito's palette without its yellow, and a grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8a6d3b", "#777777")
_WIDTH, _PANEL = 760, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 44, 40
_AXIS = 22  # below the last panel: what the axis across shows
_WITH_PROMISE = (
    "With a promise: it holds for everybody",
    "dashed: protects whole rows · arrow: at most there · pale: beaten by another setting",
)
_WITHOUT = (
    "No promise: an unlucky person is exposed",
    "mark: the average person · line: up to the unluckiest person · pale: beaten",
)
# Offsets of a text from its mark, the best first, with its anchor.
_OFFSETS = (
    (10, -6, "start"), (10, 14, "start"), (-10, -6, "end"), (-10, 14, "end"),
    (0, -12, "middle"), (0, 22, "middle"), (12, 4, "start"), (-12, 4, "end"),
    (10, -20, "start"), (-10, -20, "end"), (10, 28, "start"), (-10, 28, "end"),
)  # fmt: skip

_FEW_TICKS = 2  # are too few to read a number off an axis

Point = tuple[float, float]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Mark:
    """A setting of a method.

    `success` is the chance of an attacker (at most, if `limit`), and `worst` his chance against the
    unluckiest person, if it is known. Marks that are `private` are in the panel of methods with a
    promise, filled; curves of methods that protect `whole` rows are dashed. A setting is `beaten`
    if another one exposes no more and errs no more.
    """

    method: str
    words: str
    success: float
    error: float
    private: bool
    whole: bool
    limit: bool
    beaten: bool
    worst: float | None = None


@dataclass(frozen=True)
class _Panel:
    """Where a panel is drawn: its top, and its axis upwards."""

    top: float
    up: _LogAxis

    @property
    def bottom(self) -> float:
        return self.top + _PANEL - _TOP - _BOTTOM


@dataclass(frozen=True)
class _LogAxis:
    """A logarithmic axis: numbers from `low` to `high` are drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, numbers: Sequence[float], start: float, end: float) -> _LogAxis:
        """Return an axis for positive numbers, with some space around them."""
        low, high = min(numbers), max(numbers)
        room = max((high / low) ** 0.08, 1.15)
        return cls(low / room, high * room, start, end)

    def place(self, number: float) -> float:
        share = math.log(number / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round numbers on the axis: powers of 10, or multiples of them if these are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        ticks: list[float] = []
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            numbers = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            ticks = [number for number in numbers if self.low <= number <= self.high]
            if len(ticks) > _FEW_TICKS:
                break
        return ticks


def assign_colours(methods: Sequence[str]) -> dict[str, str]:
    """Return the colour of each method, in the order in which they are given."""
    distinct = dict.fromkeys(methods)
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(distinct)}


def draw_chart(marks: Sequence[Mark], blind: float, measure: str, *, percent: bool) -> Markup:
    """Return the chart; `blind` is the success of a blind guess, `measure` names the error.

    An error of 0 has no place on a logarithmic axis: it is drawn below all others, as "exact". A
    setting whose error is not finite is left out.
    """
    shown = [mark for mark in marks if math.isfinite(mark.error)]
    if not shown:
        return Markup("")
    colours = assign_colours([mark.method for mark in marks])
    errors = [mark.error for mark in shown if mark.error] or [0.01]
    exact = min(errors) / max((max(errors) / min(errors)) ** 0.15, 2.0)
    has_exact = not all(mark.error for mark in shown)
    chances = [blind, *(max(mark.success, mark.worst or 0.0) for mark in shown)]
    across = _LogAxis.of([*chances, *(mark.success for mark in shown)], _LEFT, _WIDTH - _RIGHT)
    halves = [[mark for mark in shown if mark.private is private] for private in (True, False)]
    parts: list[str] = []
    top = 0.0
    for half, words in zip(halves, (_WITH_PROMISE, _WITHOUT), strict=True):
        if not half:
            continue
        up = _LogAxis.of([*errors, *([exact] * has_exact)], top + _PANEL - _BOTTOM, top + _TOP)
        panel = _Panel(top + _TOP, up)
        labels = [(tick, _format_tick(tick, percent)) for tick in up.ticks()]
        if has_exact:
            labels = [(exact, "exact"), *(pair for pair in labels if pair[0] >= min(errors))]
        places = [(across.place(mark.success), up.place(mark.error or exact)) for mark in half]
        parts += _draw_frame(across, panel, labels, blind, measure, words)
        parts += _draw_marks(half, places, across, panel, colours)
        top += _PANEL
    high = top + _AXIS
    parts.append(
        f'<text text-anchor="middle" x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{high - 10:.0f}">'
        "an attacker's best chance to guess a person's value (log scale)</text>"
    )
    spoken = f"{measure} against the chance of an attacker, of {len(shown)} settings"
    # Every part is made of numbers, escaped texts and our own words.
    return Markup(  # noqa: S704
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high:.0f}" '
        f'role="img" aria-label="{escape(spoken)}" font-family="DejaVu Sans, sans-serif" '
        f'font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _draw_marks(
    marks: Sequence[Mark],
    places: Sequence[Point],
    across: _LogAxis,
    panel: _Panel,
    colours: dict[str, str],
) -> Iterator[str]:
    """Yield a curve for each method, the marks, and their texts where there is space."""
    taken = [
        (x - (18 if mark.limit else 6), y - 6, x + 6, y + 6)
        for mark, (x, y) in zip(marks, places, strict=True)
    ]
    texts: dict[int, str] = {}
    for method in dict.fromkeys(mark.method for mark in marks):
        own = [number for number, mark in enumerate(marks) if mark.method == method]
        own.sort(key=lambda number: marks[number].success)
        line = " ".join(f"{places[number][0]:.1f},{places[number][1]:.1f}" for number in own)
        dashed = ' stroke-dasharray="6 4"' if all(marks[number].whole for number in own) else ""
        colour = colours[method]
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" opacity=".4"{dashed}/>'
        # The method is named at the mark that exposes most, or else where there is space.
        for number, others in [*((nearest, taken) for nearest in own[::-1]), (own[-1], [])]:
            name = _write(
                f"{method}, {marks[number].words}", places[number], others, panel, bold=True
            )
            if name:
                texts[number] = name
                break
    for number, (mark, (x, y)) in enumerate(zip(marks, places, strict=True)):
        text = texts.get(number) or _write(mark.words, (x, y), taken, panel)
        arrow = f'<path d="M {x - 7:.1f} {y:.1f} h -11 l 4 -3 m -4 3 l 4 3" fill="none"/>'
        pale = ' opacity=".45"' if mark.beaten else ""
        hollow = "" if mark.private else ' fill="none"'
        colour = colours[mark.method]
        reach = "" if mark.private or mark.worst is None else _draw_reach(x, y, across, mark.worst)
        yield (
            f'<g class="mark" stroke="{colour}" fill="{colour}"{pale}>'
            f"<title>{escape(f'{mark.method}, {mark.words}')}</title>{arrow * mark.limit}{reach}"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" stroke-width="2"{hollow}/>'
            f'<g stroke="none">{text}</g></g>'
        )


def _draw_reach(x: float, y: float, across: _LogAxis, worst: float) -> str:
    """Return a line from the average person at `x` to the unluckiest one."""
    end = across.place(worst)
    if end < x + 6:
        return ""
    return f'<path class="worst" d="M {x + 6:.1f} {y:.1f} H {end:.1f} m 0 -4 v 8" fill="none"/>'


def _write(text: str, at: Point, taken: list[Box], panel: _Panel, *, bold: bool = False) -> str:
    """Return a text beside a mark, and add its box to `taken`; nothing if there is no space."""
    size = 12.5 if bold else 10.5
    wide = (0.68 if bold else 0.6) * size * len(text)
    for right, down, anchor in _OFFSETS:
        left = at[0] + right - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        box = (left, at[1] + down - size, left + wide, at[1] + down + 2)
        inside = box[0] > _LEFT and box[2] < _WIDTH and box[1] > panel.top and box[3] < panel.bottom
        if inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            weight = ' font-weight="bold"' if bold else ""
            return (
                f'<text x="{at[0] + right:.1f}" y="{at[1] + down:.1f}" text-anchor="{anchor}" '
                f'font-size="{size}"{weight}>{escape(text)}</text>'
            )
    return ""


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _draw_frame(
    across: _LogAxis,
    panel: _Panel,
    labels: Sequence[tuple[float, str]],
    blind: float,
    measure: str,
    words: tuple[str, str],
) -> Iterator[str]:
    """Yield the title, the axes and the grid of a panel."""
    top, bottom, right = panel.top, panel.bottom, _WIDTH - _RIGHT
    title, legend = words
    grid, faint = 'stroke="currentColor" stroke-opacity=".15"', 'fill-opacity=".65"'
    yield (
        f'<text class="panel" x="{_LEFT}" y="{top - 24:.0f}" font-size="14" font-weight="bold">'
        f"{title}</text>"
    )
    yield f'<text {faint} font-size="10.5" x="{_LEFT}" y="{top - 8:.0f}">{legend}</text>'
    for tick in across.ticks():
        x = f"{across.place(tick):.1f}"
        yield f'<line {grid} x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
        text = _format_tick(tick, percent=True)
        yield f'<text {faint} text-anchor="middle" x="{x}" y="{bottom + 18}">{text}</text>'
    for number, text in labels:
        y = panel.up.place(number)
        yield f'<line {grid} x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text {faint} text-anchor="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{text}</text>'
    x = f"{across.place(blind):.1f}"
    guess = 'stroke="currentColor" stroke-opacity=".5" stroke-dasharray="2 4"'
    yield f'<line {guess} x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
    yield f'<text {faint} font-style="italic" x="{x}" dx="5" y="{bottom - 6}">a blind guess</text>'
    high = (top + bottom) / 2
    yield (
        f'<text text-anchor="middle" transform="translate(14 {high:.0f}) rotate(-90)">'
        f"{escape(measure)} (log scale)</text>"
    )


def _format_tick(number: float, percent: bool) -> str:
    return f"{100 * number:,g} %" if percent else f"{number:,g}"
