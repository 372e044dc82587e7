"""Options of the command line that need more than a word of explanation, or that commands share."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from scumble.cli.console import settings
from scumble.model.errors import ParameterError


def _remember_json(context: typer.Context, value: bool) -> bool:
    # Errors have to know it too, and they are told outside of the command.
    settings(context).json = value
    return value


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
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
Seal = Annotated[
    str | None,
    typer.Option(
        "--seal", metavar="TEXT", help="What verify said at an earlier time: a number and a hash."
    ),
]
ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE", help="Folder of a release.")]

# --- schema infer --------------------------------------------------------------------------------

Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", metavar="COLUMNS", help="Columns to protect, as A,B; repeatable."),
]
Identifier = Annotated[
    list[str] | None,
    typer.Option("--identifier", metavar="COLUMNS", help="Columns never to publish; repeatable."),
]
Insensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--insensitive",
        metavar="COLUMNS",
        help="Columns that neither identify nor need protection; repeatable.",
    ),
]
SchemaOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: stdout]"),
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


def columns(given: list[str] | None) -> list[str]:
    """Columns that were named one by one or as A,B; a name with a comma stands in double quotes.

    >>> columns(["age,sex", '"Weight, kg"'])
    ['age', 'sex', 'Weight, kg']
    """
    lines = csv.reader(given or (), skipinitialspace=True)
    return [name.strip() for line in lines for name in line if name.strip()]


def question(sql: str | None, file: Path | None) -> str:
    """The SQL text, from the one place that was named."""
    if (sql is None) == (file is None):
        raise ParameterError("Give the question as one argument, as - for stdin, or with --file.")
    if file is None:
        return sys.stdin.read() if sql == "-" else str(sql)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParameterError(f"The file '{file}' is not UTF-8 text.") from None
    except OSError as error:
        raise ParameterError(f"The file '{file}' cannot be read: {error.strerror}.") from None
