"""The figures of the experiments on Aroma: which rows make which lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scumble.evaluate.aroma import K, Row
from scumble.plot import Line, Panel


def panels(name: str, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one figure."""
    makers: dict[str, Callable[[Sequence[Row]], list[Panel]]] = {
        "figure 4": _loss,
        "figure 5": _again,
        "figure 6": _accuracy,
        "figure 7a": _accumulated,
        "figure 7b": _output,
        "figures 8 and 9": _paper,
        "equal exposure": _equal,
        "one count": _count,
    }
    return makers[name](rows)


def _lines(rows: Sequence[Row], across: str, names: Sequence[str], factor: float = 1) -> list[Line]:
    x = [row[across] for row in rows]
    return [
        Line(name, x, [factor * row[name] for row in rows], look) for look, name in enumerate(names)
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
        lines = _lines(part, varied, ["error"], 100)
        law = [100 * row["standard deviation"] for row in part]
        lines.append(Line("standard deviation", [row[varied] for row in part], law, bound=True))
        log = varied != "f"
        found.append(
            Panel(f"Against {varied}", words, "error of a share, % points", lines, log, log)
        )
    return found


def _accumulated(rows: Sequence[Row]) -> list[Panel]:
    lines = _lines(rows, "queries", ["Aroma", "output perturbation"])
    title = "Error as queries accumulate, ε = 0.5 by the paper's reading"
    return [Panel(title, "queries answered", "mean error, rows", lines)]


def _output(rows: Sequence[Row]) -> list[Panel]:
    names = [name for name in rows[0] if name not in ("ε", "k")]
    lines = _lines(rows, "ε", names)
    return [Panel("Error against ε", "ε", "mean error, rows", lines, log_y=True)]


def _paper(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, ("Aroma", "αβ", "FRAPP"), "At the paper's equal posterior")


def _equal(rows: Sequence[Row]) -> list[Panel]:
    return _beside(rows, ("Aroma", "αβ", "uniform", "subset", "subset, ε"), "At equal exposure")


def _beside(rows: Sequence[Row], names: Sequence[str], title: str) -> list[Panel]:
    """The errors, with theory, and what the best guess of a secret achieves against each."""
    x = [row["k"] for row in rows]
    errors = _lines(rows, "k", names)
    errors += [
        Line("theory" if name == names[0] else "", x, [row[f"theory, {name}"] for row in rows],
             bound=True)
        for name in names
    ]  # fmt: skip
    shown = [
        Line(name, x, [row[f"exposure, {name}"] for row in rows], look)
        for look, name in enumerate(names)
    ]
    return [
        Panel(title, "k of Aroma", "mean error, rows", errors, log_x=True, log_y=True),
        Panel("Exposure", "k of Aroma", "success of the best guess", shown, log_x=True),
    ]


def _count(rows: Sequence[Row]) -> list[Panel]:
    lines = _lines(rows, "ε", ["Aroma", "uniform", "subset"])
    title = "One count; ε is true of uniform and subset only"
    return [Panel(title, "ε", "mean relative error", lines, log_y=True)]
