"""The command `scumble db quota`: what analysts may use of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scumble.cli import console, options
from scumble.model.errors import ParameterError

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the database.")]
QuotaAnalyst = Annotated[
    str | None, typer.Argument(metavar="[ANALYST]", help="Whose quota.  [default: show all]")
]
QuotaEpsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="The analyst's part of epsilon."),
]
QuotaEnd = Annotated[bool, typer.Option("--end", help="End the quota of the analyst.")]


def quota(
    folder: Folder,
    analyst: QuotaAnalyst = None,
    epsilon: QuotaEpsilon = None,
    end: QuotaEnd = False,
    as_json: options.Json = False,
) -> None:
    """Show the quotas of analysts, or give, change or end one.

    It is an entry of the journal; a running server follows it. A quota cannot be below what the
    analyst was charged already.
    """
    from scumble.cli import shell
    from scumble.private.database.inspect import DatabaseInspection

    if (analyst is None) != (epsilon is None and not end) or (end and epsilon is not None):
        raise ParameterError(
            "Give an analyst and --epsilon, an analyst and --end, or neither to see all quotas."
        )
    with DatabaseInspection(folder) as reading:
        if analyst is not None:
            reading.set_quota(analyst, epsilon)
        found = reading.usage()
    if as_json:
        console.print_json(found)
    else:
        shell.show_usage(found)
