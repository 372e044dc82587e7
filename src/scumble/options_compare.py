"""Options of the command that compares methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="The private table, as for publish; none with --private-preview.",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
Methods = Annotated[
    list[str],
    typer.Option(
        "--methods", "-m", metavar="NAMES", help="What to compare, as uniform,subset,histogram."
    ),
]
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBERS",
        help="Privacy losses, as 0.5,1,2; methods that take none get comparable settings.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="METHOD:NAME=VALUES",
        help="Settings of one method in place of those for --epsilon, as aroma:k=5,20; repeatable.",
    ),
]
Workload = Annotated[
    str,
    typer.Option(
        "--workload",
        "-w",
        metavar="FILE",
        help="Your questions as a file of SQL; or conjunctions, selections, marginals, ranges, "
        "prefixes:COLUMN, intervals:COLUMN.",
    ),
]
Questions = Annotated[
    int,
    typer.Option("--questions", metavar="NUMBER", min=1, help="How many a generator makes."),
]
Repeats = Annotated[
    int,
    typer.Option("--repeats", metavar="NUMBER", min=1, help="How often each setting is published."),
]
Measure = Annotated[
    str,
    typer.Option(
        "--measure", metavar="NAME", help="Of the error: relative, median, absolute or root."
    ),
]
Neighbours = Annotated[
    str,
    typer.Option("--neighbours", metavar="RELATION", help="Of summaries: replace or add_remove."),
]
Page = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The page (.html); CSV and JSON lie beside it."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="NUMBER",
        min=1,
        help="Processes that make releases; as many as there are processors, if none is said. The "
        "results are the same.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with what an earlier run wrote there.")
]
Preview = Annotated[
    bool,
    typer.Option(
        "--private-preview", help="Compare on a synthetic stand-in; no private row is read."
    ),
]
Rows = Annotated[
    int, typer.Option("--rows", "-n", metavar="NUMBER", min=1, help="Rows of the stand-in.")
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="NUMBER", min=0, help="Of the questions and of the stand-in."),
]
Outside = Annotated[
    str,
    typer.Option("--outside", metavar="CHOICE", help="Stray values: error, drop or missing."),
]
