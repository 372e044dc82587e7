"""The results of DPBench: errors against published references, the record of the selector, and
tables and figures of both.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from research.dpbench import DATASETS, EPSILON, Shape, prefixes
from research.study import Row
from research.study import select as where
from scumble.cli import console
from scumble.private.recommend import recommend
from scumble.public.plot import curves
from scumble.public.plot.figures import MISSING, Line, Panel, available, png

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = ("method", "dataset", "dimensions", "rows", "error", "stderr", "trials", "milliseconds")

# Published means of log10 of the scaled error at ε = 0.1, which are rounded to two digits. The
# error of a method that adds noise of one law to every table does not depend on the dataset: its
# figures hold for all datasets.
_ROUNDING = 0.005
NAMES = {
    "histogram": "Identity",
    "hierarchy": "HB",
    "wavelet": "Privelet",
    "quadtree": "quadtree, geometric budget",
    "privtree": "PrivTree",
    "grid": "AG",
    "dawa": "DAWA",
}
_ALL_DATASETS = {  # by method, dimensions and rows
    ("histogram", 1, 10**5): -4.16,
    ("hierarchy", 1, 10**3): -2.63,
    ("hierarchy", 1, 10**5): -4.63,
    ("wavelet", 1, 10**5): -4.52,
    ("hierarchy", 2, 10**4): -2.86,
    ("hierarchy", 2, 10**6): -4.86,
    ("quadtree", 2, 10**4): -2.82,
    ("quadtree", 2, 10**6): -4.82,
    ("wavelet", 2, 10**4): -2.56,
    ("wavelet", 2, 10**6): -4.56,
}
_ONE_DATASET = {  # by method, dataset and rows
    ("dawa", "NETTRACE", 10**5): -4.83,
    ("privtree", "SF-CABS-E", 10**4): -3.77,
    ("privtree", "SF-CABS-E", 10**6): -5.53,
    ("privtree", "GOWALLA", 10**4): -3.44,
    ("privtree", "GOWALLA", 10**6): -4.97,
    ("privtree", "STROKE", 10**4): -3.31,
    ("privtree", "STROKE", 10**6): -4.59,
    ("grid", "SF-CABS-E", 10**4): -3.59,
    ("grid", "SF-CABS-E", 10**6): -5.20,
    ("grid", "GOWALLA", 10**4): -3.42,
    ("grid", "GOWALLA", 10**6): -5.16,
}


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each error that has a reference, the worse ones first, how many of them
    are as good, and how often the selector's choice is near the best method.
    """
    return [*_reference_sentences(list(comparisons(rows))), selector_sentence(records(rows))]


def reference(row: Row) -> float | None:
    """Return the published error for the method, dataset and number of rows of `row`, if any."""
    found = _ONE_DATASET.get((row["method"], row["dataset"], row["rows"]))
    if found is not None:
        return found
    return _ALL_DATASETS.get((row["method"], row["dimensions"], row["rows"]))


@dataclass(frozen=True)
class ReferenceComparison:
    """A measured error and its published reference."""

    row: Row
    known: float

    @property
    def good(self) -> bool:
        """Whether the error is at most the reference, or not significantly above it."""
        return bool(self.row["error"] <= self.known + self._slack)

    @property
    def word(self) -> str:
        better = self.row["error"] < self.known - self._slack
        return "better" if better else "as good" if self.good else "worse"

    @property
    def _slack(self) -> float:
        """Two standard errors, by Student's law for the number of trials."""
        from scipy.special import stdtrit

        times = float(stdtrit(self.row["trials"] - 1, 0.97725))
        return _ROUNDING + times * float(self.row["stderr"])

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row['method']} on {row['dataset']}, {row['rows']:,} rows: {row['error']:.2f} "
            f"± {row['stderr']:.2f}, reference {self.known:.2f} ({NAMES[row['method']]}): "
            f"{self.word}"
        )


def comparisons(rows: Sequence[Row]) -> Iterator[ReferenceComparison]:
    """Yield a comparison for every row that has a reference."""
    for row in rows:
        known = reference(row)
        if known is not None:
            yield ReferenceComparison(row, known)


def _reference_sentences(found: Sequence[ReferenceComparison]) -> list[str]:
    if not found:
        return ["No reference figure is for what was measured."]
    ordered = sorted(found, key=lambda each: each.good)
    good = sum(each.good for each in found)
    total = (
        f"{good} of {len(found)} figures are at least as good as the reference, within two "
        f"standard errors; chance would call {len(found) / 44:.0f} of as many equal ones worse."
    )
    return [*map(str, ordered), total]


# How often the selector's choice is as good as the best method measured.

NEAR = 0.05  # of log10 of the error
# The noise of these methods does not depend on the data, so that their error in rows is one number
# for all datasets and scales: it is pooled.
FIXED = ("histogram", "hierarchy", "wavelet", "quadtree", "workload")


