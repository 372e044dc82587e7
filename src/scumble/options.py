"""Options of the command line that need more than a word of explanation, or that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import scumble
from scumble.console import settings


def _remember_json(context: typer.Context, value: bool) -> bool:
    # Errors have to know it too, and they are told outside of the command.
    settings(context).json = value
    return value


def _method_names() -> list[str]:
    return list(scumble.mechanisms())


# --- shared --------------------------------------------------------------------------------------

Json = Annotated[
    bool, typer.Option("--json", help="Print JSON for a program.", callback=_remember_json)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Table = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", help="The table to read in a DuckDB file."),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="CSV (also .gz), Parquet (file, folder or 'glob*'), or a DuckDB file with --table.",
    ),
]
ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE", help="Folder of a release.")]

# --- schema infer --------------------------------------------------------------------------------

Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", metavar="COLUMN", help="A column to protect; repeatable."),
]
Identifier = Annotated[
    list[str] | None,
    typer.Option("--identifier", metavar="COLUMN", help="A column never to publish; repeatable."),
]
Insensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--insensitive",
        metavar="COLUMN",
        help="A column that neither identifies nor needs protection; repeatable.",
    ),
]
SchemaOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: stdout]"),
]

# --- publish -------------------------------------------------------------------------------------

SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="uniform or histogram: see `scumble methods`.",
        autocompletion=_method_names,
    ),
]
ReleaseOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the release.")
]
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss of one person."),
]
Gamma = Annotated[
    float | None,
    typer.Option("--gamma", metavar="NUMBER", help="uniform: amplification, e to the epsilon."),
]
Keep = Annotated[
    float | None,
    typer.Option("--keep", metavar="SHARE", help="uniform: probability to keep a value."),
]
Rho1 = Annotated[
    float | None,
    typer.Option("--rho1", metavar="SHARE", help="uniform: a prior of at most this ..."),
]
Rho2 = Annotated[
    float | None,
    typer.Option("--rho2", metavar="SHARE", help="... ends at most here; goes with --rho1."),
]
Compound = Annotated[
    bool | None,
    typer.Option(
        "--compound/--each",
        help="uniform: perturb several sensitive columns as one value, or each (the default).",
        show_default=False,
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="histogram: what to count by, as age,sex; may be repeated.",
    ),
]
Neighbours = Annotated[
    str | None,
    typer.Option("--neighbours", metavar="RELATION", help="histogram: replace or add_remove."),
]
Contribution = Annotated[
    int | None,
    typer.Option("--contribution", metavar="ROWS", help="histogram: most rows of one person."),
]
Person = Annotated[
    str | None,
    typer.Option("--person", metavar="COLUMN", help="histogram: identifier that names people."),
]
Outside = Annotated[
    str,
    typer.Option(
        "--outside", metavar="CHOICE", help="A value outside its domain: error, drop or missing."
    ),
]
Reveal = Annotated[bool, typer.Option("--reveal", help="Let messages quote private values.")]
InsecureSeed = Annotated[
    int | None,
    typer.Option(
        "--insecure-seed", metavar="NUMBER", help="Draw from a fixed seed. NOT PRIVATE; for tests."
    ),
]

# --- query ---------------------------------------------------------------------------------------

Sql = Annotated[
    str | None, typer.Argument(metavar="SQL", help="The question; - reads it from stdin.")
]
SqlFile = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the question from a file.")
]
SideTables = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="NAME=FILE", help="A public side table (CSV or Parquet); repeatable."
    ),
]
Level = Annotated[
    float,
    typer.Option("--level", metavar="SHARE", help="Probability that an interval holds the truth."),
]
Clamp = Annotated[
    bool, typer.Option("--clamp", help="Cut answers to what is possible (adds bias).")
]

# --- demo ----------------------------------------------------------------------------------------

DemoFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for what the demo makes.")
]
People = Annotated[
    int,
    typer.Option("--people", "-n", metavar="NUMBER", help="How many fictitious people.", min=1),
]
Report = Annotated[
    bool,
    typer.Option("--report/--no-report", help="Write a page with plots.", show_default=False),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]
