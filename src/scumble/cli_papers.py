"""Commands that repeat the experiments of the papers on publishers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble import console, listing_study, options
from scumble.errors import ParameterError

if TYPE_CHECKING:
    from scumble.evaluate.people import People
    from scumble.evaluate.verdicts import Verdict
    from scumble.plot import Panel

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
    from scumble.evaluate import alpha_beta as experiment
    from scumble.evaluate.alpha_beta_report import panels, verdicts

    scale = experiment.QUICK if quick else experiment.FULL
    table = _people(data, columns, experiment.COLUMNS, experiment.MADE_UP, scale.people)

    def study(step: Step) -> Study:
        return dict(experiment.study(experiment.Laboratory(table, scale, step)))

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
    from scumble.evaluate import small_domain as experiment
    from scumble.evaluate.small_domain_report import panels, verdicts

    scale = experiment.QUICK if quick else experiment.FULL
    table = _people(data, columns, experiment.COLUMNS, experiment.MADE_UP, scale.people)
    even = balanced or ("occupation" if data is None else experiment.BALANCED)
    uneven = skewed or experiment.SKEWED
    for name in (even, uneven):
        if name not in table.names:
            known = f"among the columns {', '.join(table.names)}"
            raise ParameterError.of("reproduce", "balanced and skewed", known, name)

    def study(step: Step) -> Study:
        laboratory = experiment.Laboratory(table, scale, step, even=even, skewed=uneven)
        return dict(experiment.study(laboratory))

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
    from scumble.evaluate import aroma as experiment
    from scumble.evaluate.aroma_panels import panels
    from scumble.evaluate.aroma_report import verdicts

    scale = experiment.QUICK if quick else experiment.FULL
    table = _people(data, columns, experiment.COLUMNS, experiment.MADE_UP, scale.people)
    if len(table.names) != 2:
        known = "two names: an age, and a sensitive column"
        raise ParameterError.of("reproduce", "columns", known, columns)

    def study(step: Step) -> Study:
        return dict(experiment.study(experiment.Laboratory(table, scale, step)))

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
            listing_study.save(self.name, found, said, self.panels, output)
        listing_study.report(found, said, as_json=as_json, hidden=self.hidden)


def _people(
    data: str | None, columns: str | None, known: Sequence[str], made_up: Sequence[str], count: int
) -> People:
    """The columns asked for, or those of the experiment, of a table or of made-up people."""
    from scumble.evaluate import people

    names = None if columns is None else [name.strip() for name in columns.split(",")]
    if data is None:
        return people.fictitious(count, names or made_up)
    return people.read(data, names or known)
