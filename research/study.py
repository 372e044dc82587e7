"""What the experiments of all papers share: the types of their results, verdicts, scatter plots,
and how results are printed and saved.

A paper's experiments give a `Study`: a list of rows for each figure or table. Its `verdicts`
compare the rows with the sentences of the paper, and its `panels` draw them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import typer

from scumble.cli import bars, console
from scumble.public.plot import curves
from scumble.public.plot.figures import MISSING, Line, Panel, available, png, svg

Row = dict[str, Any]
Study = dict[str, list[Row]]
Step = Callable[[str], None]  # tells which step of an experiment begins
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """A sentence of a paper, or a goal of this project, compared with a measurement."""

    about: str  # the figure, table or section
    said: str
    measured: str
    agrees: bool
    because: str = ""  # the reason if they differ, where it is known

    def __str__(self) -> str:
        end = "agrees" if self.agrees else f"differs{self.because and ': ' + self.because}"
        return f"{self.about}: {self.said}; measured {self.measured}: {end}."


@dataclass(frozen=True)
class Paper:
    """The experiments of one paper.

    `study` runs them, `verdicts` compares the results with the paper, and `panels` returns the
    panels of the figure of a given name (none for a table). The results named in `hidden` are too
    long to be printed; those in `shortened` are printed after the function given there.
    """

    name: str
    study: Callable[[Step], Study]
    verdicts: Callable[[Study], Iterable[Verdict]]
    panels: Callable[[str, Sequence[Row]], list[Panel]]
    hidden: tuple[str, ...] = ()
    shortened: Mapping[str, Callable[[Sequence[Row]], list[Row]]] = field(default_factory=dict)

    def repeat(self, output: Path | None, *, as_json: bool) -> None:
        """Run the experiments, save the results in the folder `output` if one is given, and print
        them: as tables and one line a verdict, or as JSON.
        """
        with bars.steps() as step:
            found = self.study(step)
        said = list(self.verdicts(found))
        if output is not None:
            self._save(found, said, output)
        if as_json:
            console.print_json({"rows": found, "verdicts": [vars(each) for each in said]})
            return
        for name, rows in found.items():
            if name not in self.hidden:
                short = self.shortened.get(name)
                _print_table(name, rows if short is None else short(rows))
        for each in said:
            typer.echo(f"- {each}")

    def _save(self, found: Study, said: Sequence[Verdict], output: Path) -> None:
        """Write rows and verdicts as JSON and, where matplotlib is installed, all figures."""
        output.mkdir(parents=True, exist_ok=True)
        content = {"rows": found, "verdicts": list(map(str, said))}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (output / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        if not available():
            console.say(f"No figures: {MISSING}")
            return
        for title, rows in found.items():
            panels = self.panels(title, rows)
            if panels:
                figure, path = curves(panels), output / title.replace(",", "").replace(" ", "-")
                path.with_suffix(".png").write_bytes(png(figure))
                path.with_suffix(".svg").write_text(svg(figure), encoding="utf-8")
        console.say(f"Wrote {output}.")


def select(rows: Sequence[Row], /, **wanted: Any) -> list[Row]:
    """Return the rows whose fields have the given values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each method, in order of appearance."""
    return {name: select(rows, method=name) for name in dict.fromkeys(r["method"] for r in rows)}


_ROOM = 0.2  # for one short name on the right
_MARGIN = 0.03


def scatter_panels(rows: Sequence[Row], methods: Sequence[str]) -> list[Panel]:
    """Return a panel for each method with its estimates against the true answers.

    All panels have the same axes, so that they can be compared.
    """
    most = float(max(row["truth"] for row in rows))
    ends = [float(row["estimate"]) for row in rows] + [0.0, most]
    low, high = min(ends), max(ends)
    frame = low - _MARGIN * (high - low), high + _MARGIN * (high - low)
    found = []
    for style, method in enumerate(methods):
        part = select(rows, method=method)
        truth, estimates = ([row[key] for row in part] for key in ("truth", "estimate"))
        lines = [
            Line("", truth, estimates, style, dots=True),
            Line("perfect", [0.0, most], [0.0, most], bound=True),
        ]
        panel = Panel(
            method,
            "true answer",
            "estimate",
            lines,
            from_zero=False,
            frame=frame,
            label_space=_ROOM,
        )
        found.append(panel)
    return found


def _print_table(name: str, rows: Sequence[Row]) -> None:
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
