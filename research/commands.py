"""Commands that repeat the experiments of papers, and say where the results differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from research import printing
from research.cli_dpbench import dpbench, marginals
from research.cli_papers import alpha_beta, aroma, small_domain
from scumble.cli import console, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.relaxation.experiments import Row, Study

app = console.group("Repeat the experiments of papers.")

app.command("alpha-beta")(alpha_beta)
app.command("aroma")(aroma)
app.command("dpbench")(dpbench)
app.command("marginals")(marginals)
app.command("small-domain")(small_domain)

Quick = Annotated[
    bool, typer.Option("--quick", help="A tenth of the queries and of the noise: under a minute.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="Folder for figures and results."),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="A table to ask about, in place of a made-up one."),
]
Columns = Annotated[
    str,
    typer.Option("--columns", metavar="NAMES", help="Columns of that table, with commas between."),
]


@app.command("relaxation")
def relaxation(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = "age,education,occupation,income",
    as_json: options.Json = False,
) -> None:
    """Query relaxation in a statistical database: figures 11 to 16 of its paper.

    The results are for the owner of the table; they hold true counts, which no promise covers.
    """
    from research.relaxation.experiments import FULL, QUICK, Laboratory, study
    from research.relaxation.panels import panels
    from research.relaxation.survey import read, synthetic
    from research.relaxation.verdicts import verdicts

    scale = QUICK if quick else FULL
    names = [name.strip() for name in columns.split(",")]
    survey = synthetic(scale.people) if data is None else read(data, names)
    found: Study = {}
    with console.steps() as step:
        for name, rows in study(Laboratory(survey, scale, step)):
            found[name] = rows
    said = list(verdicts(found, scale))
    if output is not None:
        printing.save("relaxation", found, said, panels, output)
    if not as_json:
        found["figure 11"] = _ends(found["figure 11"])
    printing.report(found, said, as_json=as_json)


def _ends(rows: Sequence[Row]) -> list[Row]:
    """The last point of every curve."""
    last = {(row["centres"], row["tracker"], row["θ"]): row for row in rows}
    return list(last.values())
