"""The command that measures releases on the benchmarks of the field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.dpbench import Row, Scale

DataFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", help="Folder of the benchmark's files.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Seven datasets, two scales, four trials of each.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="Folder for tables and figures."),
]
Chosen = Annotated[
    str | None, typer.Option("--methods", metavar="NAMES", help="Only these, with commas between.")
]
Datasets = Annotated[
    str | None, typer.Option("--datasets", metavar="NAMES", help="Only these, with commas between.")
]
Draws = Annotated[
    int | None, typer.Option("--draws", metavar="NUMBER", min=1, help="Tables drawn of each shape.")
]
Runs = Annotated[
    int | None, typer.Option("--runs", metavar="NUMBER", min=1, help="Releases of each table.")
]


def dpbench(
    data: DataFolder,
    quick: Quick = False,
    output: Output = None,
    methods: Chosen = None,
    datasets: Datasets = None,
    draws: Draws = None,
    runs: Runs = None,
    as_json: options.Json = False,
) -> None:
    """Errors of releases by DPBench's protocol: 1-D prefix sums and 2-D rectangles at ε = 0.1.

    Every release is made through its real mechanism. Ctrl-C ends it, and keeps what is done.
    """
    from research.dpbench import FULL, QUICK
    from research.dpbench_reference import verdicts
    from research.dpbench_report import sentences
    from research.dpbench_selector import records, sentence

    given = {"draws": draws, "runs": runs, "methods": _names(methods), "datasets": _names(datasets)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    rows = _measured(data, replace(QUICK if quick else FULL, **chosen))
    if not rows:
        raise ParameterError("Nothing was measured: no method fits, or no dataset has that name.")
    said = [*sentences(list(verdicts(rows))), sentence(records(rows))]
    if output is not None:
        _save(rows, said, output)
    if as_json:
        console.print_json({"rows": rows, "verdicts": said})
        return
    _show(rows)
    for line in said:
        typer.echo(f"- {line}")


def marginals(data: DataFolder, as_json: options.Json = False) -> None:
    """Errors of marginals and fourier: all pairs and triples of two real tables, at ε = 1."""
    from research.marginal_bench import REFERENCE, marginal_benchmark

    with console.steps() as step:
        rows = list(marginal_benchmark(data, step))
    if as_json:
        console.print_json({"rows": rows, "reference": REFERENCE})
        return
    from rich.table import Table

    table = Table(
        title="Mean L1 error of marginals, ε = 1 (δ = 1e-9; fourier 0)", title_justify="left"
    )
    for name in ("dataset", "method", "ways", "least squares", "non-negative", "seconds"):
        table.add_column(name, justify="left" if name in ("dataset", "method") else "right")
    for row in rows:
        plain = "" if row["least squares"] is None else f"{row['least squares']:.3g}"
        fitted, seconds = f"{row['non-negative']:.3g}", f"{row['seconds']:.2f}"
        table.add_row(row["dataset"], row["method"], str(row["ways"]), plain, fitted, seconds)
    for name, known in REFERENCE.items():
        for ways, error in known.items():
            table.add_row("adult", f"reference: {name}", str(ways), "", f"{error:.3g}", "")
    console.stdout().print(table)


def _measured(data: Path, scale: Scale) -> list[Row]:
    """All rows, or those that were there when the person had enough."""
    from research.dpbench import benchmark, shapes

    total = len(shapes(data, scale.datasets)) * len(scale.scales)
    rows: list[Row] = []
    done = 0
    with console.progress("DPBench", total) as progress:

        def step(_: str) -> None:
            nonlocal done
            if progress is not None:
                progress(done)
            done += 1

        try:
            for row in benchmark(data, scale, step):
                rows.append(row)
        except KeyboardInterrupt:
            console.say("Stopped: this is what was measured until now.")
    return rows


def _save(rows: Sequence[Row], said: Sequence[str], output: Path) -> None:
    """Rows and verdicts as CSV and Markdown and, where the plotting library is there, a figure."""
    from research.dpbench_report import as_csv, as_markdown, panels
    from scumble.public.plot import curves_part
    from scumble.public.plot.curves import MISSING, available, png

    output.mkdir(parents=True, exist_ok=True)
    (output / "dpbench.csv").write_text(as_csv(rows), encoding="utf-8")
    (output / "dpbench.md").write_text(as_markdown(rows, said), encoding="utf-8")
    if available():
        (output / "dpbench.png").write_bytes(png(curves_part(panels(rows))))
    else:
        console.say(f"No figure: {MISSING}")
    console.say(f"Wrote {output}.")


def _show(rows: Sequence[Row]) -> None:
    from rich.table import Table

    from research.dpbench_reference import reference

    table = Table(title="log10 of the scaled error, ε = 0.1", title_justify="left")
    numbers = ("rows", "error", "± stderr", "reference", "ms")
    for name in ("method", "dataset", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in rows:
        known = reference(row)
        cells: tuple[Any, ...] = (
            row["method"], row["dataset"], f"{row['rows']:,}", f"{row['error']:.2f}",
            f"{row['stderr']:.2f}", "" if known is None else f"{known:.2f}",
            f"{row['milliseconds']:.1f}",
        )  # fmt: skip
        table.add_row(*cells)
    console.stdout().print(table)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))
