"""Options of `scumble audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Subject = Annotated[
    str | None,
    typer.Argument(metavar="[SUBJECT]", help="Folder of a release or a database, or a table."),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
K = Annotated[
    float | None,
    typer.Option("--k", metavar="NUMBER", help="Table: k-anonymity claimed. Method: its k."),
]
L = Annotated[
    int | None,
    typer.Option("--l", metavar="NUMBER", help="Table: l-diversity claimed. Method: its l."),
]
T = Annotated[
    float | None, typer.Option("--t", metavar="NUMBER", help="Table: t-closeness claimed.")
]
Known = Annotated[
    list[str] | None,
    typer.Option(
        "--known",
        metavar="COLUMNS",
        help="Release: what an attacker knows of people: age,sex.",
    ),
]
Worst = Annotated[
    int, typer.Option("--worst", metavar="NUMBER", help="Release: so many of the worst-off people.")
]
Method = Annotated[
    str | None,
    typer.Option("--method", "-m", metavar="NAME", help="A method that publishes rows."),
]
Values = Annotated[
    int, typer.Option("--values", metavar="NUMBER", help="Method: sensitive values to hide among.")
]
Claim = Annotated[
    float | None,
    typer.Option("--claim-epsilon", metavar="NUMBER", help="Method: the epsilon claimed for it."),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Method: any other parameter."),
]
Runs = Annotated[
    int, typer.Option("--runs", metavar="NUMBER", help="Runs, or games, for each test.")
]
Everything = Annotated[bool, typer.Option("--all", help="The whole catalogue of methods.")]
Page = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Certificate as one HTML page."),
]
