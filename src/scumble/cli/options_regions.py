"""Options of the releases that count boxes: trees and grids."""

from __future__ import annotations

from typing import Annotated

import typer

Height = Annotated[
    int | None,
    typer.Option("--height", metavar="NUMBER", help="quadtree, kdtree: levels below the domain."),
]
Cuts = Annotated[
    int | None,
    typer.Option("--cuts", metavar="NUMBER", help="kdtree: levels that are cut near medians."),
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="CHOICE", help="kdtree: cuts at a median or a noisy_mean."),
]
Prune = Annotated[
    int | None,
    typer.Option(
        "--prune", metavar="ROWS", help="quadtree, kdtree: nodes with fewer count as leaves."
    ),
]
Adaptive = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--uniform",
        help="grid: refine the grid where rows are (the default), or have one grid only.",
        show_default=False,
    ),
]
