"""The figures of the experiments on relaxation: which rows make which lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from research.relaxation.experiments import CENTRES
from research.relaxation.simulation import PAPER
from research.study import Row
from scumble.public.plot.figures import Line, Panel

_NAMES = {"ε": "ε", "s": "volume s", "ξ": "ξ, most answers in a compound", "θ": "θ, buckets"}
_LOG = {"s", "θ"}
_STYLES = {
    ("data", "histogram"): 0,
    ("uniform", "histogram"): 1,
    ("data", "exact"): 2,
    ("uniform", "exact"): 3,
}


def panels(name: str, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one figure; none for what is a table only."""
    makers: dict[str, Callable[[Sequence[Row]], list[Panel]]] = {
        "figure 11": _progress,
        "figure 12": _capacity,
        "figure 16": _times,
    }
    if name in ("figure 13", "figure 14", "figure 15"):
        return _quality(rows)
    return makers[name](rows) if name in makers else []


def _progress(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for centres in CENTRES:
        here = [row for row in rows if row["centres"] == centres and row["tracker"] != PAPER]
        kinds = list(dict.fromkeys((row["tracker"], row["θ"]) for row in here))
        across = [row["submitted"] for row in here if (row["tracker"], row["θ"]) == kinds[0]]
        lines = [
            Line(
                f"Lemma 3, bound {number}",
                across,
                [here[0][f"bound {number}"]] * len(across),
                bound=True,
            )
            for number in ("(3)", "(4)")
        ]
        for style, (tracker, buckets) in enumerate(kinds):
            answered = [
                row["answered"] for row in here if (row["tracker"], row["θ"]) == (tracker, buckets)
            ]
            label = f"histogram, θ = {_power(buckets)}" if buckets else tracker
            dashed = tracker != "histogram"
            lines.append(Line(label, across, answered, style, marks=False, dashed=dashed))
        title = f"{centres.title()} centres"
        found.append(Panel(title, "queries submitted", "queries answered", lines))
    return found


def _capacity(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for varied in ("ε", "s"):
        here = [row for row in rows if row["varied"] == varied]
        lines = []
        for centres, tracker in _pairs(here):
            part = _part(here, centres, tracker)
            x, y = [row["value"] for row in part], [row["answered"] for row in part]
            lines.append(Line(f"{tracker}, {centres}", x, y, _STYLES[centres, tracker]))
            if len(lines) == 1:
                limit = [row["bound (3)"] for row in part]
                lines.append(Line("Lemma 3, bound (3)", x, limit, bound=True))
        log = varied in _LOG
        found.append(
            Panel(f"Against {varied}", _NAMES[varied], "queries answered", lines, log, log)
        )
    return found


def _quality(rows: Sequence[Row]) -> list[Panel]:
    varied = rows[0]["varied"]
    found = []
    for key, up, factor in (
        ("error", "mean relaxation error, %", 100),
        ("size", "mean answers in a compound", 1),
    ):
        lines = []
        for centres, tracker in _pairs(rows):
            part = _part(rows, centres, tracker)
            x, y = [row["value"] for row in part], [factor * row[key] for row in part]
            lines.append(Line(f"{tracker}, {centres}", x, y, _STYLES[centres, tracker]))
        title = "Relaxation error" if key == "error" else "Compound size"
        found.append(Panel(title, _NAMES[varied], up, lines, varied in _LOG))
    return found


def _times(rows: Sequence[Row]) -> list[Panel]:
    found = []
    for varied in ("ε", "s", "ξ", "θ"):
        here = [row for row in rows if row["varied"] == varied]
        lines = []
        for centres, tracker in _pairs(here):
            part = _part(here, centres, tracker)
            x, y = [row["value"] for row in part], [row["microseconds"] for row in part]
            lines.append(Line(f"{tracker}, {centres}", x, y, _STYLES[centres, tracker]))
        log = varied == "θ"
        title = f"Against {varied}"
        found.append(Panel(title, _NAMES[varied], "µs a query", lines, varied in _LOG, log))
    return found


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["centres"], row["tracker"]) for row in rows))


def _part(rows: Sequence[Row], centres: str, tracker: str) -> list[Row]:
    return [row for row in rows if (row["centres"], row["tracker"]) == (centres, tracker)]


def _power(number: int) -> str:
    return f"$10^{len(str(number)) - 1}$"
