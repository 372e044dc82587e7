"""The command that says which release fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scumble.cli import console, options

SchemaFile = Annotated[
    Path, typer.Argument(metavar="SCHEMA", help="Schema of the table (TOML).", show_default=False)
]
Attributes = Annotated[
    list[str],
    typer.Option("--attributes", "-a", metavar="COLUMNS", help="What to ask about, as age,sex."),
]
Rows = Annotated[
    int, typer.Option("--rows", "-n", metavar="NUMBER", help="About how many rows there are.")
]
Epsilon = Annotated[
    float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss of one person.")
]
Delta = Annotated[
    float | None, typer.Option("--delta", metavar="SHARE", help="Gaussian noise, but for so much.")
]
Neighbours = Annotated[
    str, typer.Option("--neighbours", metavar="RELATION", help="replace or add_remove.")
]
Workload = Annotated[
    str,
    typer.Option(
        "--workload",
        "-w",
        metavar="KIND",
        help="What will be asked: ranges, marginals, cells, or a file of SQL counts.",
    ),
]
Occupied = Annotated[
    float | None,
    typer.Option(
        "--occupied", metavar="SHARE", help="About which share of the cells has rows, if public."
    ),
]


def select(
    schema: SchemaFile,
    attributes: Attributes,
    rows: Rows,
    epsilon: Epsilon,
    neighbours: Neighbours,
    delta: Delta = None,
    workload: Workload = "ranges",
    occupied: Occupied = None,
    as_json: options.Json = False,
) -> None:
    """Say which differentially private release fits, and why. Reads no data and spends nothing."""
    import scumble

    names = [name.strip() for part in attributes for name in part.split(",")]
    found = scumble.select(
        schema,
        names,
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,  # type: ignore[arg-type]  # checked there
        workload=workload,
        occupied=occupied,
    )
    command = found.command(schema=str(schema), queries=workload)
    if as_json:
        fields = {"method": found.method, "parameters": dict(found.parameters)}
        console.print_json({**fields, "reasons": list(found.reasons), "command": command})
        return
    typer.echo(found.method)
    for reason in found.reasons:
        typer.echo(f"- {reason}")
    typer.echo(command)
