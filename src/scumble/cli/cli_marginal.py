"""The command that writes one whole marginal of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import scumble
from scumble.cli import console, options, printing
from scumble.model.errors import ParameterError

Names = Annotated[
    str, typer.Argument(metavar="COLUMNS", help="Attributes of the marginal, as age,sex.")
]
Nonnegative = Annotated[
    bool, typer.Option("--nonnegative", help="Fit tables without negative cells (biased).")
]
Integers = Annotated[
    bool, typer.Option("--integers", help="Round to whole numbers; the total stays.")
]
TableOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="CSV or Parquet.  [default: stdout]"),
]


def marginal(
    folder: options.ReleaseFolder,
    names: Names,
    nonnegative: Nonnegative = False,
    integers: Integers = False,
    output: TableOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write all cells of one marginal of a release by marginals, fourier or datacube."""
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    if output is not None and output.exists() and not force:
        raise ParameterError(f"'{output}' exists already. Choose another file, or use --force.")
    columns = [name.strip() for name in names.split(",")]
    release = scumble.open(folder)
    table = release.marginal(columns, nonnegative=nonnegative, integers=integers)
    if as_json:
        console.print_json(table.to_pylist())
    elif output is None:
        sink = typer.get_binary_stream("stdout")
        csv.write_csv(table, sink)
    elif output.suffix == ".parquet":
        parquet.write_table(table, output)
    else:
        csv.write_csv(table, output)
    if output is not None:
        console.say(f"Wrote {output}.")
    quoted = ", ".join(name if name.isidentifier() else f'"{name}"' for name in columns)
    sql = f"SELECT {quoted}, COUNT(*) FROM t GROUP BY {quoted}"
    console.say(f"With the error of each cell: {printing.command(folder, sql)}")
