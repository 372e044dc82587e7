"""Options of the releases that measure attributes along axes: trees and wavelets."""

from __future__ import annotations

from typing import Annotated

import typer

Fanout = Annotated[
    int | None,
    typer.Option("--fanout", metavar="NUMBER", help="hierarchy: children of a node of its trees."),
]
Root = Annotated[
    bool | None, typer.Option("--root", help="hierarchy: also measure the count of everything.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="CHOICE", help="hierarchy: by level, uniform or optimal."),
]
TransformChoice = Annotated[
    str | None,
    typer.Option(
        "--transform", metavar="CHOICE", help="wavelet: which attributes, large ones or all."
    ),
]
TaxonomyFile = Annotated[
    str | None,
    typer.Option(
        "--taxonomy",
        metavar="FILE",
        help="hierarchy, wavelet: JSON with values in nested lists, by attribute.",
    ),
]
