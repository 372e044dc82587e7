"""How the repeated experiments of a paper are shown and kept: tables, figures and verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scumble.cli import console

if TYPE_CHECKING:
    from research.relaxation.verdicts import Verdict
    from scumble.public.plot.figures import Panel

Row = dict[str, Any]


def report(
    found: Mapping[str, Sequence[Row]],
    said: Sequence[Verdict],
    *,
    as_json: bool,
    hidden: Collection[str] = (),
) -> None:
    """All tables but the hidden ones, and a line for each verdict; or both for a program."""
    if as_json:
        console.print_json({"rows": found, "verdicts": [vars(each) for each in said]})
        return
    for name, rows in found.items():
        if name not in hidden:
            show(name, rows)
    for each in said:
        typer.echo(f"- {each}")


def save(
    name: str,
    found: Mapping[str, Sequence[Row]],
    said: Sequence[Verdict],
    panels: Callable[[str, Sequence[Row]], list[Panel]],
    output: Path,
) -> None:
    """Rows, verdicts and, where the plotting library is there, figures."""
    from scumble.public.plot.figures import MISSING, available

    output.mkdir(parents=True, exist_ok=True)
    content = {"rows": found, "verdicts": list(map(str, said))}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (output / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    if not available():
        console.say(f"No figures: {MISSING}")
        return
    from scumble.public.plot import curves
    from scumble.public.plot.figures import png, svg

    for title, rows in found.items():
        drawn = panels(title, rows)
        if drawn:
            figure, path = curves(drawn), output / title.replace(",", "").replace(" ", "-")
            path.with_suffix(".png").write_bytes(png(figure))
            path.with_suffix(".svg").write_text(svg(figure), encoding="utf-8")
    console.say(f"Wrote {output}.")


def show(name: str, rows: Sequence[Row]) -> None:
    """One table."""
    from rich.table import Table

    table = Table(title=name[:1].upper() + name[1:], title_justify="left", title_style="bold")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console.stdout().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
