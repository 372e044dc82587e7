"""Commands that repeat the experiments of the papers on publishers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research import printing
from scumble.cli import console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from research.people import People
    from research.relaxation.verdicts import Verdict
    from scumble.public.plot.curves_part import Panel

Row = dict[str, Any]
Study = dict[str, list[Row]]
Step = Callable[[str], None]

Quick = Annotated[bool, typer.Option("--quick", help="Fewer settings and runs: under a minute.")]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="Folder for figures and results."),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="A table to publish, in place of a made-up one."),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Columns of that table, with commas between."),
]

Balanced = Annotated[
    str | None,
    typer.Option("--balanced", metavar="COLUMN", help="The sensitive column of figures 2 and 3."),
]
Skewed = Annotated[
    str | None,
    typer.Option("--skewed", metavar="COLUMN", help="The sensitive column of figure 4."),
]


def alpha_beta(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = None,
    as_json: options.Json = False,
) -> None:
    """The αβ algorithm against FRAPP: section 5 of its paper, all selections by up to 3 columns.

    The columns are those of Adult, if none are named. The results are for the owner of the table:
    they hold true counts, which no promise covers.
    """
    from research import alpha_beta
    from research.alpha_beta_report import panels, verdicts

    scale = alpha_beta.QUICK if quick else alpha_beta.FULL
    table = _people(data, columns, alpha_beta.COLUMNS, alpha_beta.MADE_UP, scale.people)

    def study(step: Step) -> Study:
        return dict(alpha_beta.study(alpha_beta.Laboratory(table, scale, step)))

    paper = Paper("alpha-beta", study, verdicts, panels, hidden=("figure 2",))
    paper.repeat(output, as_json=as_json)


def small_domain(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = None,
    balanced: Balanced = None,
    skewed: Skewed = None,
    as_json: options.Json = False,
) -> None:
    """Perturbation partitioning against uniform perturbation and Anatomy: section 6 of its paper.

    The columns are those of the stand-in for its census, if none are named. The results are for the
    owner of the table: they hold true counts, which no promise covers.
    """
    from research import small_domain
    from research.small_domain_report import panels, verdicts

    scale = small_domain.QUICK if quick else small_domain.FULL
    table = _people(data, columns, small_domain.COLUMNS, small_domain.MADE_UP, scale.people)
    even = balanced or ("occupation" if data is None else small_domain.BALANCED)
    uneven = skewed or small_domain.SKEWED
    for name in (even, uneven):
        if name not in table.names:
            known = f"among the columns {', '.join(table.names)}"
            raise ParameterError.of("reproduce", "balanced and skewed", known, name)

    def study(step: Step) -> Study:
        laboratory = small_domain.Laboratory(table, scale, step, even=even, skewed=uneven)
        return dict(small_domain.study(laboratory))

    paper = Paper("small-domain", study, verdicts, panels, hidden=("figure 3", "figure 6"))
    paper.repeat(output, as_json=as_json)


def aroma(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = None,
    as_json: options.Json = False,
) -> None:
    """Aroma: section 6 of its paper, and the same comparisons at equal exposure.

    The columns are an age and a sensitive one, those of Adult if none are named. The results are
    for the owner of the table: they hold true counts, which no promise covers.
    """
    from research.aroma import experiments
    from research.aroma.panels import panels
    from research.aroma.report import verdicts

    scale = experiments.QUICK if quick else experiments.FULL
    table = _people(data, columns, experiments.COLUMNS, experiments.MADE_UP, scale.people)
    if len(table.names) != 2:
        known = "two names: an age, and a sensitive column"
        raise ParameterError.of("reproduce", "columns", known, columns)

    def study(step: Step) -> Study:
        return dict(experiments.study(experiments.Laboratory(table, scale, step)))

    Paper("aroma", study, verdicts, panels).repeat(output, as_json=as_json)


@dataclass(frozen=True)
class Paper:
    """The experiments of a paper: how they are run, judged and drawn, and the tables that are too
    long to print.
    """

    name: str
    study: Callable[[Step], Study]
    verdicts: Callable[[Study], Iterable[Verdict]]
    panels: Callable[[str, Sequence[Row]], list[Panel]]
    hidden: tuple[str, ...] = ()

    def repeat(self, output: Path | None, *, as_json: bool) -> None:
        with console.steps() as step:
            found = self.study(step)
        said = list(self.verdicts(found))
        if output is not None:
            printing.save(self.name, found, said, self.panels, output)
        printing.report(found, said, as_json=as_json, hidden=self.hidden)


def _people(
    data: str | None, columns: str | None, known: Sequence[str], made_up: Sequence[str], count: int
) -> People:
    """The columns asked for, or those of the experiment, of a table or of made-up people."""
    from research import people

    names = None if columns is None else [name.strip() for name in columns.split(",")]
    if data is None:
        return people.fictitious(count, names or made_up)
    return people.read(data, names or known)
