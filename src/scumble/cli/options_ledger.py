"""Options of the commands of the owner's ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of a ledger.")]

# --- creating ------------------------------------------------------------------------------------

Neighbours = Annotated[
    str,
    typer.Option(
        "--neighbours",
        metavar="RELATION",
        help="What is protected of a person: values (of --sensitive columns), replace (what all "
        "columns say), or add_remove (also that they are there).",
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBER",
        help="What one person may lose in all.  [default: no limit]",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="Allows Gaussian noise; goes with --epsilon."),
]
Pure = Annotated[
    float | None,
    typer.Option(
        "--pure",
        metavar="NUMBER",
        help="Part of --epsilon to keep for releases without delta, if there will be both.",
    ),
]
Contribution = Annotated[
    int, typer.Option("--contribution", metavar="ROWS", help="Most rows of one person.")
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--sensitive",
        metavar="COLUMNS",
        help="With --neighbours values: the columns, as income,condition; may be repeated.",
    ),
]
Parts = Annotated[
    str | None,
    typer.Option(
        "--parts",
        metavar="COLUMN",
        help="Column that divides the people, and never changes for one: see publish --part.",
    ),
]
Name = Annotated[
    str, typer.Option("--name", metavar="TEXT", help="Whose ledger it is, for people.")
]

# --- reading -------------------------------------------------------------------------------------

AnyDelta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="State the total for this.  [default: its own]"),
]
