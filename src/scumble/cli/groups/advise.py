"""The commands advise and select: which method fits, from the schema alone.

`advise` compares methods of every kind by their expected error; `select` chooses a differentially
private release for given questions. Neither reads data.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError

Rows = Annotated[
    int, typer.Option("--rows", "-n", metavar="NUMBER", help="About how many rows there are.")
]
Publish = Annotated[
    str,
    typer.Option("--publish", metavar="CHOICE", help="rows, summaries, or answers to questions."),
]
Prior = Annotated[
    float,
    typer.Option(
        "--attacker-prior",
        metavar="SHARE",
        help="What the attacker gives to somebody's true value beforehand.",
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option("--epsilon", "-e", metavar="NUMBERS", help="Privacy losses to look at, as 0.5,1."),
]
Part = Annotated[
    float,
    typer.Option("--part", metavar="SHARE", help="Share of the rows that a question is about."),
]
Attributes = Annotated[
    str | None,
    typer.Option("--attributes", "-a", metavar="COLUMNS", help="Summaries: what is asked about."),
]


def advise(
    schema: options.SchemaFile,
    rows: Rows,
    publish: Publish,
    attacker_prior: Prior,
    epsilon: Epsilon = None,
    part: Part = 0.1,
    attributes: Attributes = None,
    as_json: options.Json = False,
) -> None:
    """Say which method fits at which setting, with the error to expect. Reads no data."""
    from scumble.compare.advice import advise as advice
    from scumble.model.schema.schema import Schema

    try:
        losses = [float(each) for each in epsilon.split(",")] if epsilon else None
    except ValueError:
        allowed = "numbers with commas between, such as 0.5,1"
        raise ParameterError.of("advise", "epsilon", allowed, epsilon) from None
    with bars.working("Computing errors"):
        question, found = advice(
            Schema.load(schema),
            rows=rows,
            publish=publish,  # type: ignore[arg-type]  # checked there
            attacker_prior=attacker_prior,
            epsilon=losses,
            part=part,
            attributes=options.columns([attributes]) if attributes else None,
        )
    advised = [(each, each.command.replace("SCHEMA", str(schema))) for each in found]
    if as_json:
        console.print_json([{**asdict(each), "command": command} for each, command in advised])
        return
    if any(each.error is not None for each in found):
        console.echo(question.words)
    for each, command in advised:
        kind = "" if each.private else " (not differentially private)"
        console.echo(
            f"{each.method}, {each.setting}{kind}: {each.sentence(question, attacker_prior)}."
        )
        console.echo(f"    {each.reason}.")
        console.echo(f"    {command}")


# --- select --------------------------------------------------------------------------------------

SchemaArgument = Annotated[
    Path | None,
    typer.Argument(metavar="SCHEMA", help="Schema of the table (TOML).", show_default=False),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", "-s", metavar="FILE", help="The schema, as other commands take it."),
]
AskedAttributes = Annotated[
    list[str],
    typer.Option("--attributes", "-a", metavar="COLUMNS", help="What to ask about, as age,sex."),
]
OneEpsilon = Annotated[
    float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss of one person.")
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="SHARE",
        help="Probability beyond epsilon that is allowed; the noise is then Gaussian.",
    ),
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
    attributes: AskedAttributes,
    rows: Rows,
    epsilon: OneEpsilon,
    neighbours: Neighbours,
    file: SchemaArgument = None,
    schema: SchemaOption = None,
    delta: Delta = None,
    workload: Workload = "ranges",
    occupied: Occupied = None,
    as_json: options.Json = False,
) -> None:
    """Say which differentially private release fits, and why. Reads no data and spends nothing."""
    from scumble.compare.selection import select

    if file is not None and schema is not None:
        raise ParameterError("Give the schema once: as SCHEMA or by --schema.")
    place = file or schema
    if place is None:
        raise ParameterError("Say which schema: scumble select SCHEMA, or --schema SCHEMA.")
    with bars.working("Computing errors"):
        found = select(
            place,
            options.columns(attributes),
            rows=rows,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,  # type: ignore[arg-type]  # checked there
            workload=workload,
            occupied=occupied,
        )
    command = found.command(schema=str(place), queries=workload)
    if as_json:
        fields = {"method": found.method, "parameters": dict(found.parameters)}
        console.print_json({**fields, "reasons": list(found.reasons), "command": command})
        return
    console.echo(found.method)
    for reason in found.reasons:
        console.echo(f"- {reason}")
    console.echo(command)
