"""Commands that repeat the experiments of papers, and say where the results differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble import console, options
from scumble.cli_dpbench import dpbench, marginals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scumble.evaluate.relaxation import Row, Study

app = typer.Typer(
    help="Repeat the experiments of papers.", no_args_is_help=True, rich_markup_mode=None
)

app.command("dpbench")(dpbench)
app.command("marginals")(marginals)

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
    from scumble.evaluate.relaxation import FULL, QUICK, Laboratory, study
    from scumble.evaluate.survey import read, synthetic
    from scumble.evaluate.verdicts import verdicts

    scale = QUICK if quick else FULL
    names = [name.strip() for name in columns.split(",")]
    survey = synthetic(scale.people) if data is None else read(data, names)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    found: Study = {}
    with console.steps() as step:
        for name, rows in study(Laboratory(survey, scale, step)):
            found[name] = rows
    said = list(verdicts(found, scale))
    if output is not None:
        _save(found, list(map(str, said)), output)
    if as_json:
        console.print_json({"rows": found, "verdicts": [vars(each) for each in said]})
        return
    for name, rows in found.items():
        _show(name, _ends(rows) if name == "figure 11" else rows)
    for each in said:
        typer.echo(f"- {each}")


def _save(found: Study, said: Sequence[str], output: Path) -> None:
    """Rows, verdicts and, where the plotting library is there, figures."""
    from scumble.evaluate.panels import panels
    from scumble.plot import MISSING, available

    text = json.dumps({"rows": found, "verdicts": said}, indent=1, ensure_ascii=False)
    (output / "relaxation.json").write_text(text + "\n", encoding="utf-8")
    if not available():
        console.say(f"No figures: {MISSING}")
        return
    from scumble.plot import curves, png, svg

    for name, rows in found.items():
        drawn = panels(name, rows)
        if drawn:
            figure, path = curves(drawn), output / name.replace(" ", "-")
            path.with_suffix(".png").write_bytes(png(figure))
            path.with_suffix(".svg").write_text(svg(figure), encoding="utf-8")
    console.say(f"Wrote {output}.")


def _ends(rows: Sequence[Row]) -> list[Row]:
    """The last point of every curve."""
    last = {(row["centres"], row["tracker"], row["θ"]): row for row in rows}
    return list(last.values())


def _show(name: str, rows: Sequence[Row]) -> None:
    from rich.table import Table

    table = Table(title=name.capitalize(), title_justify="left", title_style="bold")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console.stdout().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
