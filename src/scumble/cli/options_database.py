"""Options of the commands of the statistical database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the database.")]

# --- what is promised ----------------------------------------------------------------------------

Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon", "-e", metavar="NUMBER", help="Privacy loss by all answers together, forever."
    ),
]
Noise = Annotated[
    float,
    typer.Option("--noise", "-l", metavar="NUMBER", help="Mean size of the noise of one count."),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="What can be asked about, as age,sex; may be repeated.  [default: all]",
    ),
]
Tracker = Annotated[
    str,
    typer.Option(
        "--tracker",
        metavar="CHOICE",
        help="How answers are counted at each point: auto, exact, histogram or disjoint.",
    ),
]
Buckets = Annotated[
    int, typer.Option("--buckets", metavar="NUMBER", help="Most buckets of the histogram tracker.")
]
Relax = Annotated[
    int,
    typer.Option(
        "--relax", metavar="NUMBER", help="Most answers that a relaxed one is made of; 0 for none."
    ),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota", metavar="ANALYST=EPSILON", help="An analyst's part of epsilon; repeatable."
    ),
]

# --- asking --------------------------------------------------------------------------------------

PrivateSource = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="SOURCE",
        envvar="SCUMBLE_SOURCE",
        help="The private table; its place is never written down.",
    ),
]
Batches = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        metavar="SOURCE",
        envvar="SCUMBLE_BATCHES",
        help="Rows that were added later, as FILE or FILE::TABLE; all, in their order.",
    ),
]
SameSchema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="Refuse to ask if the database has another schema.  [default: its own]",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="Idempotency key: asked again with it, answered once."
    ),
]
AppendKey = Annotated[
    str | None,
    typer.Option("--key", metavar="TEXT", help="Idempotency key: added again with it, added once."),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Add rows although the database has the same: they are other people."
    ),
]
Analyst = Annotated[
    str | None, typer.Option("--analyst", metavar="NAME", help="Who asks, for quotas and history.")
]
Manner = Annotated[
    str,
    typer.Option(
        "--relax",
        metavar="CHOICE",
        help="When the promise is used up: regression, compound or refuse.",
    ),
]
Prefer = Annotated[
    str,
    typer.Option(
        "--prefer",
        metavar="CHOICE",
        help="near: a box nearby, with a small error; exact: the box itself, with a larger one.",
    ),
]
MostError = Annotated[
    float,
    typer.Option(
        "--max-relaxation-error",
        metavar="NUMBER",
        help="Refuse what is further from the question than this share of the ranges.",
        show_default=False,
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="COLUMN=NUMBER",
        help="How much it matters that the limits of a column move (1 by default); repeatable.",
    ),
]

# --- reading -------------------------------------------------------------------------------------

Last = Annotated[
    int | None,
    typer.Option("--last", "-n", metavar="NUMBER", help="Only so many, the latest.", min=1),
]
Two = Annotated[
    str | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="Map of two columns, as age,income.  [default: the capacity curve]",
    ),
]
Picture = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="A .png or .svg to write.")
]
