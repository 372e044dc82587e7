"""The results of the benchmark as tables: what was measured, beside what is known."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from research.dpbench import EPSILON, KNOWN, Row, Shape, Verdict, prefixes, verdicts
from scumble.compare.selection import select
from scumble.public.plot.figures import Line, Panel

_COLUMNS = ("method", "dataset", "dimensions", "rows", "error", "stderr", "trials", "milliseconds")


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, with the reference and the verdict where there is one."""
    known = {_key(each.row): each for each in verdicts(rows)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, "reference", "verdict"])
    for row in rows:
        verdict = known.get(_key(row))
        more = ["", ""] if verdict is None else [f"{verdict.known:.2f}", verdict.word]
        writer.writerow([_cell(row[name]) for name in _COLUMNS] + more)
    return text.getvalue()


def as_markdown(rows: Sequence[Row], said: Sequence[str]) -> str:
    """A table for every number of rows: a line a dataset, a column a method, the best in bold."""
    parts = ["# DPBench, ε = 0.1: mean of log10 of the scaled error ± its standard error", ""]
    for dimensions in sorted({row["dimensions"] for row in rows}):
        for size in sorted({row["rows"] for row in rows}):
            here = [r for r in rows if (r["dimensions"], r["rows"]) == (dimensions, size)]
            if here:
                kind = "prefix sums of 4096 cells" if dimensions == 1 else "2000 random rectangles"
                parts += [f"## {kind}, {size:,} rows", "", *_table(here), ""]
    return "\n".join([*parts, *(f"- {sentence}" for sentence in said), ""])


def panels(rows: Sequence[Row], most: int = 8) -> list[Panel]:
    """Error of a count, in rows, against their number; a panel a dataset, a line a method."""
    found = []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    for dataset in sorted(names, key=lambda name: name not in KNOWN)[:most]:
        lines = []
        for look, method in enumerate(methods):
            part = [r for r in rows if (r["dataset"], r["method"]) == (dataset, method)]
            if part:
                x = [r["rows"] for r in part]
                y = [r["error"] + log10(r["rows"]) for r in part]
                lines.append(Line(method, x, y, look, dashed=look >= 7))
        up = "log10 of the scaled error × rows"
        found.append(Panel(dataset, "rows", up, lines, log_x=True, from_zero=False))
    return found


def sentences(found: Sequence[Verdict]) -> list[str]:
    """The verdicts, the bad ones first, and how many there are of each."""
    if not found:
        return ["No reference figure is for what was measured."]
    ordered = sorted(found, key=lambda each: each.good)
    good = sum(each.good for each in found)
    total = (
        f"{good} of {len(found)} figures are at least as good as the reference, within two "
        f"standard errors; chance would call {len(found) / 44:.0f} of as many equal ones worse."
    )
    return [*map(str, ordered), total]


def _table(rows: Sequence[Row]) -> list[str]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [f"| dataset | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        here = {row["method"]: row for row in rows if row["dataset"] == dataset}
        best = min(row["error"] for row in here.values())
        cells = [_shown(here[m], best) if m in here else "" for m in methods]
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    return lines


def _shown(row: Row, best: float) -> str:
    text = f"{row['error']:.2f} ± {row['stderr']:.2f}"
    return f"**{text}**" if row["error"] == best else text


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _key(row: Row) -> tuple[str, str, int]:
    return row["method"], row["dataset"], row["rows"]


# How often the selector's choice is as good as the best method, on what was measured.

NEAR = 0.05  # of log10 of the error
# Their noise does not depend on the data, so that their errors in rows are one number for all
# datasets and scales: it is pooled.
FIXED = ("histogram", "hierarchy", "wavelet", "quadtree", "workload")


@dataclass(frozen=True)
class Record:
    """The choice for a dataset of some size, with its error and the least one."""

    dataset: str
    rows: int
    chosen: str
    best: str
    behind: float

    @property
    def near(self) -> bool:
        return self.behind <= NEAR


def records(rows: Sequence[Row]) -> list[Record]:
    """A record for every dataset and scale at which the chosen method was measured."""
    pooled = {
        (method, dimensions): _pooled(rows, method, dimensions)
        for method, dimensions in {(row["method"], row["dimensions"]) for row in rows}
        if method in FIXED
    }
    chosen: dict[tuple[int, int], str] = {}
    found = []
    for dimensions, dataset, size in dict.fromkeys(
        (row["dimensions"], row["dataset"], row["rows"]) for row in rows
    ):
        here = {
            row["method"]: float(row["error"])
            for row in rows
            if (row["dataset"], row["rows"]) == (dataset, size)
        }
        for method in here:
            if method in FIXED:
                here[method] = pooled[method, dimensions] - log10(size)
        key = dimensions, size
        if key not in chosen:
            chosen[key] = _choice(*key)
        if chosen[key] in here:
            best = min(here, key=lambda method: here[method])
            behind = here[chosen[key]] - here[best]
            found.append(Record(dataset, size, chosen[key], best, behind))
    return found


def _pooled(rows: Sequence[Row], method: str, dimensions: int) -> float:
    """The mean of log10 of the error in rows."""
    kept = [r for r in rows if (r["method"], r["dimensions"]) == (method, dimensions)]
    return float(np.mean([float(row["error"]) + log10(row["rows"]) for row in kept]))


def _choice(dimensions: int, size: int) -> str:
    """What the selector says, given the public shape, the number of rows and the questions; of the
    4096 prefix sums every sixteenth, to be quick.
    """
    cells = 4096 if dimensions == 1 else 128
    schema = Shape("any", np.ones((cells,) * dimensions)).schema
    return select(
        schema,
        schema.names,
        rows=size,
        epsilon=EPSILON,
        neighbours="add_remove",
        workload=prefixes(cells)[15::16] if dimensions == 1 else "ranges",
    ).method


def sentence(found: Sequence[Record]) -> str:
    """In how many cases the choice was near the best, and where it was not."""
    if not found:
        return "The methods that the selector chooses were not measured."
    near = sum(record.near for record in found)
    mean = float(np.mean([record.behind for record in found]))
    missed = [
        f"{r.dataset} {r.rows:,} ({r.chosen} {r.behind:.2f} behind {r.best})"
        for r in found
        if not r.near
    ]
    return (
        f"The selector is within {NEAR} of the best method in {near} of {len(found)} cases "
        f"({near / len(found):.0%}), {mean:.3f} behind in the mean"
        + (f"; not for {', '.join(missed)}." if missed else ".")
    )
