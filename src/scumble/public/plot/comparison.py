"""comparison: a figure of what an attacker can learn against the error of the answers.

Most of the code places names where they hide neither marks nor curves nor each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from math import hypot, isfinite
from typing import TYPE_CHECKING

from scumble.public.plot.figures import FAINT, INK, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow; each method has a mark of its own besides.
_COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#D55E00", "#56B4E9", "#000000")
_MARKS = ("o", "s", "D", "^", "v", "P", "X", "p", "h")
_BEATEN = "#a8a8a8"
_LARGE, _SMALL = 10.0, 8.0
_NEAR = 9.0  # distance in points below which one mark hides another

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Place = tuple[int, int, str]
# Offsets in points of a name from its mark, the best first, with the alignment.
_PLACES: tuple[Place, ...] = (
    (8, 5, "left"), (8, -13, "left"), (-8, 5, "right"), (-8, -13, "right"),
    (0, 10, "center"), (0, -19, "center"), (10, -4, "left"), (-10, -4, "right"),
    (8, 16, "left"), (-8, 16, "right"), (8, -24, "left"), (-8, -24, "right"),
)  # fmt: skip
# Further away where it is crowded, with a line from the mark to the name.
_FAR: tuple[Place, ...] = tuple(
    (right * across, up, "left" if right > 0 else "right")
    for across in (20, 50, 90)
    for up in (30, -38, 48, -56, 70, -78)
    for right in (1, -1)
)


@dataclass(frozen=True)
class Mark:
    """A setting of a method: its coordinates, the standard error of `error`, and how it is drawn.

    `success` is the chance of an attacker (at most, if `limit`). `private` marks are filled and
    `whole` ones (which protect whole rows) have dashed curves. A setting is `beaten` if another one
    exposes no more and errs no more. `exact` marks have no error, so no place on a log scale.
    """

    method: str
    words: str
    success: float
    error: float
    stderr: float
    private: bool
    whole: bool
    limit: bool
    beaten: bool
    exact: bool = False


def comparison(
    marks: Sequence[Mark], blind: float, measure: str, known: Sequence[str], *, percent: bool
) -> Figure:
    """Draw a curve for each method.

    Hollow marks are not differentially private, grey ones are beaten by another setting, and curves
    of methods that protect whole rows are dashed. `blind` is the success of a blind guess,
    `measure` the label of the y axis. The position of a method in `known` decides its colour and
    marker, in every figure.
    """
    figure, axes = blank(8.8, 5.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axvline(blind, color=FAINT, linewidth=1, linestyle=":")
    methods = list(dict.fromkeys(mark.method for mark in marks))
    styles = _styles(methods, known)
    edge = _edge(marks)
    shown = [mark if mark.error else replace(mark, error=edge, exact=True) for mark in marks]
    ordered = sorted(shown, key=lambda mark: (methods.index(mark.method), mark.success))
    _scale(axes, shown, blind, percent=percent)
    for method, group in groupby(ordered, key=lambda mark: mark.method):
        _curve(axes, list(group), styles[method][0])
    _dots(axes, ordered, styles)
    axes.set_xlabel("an attacker's best chance to guess a person's value (log scale)", color=INK)
    axes.set_ylabel(f"{measure} (log scale)", color=INK)
    figure.draw_without_rendering()  # computes the positions of the marks
    _write_names(axes, ordered, styles, blind)
    return figure


def _styles(methods: Sequence[str], known: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the colour and the marker of each method."""
    every = [*known, *(method for method in methods if method not in known)]
    numbers = {method: every.index(method) for method in methods}
    # Summaries use the colours of publishers again, in another order.
    return {
        method: (
            _COLOURS[(number + 4 * (number // len(_COLOURS))) % len(_COLOURS)],
            _MARKS[number % len(_MARKS)],
        )
        for method, number in numbers.items()
    }


def _edge(marks: Sequence[Mark]) -> float:
    """Return where errors of 0 are drawn on the log scale: below all others."""
    errors = [mark.error for mark in marks if mark.error]
    if not errors:
        return 1.0
    gap: float = (max(errors) / min(errors)) ** 0.15
    return min(errors) / max(gap, 2.0)


def _curve(axes: Axes, marks: Sequence[Mark], colour: str) -> None:
    """Draw the curve through the marks of a method, and their spread; not to exact marks."""
    style = "--" if all(m.whole for m in marks) else "-"
    for one, other in pairwise(marks):
        if one.exact == other.exact:
            along, up = [one.success, other.success], [one.error, other.error]
            axes.plot(along, up, color=colour, linewidth=1.4, alpha=0.5, linestyle=style)
    for each in marks:
        shown = _BEATEN if each.beaten else colour
        if isfinite(each.stderr) and not each.exact:
            low = max(each.error - 2 * each.stderr, each.error / 10)
            high = each.error + 2 * each.stderr
            axes.plot([each.success] * 2, [low, high], color=shown, linewidth=3, alpha=0.35)
        if each.limit:
            axes.plot([each.success * 0.94], [each.error], marker=4, markersize=9, color=shown)


def _dots(axes: Axes, marks: Sequence[Mark], styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw the marks; one that would hide another is smaller and lies above it."""
    scale = axes.figure.dpi / 72
    drawn: list[Point] = []
    for each in marks:
        colour, mark = styles[each.method]
        shown = _BEATEN if each.beaten else colour
        x, y = _at(axes, each.success, each.error, scale)
        below = sum(hypot(x - other, y - up) < _NEAR for other, up in drawn)
        drawn.append((x, y))
        size = 72 * 0.4 ** min(below, 3)
        dot = axes.scatter([each.success], [each.error], s=size, marker=mark, zorder=3 + below)
        dot.set_facecolor(shown if each.private else "white")
        dot.set(edgecolors="white" if below and each.private else shown)
        dot.set(linewidths=0.8 if below else 1.6, clip_on=False)


def _scale(axes: Axes, marks: Sequence[Mark], blind: float, *, percent: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    most = min(1.0, max(mark.success for mark in marks))
    axes.set_xlim(blind * 0.93, min(max(most * 1.55, blind * 1.5), 1.4))
    errors = [mark.error for mark in marks]
    least = min((mark.error for mark in marks if not mark.exact), default=2.0)
    axes.set_ylim(min(errors) / 1.5, max(errors) * 1.6)
    ticks = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1)
    low, high = axes.get_xlim()
    inside = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(inside, [f"{100 * tick:g} %" for tick in inside])
    steps = LogLocator(10, subs=(1, 2, 5)).tick_values(*axes.get_ylim())
    bottom, top = axes.get_ylim()
    if any(mark.exact for mark in marks):
        edge = min(errors)
        bottom = (edge * least) ** 0.5
        axes.axhline(bottom, color=FAINT, linewidth=1, linestyle=(0, (6, 4)))
        axes.set_yticks([edge, *(step for step in steps if bottom < step <= top)])
    else:
        edge = 0.0
        axes.set_yticks([step for step in steps if bottom <= step <= top])
    scale = 100 if percent else 1
    sign = " %" if percent else ""
    labels = FuncFormatter(lambda y, _: "exact" if y == edge else f"{scale * y:,g}{sign}")
    axes.yaxis.set_major_formatter(labels)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _write_names(
    axes: Axes, marks: Sequence[Mark], styles: Mapping[str, tuple[str, str]], blind: float
) -> None:
    """Write every setting beside its mark, and every method at the end of its curve, where there is
    space.
    """
    scale = axes.figure.dpi / 72
    at = {id(m): _at(axes, m.success, m.error, scale) for m in marks}
    taken: list[Box] = []
    for mark, (x, y) in zip(marks, at.values(), strict=True):
        taken.append((x - (16 if mark.limit else 6), y - 6, x + 6, y + 6))
    along = list(_along(marks, at))
    (left, bottom), (right, top) = (axes.transAxes.transform([(0, 0), (1, 1)]) / scale).tolist()
    frame = (left, bottom, right, top)
    _write(axes, "blind guess", (blind, axes.get_ylim()[0]), (4, 4, "left"), FAINT, 9)
    x, y = _at(axes, blind, axes.get_ylim()[0], scale)
    taken.append((x, y, x + 60, y + 16))
    _legend(axes, marks, taken, frame)
    named = set()
    for method, (colour, _) in styles.items():
        own = [mark for mark in reversed(marks) if mark.method == method]
        mark, place = _name_place(own, at, taken, along, frame)
        named.add(id(mark))
        text = f"{method}, {mark.words}"
        _write(axes, text, (mark.success, mark.error), place, colour, _LARGE, bold=True)
    for mark in marks:
        place_of_words = _free_place(at[id(mark)], mark.words, _SMALL, taken, along, frame)
        if id(mark) not in named and place_of_words is not None:
            colour = _BEATEN if mark.beaten else styles[mark.method][0]
            _write(axes, mark.words, (mark.success, mark.error), place_of_words, colour, _SMALL)


def _along(marks: Sequence[Mark], at: Mapping[int, Point]) -> Iterator[Point]:
    """Yield positions along the curves, about four points apart."""
    for one, other in pairwise(marks):
        if one.method == other.method and one.exact == other.exact:
            (x, y), (to_x, to_y) = at[id(one)], at[id(other)]
            steps = max(int(hypot(to_x - x, to_y - y) / 4), 1)
            for step in range(steps):
                share = step / steps
                yield x + share * (to_x - x), y + share * (to_y - y)


def _name_place(
    own: Sequence[Mark],
    at: Mapping[int, Point],
    taken: list[Box],
    along: Sequence[Point],
    frame: Box,
) -> tuple[Mark, Place]:
    """Return the mark of a method at which its name is written, and the place of the name.

    It is the first mark beside which the name fits, else near which it fits, else the first.
    """
    for places, mark in product((_PLACES, _FAR), own):
        text = f"{mark.method}, {mark.words}"
        place = _free_place(at[id(mark)], text, _LARGE, taken, along, frame, places)
        if place is not None:
            return mark, place
    return own[0], _PLACES[1]


def _at(axes: Axes, x: float, y: float, scale: float) -> Point:
    """Return the position of data coordinates in points of the figure."""
    across, up = (axes.transData.transform((x, y)) / scale).tolist()
    return across, up


def _legend(axes: Axes, marks: Sequence[Mark], taken: list[Box], frame: Box) -> None:
    """Explain the styles that occur, in the upper right corner."""
    lines = ["full: differentially private; hollow: not DP"]
    if any(mark.whole for mark in marks):
        lines.append("dashed: whole rows are protected; else sensitive values only")
    if any(mark.exact for mark in marks):
        lines.append("below the broken line: no error at all")
    if any(mark.limit for mark in marks):
        lines.append("arrow to the left: at most there")
    if any(mark.beaten for mark in marks):
        lines.append("grey: another setting exposes no more and errs no more")
    axes.annotate(
        "\n".join(lines),
        (0.995, 0.99),
        xycoords="axes fraction",
        ha="right",
        va="top",
        color=FAINT,
        fontsize=9,
    )
    wide = 0.52 * 9 * max(map(len, lines))
    taken.append((frame[2] - wide, frame[3] - 13 * len(lines) - 2, frame[2], frame[3]))


def _free_place(
    point: Point,
    text: str,
    size: float,
    taken: list[Box],
    along: Sequence[Point],
    frame: Box,
    places: Sequence[Place] = _PLACES,
) -> Place | None:
    """Return the first place whose box is inside the frame, overlaps no other, and is crossed least
    by curves; None if there is none. The box is added to `taken`.
    """
    # Large names are bold and wider.
    wide, high = (0.66 if size == _LARGE else 0.58) * size * len(text), 1.25 * size
    found: list[tuple[int, Place, Box]] = []
    for right, up, side in places:
        low = point[0] + right - {"left": 0, "center": wide / 2, "right": wide}[side]
        box = (low, point[1] + up - 2, low + wide, point[1] + up + high - 2)
        inside = (
            frame[0] <= box[0]
            and box[2] <= frame[2] + 4
            and frame[1] <= box[1]
            and box[3] <= frame[3]
        )
        if inside and not any(_overlap(box, other) for other in taken):
            crossed = sum(_overlap(box, (x, y, x, y)) for x, y in along)
            found.append((crossed, (right, up, side), box))
    if not found:
        return None
    _, place, box = min(found, key=lambda each: each[0])
    taken.append(box)
    return place


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _write(
    axes: Axes,
    text: str,
    at: Point,
    place: Place,
    colour: str,
    size: float,
    *,
    bold: bool = False,
) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7} if place in _FAR else None
    axes.annotate(
        text,
        at,
        xytext=place[:2],
        textcoords="offset points",
        ha=place[2],
        color=colour,
        fontsize=size,
        fontweight="bold" if bold else "normal",
        # A white outline of the letters, for lines that pass below.
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        arrowprops=line,
    )
