"""The command release marginal: all cells of one marginal."""

from __future__ import annotations

from typing import Annotated

import typer

from scumble.cli import bars, console, options, writing
from scumble.model.query import query_command

Names = Annotated[
    str, typer.Argument(metavar="COLUMNS", help="Attributes of the marginal, as age,sex.")
]
Nonnegative = Annotated[
    bool, typer.Option("--nonnegative", help="Fit tables without negative cells (biased).")
]
Integers = Annotated[
    bool, typer.Option("--integers", help="Round to whole numbers; the total stays.")
]


def marginal(
    folder: options.ReleaseFolder,
    names: Names,
    nonnegative: Nonnegative = False,
    integers: Integers = False,
    output: writing.Output = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write all cells of one marginal of a release by marginals, fourier or datacube."""
    from scumble.private.owner import open_release
    from scumble.public.sql.names import sql_name

    writing.check_output(output, force=force)
    columns = options.columns([names])
    release = open_release(folder)
    with bars.working("Fitting tables" if nonnegative else "Reading the marginal"):
        table = release.marginals.marginal(columns, nonnegative=nonnegative, integers=integers)
    if as_json:
        console.print_json(table.to_pylist())
    if output is not None or not as_json:
        writing.write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {output}.")
    quoted = ", ".join(map(sql_name, columns))
    sql = f"SELECT {quoted}, COUNT(*) FROM t GROUP BY {quoted}"
    console.say(f"With the error of each cell: {query_command(folder, sql)}")
