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
        metavar="FILE|NAME",
        help="Your questions as a file of SQL; or a generator: breakdowns, conjunctions, "
        "selections, marginals, ranges, prefixes:COLUMN, intervals:COLUMN; with options as "
        "conjunctions:ways=3,floor=0.001, marginals:ways=2, ranges:volume=0.1,centres=data.",
    ),
]
Questions = Annotated[
    str | None,
    typer.Option(
        "--questions",
        metavar="NUMBER|all",
        help="How many a generator makes; 30 with groups or 400 single ones, if nothing is said.",
        show_default=False,
    ),
]
Repeats = Annotated[
    int,
    typer.Option("--repeats", metavar="NUMBER", min=1, help="How often each setting is published."),
]
Measure = Annotated[
    str,
    typer.Option(
        "--measure",
        metavar="NAME",
        help="The error on the axis: relative, median, unbounded (without sanity bound), absolute, "
        "root, squared, marginal (L1 of tables), alpha, beta or rho; the files have all.",
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
    typer.Option(
        "--seed",
        metavar="NUMBER",
        min=0,
        help="Of the questions, the releases and the stand-in: the same comparison again.",
    ),
]
Outside = Annotated[
    str,
    typer.Option("--outside", metavar="CHOICE", help="Stray values: error, drop or missing."),
]
