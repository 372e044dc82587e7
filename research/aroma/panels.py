"""The figures of the experiments on Aroma: which rows make which lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from research.aroma.views import K
from research.study import Row
from scumble.public.plot.figures import Line, Panel

# The same colour for a method in every figure; the two panels of a count have their own.
_STYLES = {
    "Aroma": 0,
    "FRAPP": 1,
    "αβ": 2,
    "subset": 3,
    "subset, ε": 4,
    "uniform": 5,
    "Aroma, n = 4 m": 4,
    "AM": 2,
    "AM, batch": 3,
    "AM, other ends": 1,
    "workload": 6,
}


def panels(name: str, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one figure."""
    makers: dict[str, Callable[[Sequence[Row]], list[Panel]]] = {
        "figure 4": _loss,
        "figure 5": _again,
        "figure 6": _accuracy,
        "figure 7a": _accumulated,
        "figure 7b": _output,
        "figure 8": _sizes,
        "figure 9": _paper,
        "equal exposure": _equal,
        "figure 10": _averages,
        "figure 11": _times,
        "one count": _count,
        "one count, equal exposure": _same,
    }
    return makers[name](rows)


def _lines(rows: Sequence[Row], across: str, names: Sequence[str], factor: float = 1) -> list[Line]:
    x = [row[across] for row in rows]
    return [
        Line(name, x, [factor * row[name] for row in rows], style)
        for style, name in enumerate(names)
    ]


def _loss(rows: Sequence[Row]) -> list[Panel]:
    x = [row["ε"] for row in rows]
    needed = Panel("What the paper asks for", "ε", "k", _lines(rows, "ε", ["k"]))
    really = [
        Line("exposure of Aroma", x, [row["exposure"] for row in rows], 0),
        Line("most that ε-DP allows", x, [row["allowed by ε-DP"] for row in rows], 1),
        Line("blind guess", x, [1 / 15] * len(x), bound=True),
    ]
    return [needed, Panel("What an adversary gets", "ε", "success of the best guess", really)]


def _again(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for varied, across, title in (("k", "k", "n = 4 m"), ("n", "n / m", f"k = {K}")):
        part = [row for row in rows if row["varied"] == varied]
        lines = _lines(part, across, ["measured", "exact", "Theorem 4.1"], 100)
        found.append(Panel(f"Drawn again, {title}", across, "records, %", lines))
    return found


def _accuracy(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for varied, words in (("q", "people in the group q"), ("k", "k"), ("f", "f")):
        part = [row for row in rows if row["varied"] == varied]
        x = [row[varied] for row in part]
        keys = ("error", "deviation", "standard deviation")
        error, far, law = ([100 * row[key] for row in part] for key in keys)
        lines = [
            Line("error", x, error, spread=far),
            Line("standard deviation", x, law, bound=True),
        ]
        log, up = varied != "f", "error of a share, % points ± deviation"
        found.append(Panel(f"Against {varied}", words, up, lines, log, log))
    return found


def _accumulated(rows: Sequence[Row]) -> list[Panel]:
    lines = _lines(rows, "queries", ["Aroma", "output perturbation"])
    title = "Error as queries accumulate, ε = 0.5 by the paper's reading"
    return [Panel(title, "queries answered", "mean error, rows", lines)]


def _output(rows: Sequence[Row]) -> list[Panel]:
    names = ["Aroma", *(name for name in rows[0] if "query" in name)]
    lines = _lines(rows, "ε", names)
    return [Panel("Error against ε", "ε", "mean error, rows", lines, log_y=True)]


def _sizes(rows: Sequence[Row]) -> list[Panel]:
    title = f"At the paper's equal posterior, k = {K}"
    up = "mean error, rows ± deviation"
    return [Panel(title, "people q", up, _methods(rows, "q"), log_x=True, log_y=True)]


def _paper(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, "At the paper's equal posterior", "mean error, rows")


def _equal(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, "At equal exposure", "mean error, rows")


def _averages(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, "Mean age of people with a value", "mean error, years")


def _same(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, "One count at equal exposure", "mean relative error, %", 100)[:1]


def _beside(rows: Sequence[Row], title: str, up: str, factor: float = 1) -> list[Panel]:
    """The errors, with theory, and what the best guess of a secret achieves against each."""
    errors = _methods(rows, "k", factor)
    shown = [
        Line(name, [row["k"] for row in part], [row["exposure"] for row in part], _STYLES[name])
        for name, part in _parts(rows).items()
    ]
    return [
        Panel(title, "k of Aroma", f"{up} ± deviation", errors, log_x=True, log_y=True),
        Panel("Exposure", "k of Aroma", "success of the best guess", shown, log_x=True),
    ]


def _methods(rows: Sequence[Row], across: str, factor: float = 1) -> list[Line]:
    """A line for each method, with the deviation of a single publication, and one for theory."""
    found: list[Line] = []
    for name, part in _parts(rows).items():
        x = [row[across] for row in part]
        error, far, theory = (
            [factor * row[key] for row in part] for key in ("error", "deviation", "theory")
        )
        found.append(Line("" if found else "theory", x, theory, bound=True))
        found.append(Line(name, x, error, _STYLES[name], spread=far))
    return found


def _parts(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each method."""
    names = dict.fromkeys(row["method"] for row in rows)
    return {name: [row for row in rows if row["method"] == name] for name in names}


def _times(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for key, title, up in (
        ("publish, s", "To publish", "processor time, s"),
        ("answer, ms", "To answer a count", "processor time, ms"),
        ("bytes a row", "Size of the view", "bytes a row"),
    ):
        lines = [
            Line(name, [row["k"] for row in part], [row[key] for row in part], _STYLES[name])
            for name, part in _parts(rows).items()
        ]
        found.append(Panel(f"{title}, {rows[0]['rows']:,} rows", "k", up, lines))
    return found


def _count(rows: Sequence[Row]) -> list[Panel]:
    local = ("Aroma", "subset", "uniform")
    far = [100 * row[key] for row in rows for key in ("error", "theory")]
    frame = min(far) / 2, 2 * max(far)
    found = []
    for title, inside in (
        ("One count from rows; ε is not true of Aroma", True),
        ("The same from noisy sums; somebody is trusted", False),
    ):
        part = [row for row in rows if (row["method"] in local) == inside]
        up = "mean relative error, % ± deviation"
        lines = _methods(part, "ε", 100)
        found.append(Panel(title, "ε by the paper's reading", up, lines, log_y=True, frame=frame))
    return found