@dataclass(frozen=True)
class SelectorRecord:
    """The selector's choice for a dataset and a number of rows, and how far it is behind `best`."""

    dataset: str
    rows: int
    chosen: str
    best: str
    behind: float  # in log10 of the error

    @property
    def near(self) -> bool:
        return self.behind <= NEAR


def records(rows: Sequence[Row]) -> list[SelectorRecord]:
    """Return a record for every dataset and scale at which the chosen method was measured."""
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
            row["method"]: float(row["error"]) for row in where(rows, dataset=dataset, rows=size)
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
            found.append(SelectorRecord(dataset, size, chosen[key], best, behind))
    return found


def _pooled(rows: Sequence[Row], method: str, dimensions: int) -> float:
    """Return the mean of log10 of the error in rows."""
    kept = where(rows, method=method, dimensions=dimensions)
    return float(np.mean([float(row["error"]) + log10(row["rows"]) for row in kept]))


def _choice(dimensions: int, size: int) -> str:
    """Return the selector's choice, given the public shape, the number of rows and the questions.

    Of the 4096 prefix sums it gets every sixteenth, to be quick.
    """
    cells = 4096 if dimensions == 1 else 128
    schema = Shape("any", np.ones((cells,) * dimensions)).schema
    return recommend(
        schema,
        rows=size,
        epsilon=EPSILON,
        neighbours="add_remove",
        queries=prefixes(cells)[15::16] if dimensions == 1 else None,
    ).best.method


def selector_sentence(found: Sequence[SelectorRecord]) -> str:
    """Say in how many cases the choice was near the best, and in which it was not."""
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


# Tables and figures.


def save(rows: Sequence[Row], said: Sequence[str], output: Path) -> None:
    """Write rows and sentences as CSV and Markdown and, where matplotlib is installed, a figure."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "dpbench.csv").write_text(as_csv(rows), encoding="utf-8")
    (output / "dpbench.md").write_text(as_markdown(rows, said), encoding="utf-8")
    if available():
        (output / "dpbench.png").write_bytes(png(curves(panels(rows))))
    else:
        console.say(f"No figure: {MISSING}")


def as_csv(rows: Sequence[Row]) -> str:
    """Return all rows as CSV, with the reference and how they compare where there is one."""
    known = {_key(each.row): each for each in comparisons(rows)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, "reference", "verdict"])
    for row in rows:
        each = known.get(_key(row))
        more = ["", ""] if each is None else [f"{each.known:.2f}", each.word]
        writer.writerow([_cell(row[name]) for name in _COLUMNS] + more)
    return text.getvalue()


def as_markdown(rows: Sequence[Row], said: Sequence[str]) -> str:
    """Return a Markdown table for every number of rows, with the best method in bold."""
    parts = ["# DPBench, ε = 0.1: mean of log10 of the scaled error ± its standard error", ""]
    for dimensions in sorted({row["dimensions"] for row in rows}):
        for size in sorted({row["rows"] for row in rows}):
            here = where(rows, dimensions=dimensions, rows=size)
            if here:
                kind = "prefix sums of 4096 cells" if dimensions == 1 else "2000 random rectangles"
                parts += [f"## {kind}, {size:,} rows", "", *_markdown_table(here), ""]
    return "\n".join([*parts, *(f"- {sentence}" for sentence in said), ""])


def as_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    table = Table(title="log10 of the scaled error, ε = 0.1", title_justify="left")
    numbers = ("rows", "error", "± stderr", "reference", "ms")
    for name in ("method", "dataset", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in rows:
        known = reference(row)
        table.add_row(
            row["method"], row["dataset"], f"{row['rows']:,}", f"{row['error']:.2f}",
            f"{row['stderr']:.2f}", "" if known is None else f"{known:.2f}",
            f"{row['milliseconds']:.1f}",
        )  # fmt: skip
    return table


def panels(rows: Sequence[Row], most: int = 8) -> list[Panel]:
    """Return a panel for each of at most `most` datasets: the error of a count, in rows, against
    the number of rows, with a line for each method.
    """
    found = []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    for dataset in sorted(names, key=lambda name: name not in DATASETS)[:most]:
        lines = []
        for style, method in enumerate(methods):
            part = where(rows, dataset=dataset, method=method)
            if part:
                x = [r["rows"] for r in part]
                y = [r["error"] + log10(r["rows"]) for r in part]
                lines.append(Line(method, x, y, style, dashed=style >= 7))
        up = "log10 of the scaled error × rows"
        found.append(Panel(dataset, "rows", up, lines, log_x=True, from_zero=False))
    return found


def _markdown_table(rows: Sequence[Row]) -> list[str]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [f"| dataset | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        here = {row["method"]: row for row in rows if row["dataset"] == dataset}
        best = min(row["error"] for row in here.values())
        cells = [_markdown_cell(here[m], best) if m in here else "" for m in methods]
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    return lines


def _markdown_cell(row: Row, best: float) -> str:
    text = f"{row['error']:.2f} ± {row['stderr']:.2f}"
    return f"**{text}**" if row["error"] == best else text


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _key(row: Row) -> tuple[str, str, int]:
    return row["method"], row["dataset"], row["rows"]
