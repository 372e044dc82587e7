"""The command recommend: which method fits a table, from the schema alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError

Rows = Annotated[
    int, typer.Option("--rows", metavar="NUMBER", help="About how many rows there are.")
]
UseOfTable = Annotated[
    str,
    typer.Option(
        "--use",
        metavar="CHOICE",
        help="What others do with it: questions, rows, tables (of a publication), or live.",
    ),
]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss.")
]
Care = Annotated[
    str | None,
    typer.Option(
        "--care", metavar="LEVEL", help="Instead of --epsilon: careful, balanced or open."
    ),
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="Probability beyond epsilon that is allowed."),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="What to publish, as age,sex.  [default: all that leave answers useful]",
    ),
]
Queries = Annotated[
    Path | None,
    typer.Option("--queries", metavar="FILE", help="SQL counts that will be asked, one a line."),
]
Occupied = Annotated[
    float | None,
    typer.Option(
        "--occupied", metavar="SHARE", help="About which share of the cells has rows, if public."
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Say of every other method why it is not recommended.")
]


def recommend(
    schema: options.SchemaFile,
    rows: Rows,
    use: UseOfTable = "questions",
    epsilon: Epsilon = None,
    care: Care = None,
    delta: Delta = None,
    attributes: Attributes = None,
    queries: Queries = None,
    neighbours: options.Neighbours = "replace",
    occupied: Occupied = None,
    show_all: All = False,
    as_json: options.Json = False,
) -> None:
    """Say which method to publish with, why, and the error to expect.

    Reads no data and spends nothing.
    """
    from scumble.private.recommend import CARE_LEVELS, recommend

    levels = {level.name: level for level in CARE_LEVELS}
    if (epsilon is None) == (care is None):
        raise ParameterError("Give either --epsilon or --care, which stands for an epsilon.")
    if care is not None and care not in levels:
        raise ParameterError.of("recommend", "care", f"one of {', '.join(levels)}", care)
    strength = epsilon if care is None else levels[care].epsilon
    with bars.working("Computing errors"):
        advice = recommend(
            schema,
            rows=rows,
            use=use,  # type: ignore[arg-type]  # checked there
            epsilon=strength,  # type: ignore[arg-type]  # one of them is given
            delta=delta,
            attributes=None if attributes is None else options.columns(attributes),
            queries=queries,
            neighbours=neighbours,  # type: ignore[arg-type]  # checked there
            occupied=occupied,
        )
    if as_json:
        console.print_json(
            {
                "best": _fields(advice.best, schema),
                "alternatives": [_fields(each, schema) for each in advice.alternatives],
                "not recommended": dict(advice.not_recommended),
            }
        )
        return
    if care is not None:
        console.echo(levels[care].sentence)
    console.echo(advice.text(schema=str(schema), reasons=show_all))


def _fields(found: Any, schema: Path) -> dict[str, Any]:
    """Return a recommendation as JSON values, with its command."""
    fields = asdict(found)
    plain = {k: str(v) if isinstance(v, Path) else v for k, v in found.parameters.items()}
    return {**fields, "parameters": plain, "command": found.command(schema=str(schema))}
