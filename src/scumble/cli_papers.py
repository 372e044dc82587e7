"""Commands that repeat the experiments of the papers on publishers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scumble import console, listing_study, options
from scumble.errors import ParameterError

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
    from scumble.evaluate import alpha_beta_report, people
    from scumble.evaluate.alpha_beta import COLUMNS, FULL, MADE_UP, QUICK, Laboratory, study

    scale = QUICK if quick else FULL
    if data is None:
        table = people.fictitious(scale.people, _names(columns) or MADE_UP)
    else:
        table = people.read(data, _names(columns) or COLUMNS)
    with console.steps() as step:
        found = dict(study(Laboratory(table, scale, step)))
    said = list(alpha_beta_report.verdicts(found))
    if output is not None:
        listing_study.save("alpha-beta", found, said, alpha_beta_report.panels, output)
    listing_study.report(found, said, as_json=as_json, hidden=("figure 2",))


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
    from scumble.evaluate import people, small_domain_report
    from scumble.evaluate import small_domain as experiment

    scale = experiment.QUICK if quick else experiment.FULL
    if data is None:
        table = people.fictitious(scale.people, _names(columns) or experiment.MADE_UP)
        even = balanced or "occupation"
    else:
        table = people.read(data, _names(columns) or experiment.COLUMNS)
        even = balanced or experiment.BALANCED
    uneven = skewed or experiment.SKEWED
    for name in (even, uneven):
        if name not in table.names:
            known = f"among the columns {', '.join(table.names)}"
            raise ParameterError.of("reproduce", "balanced and skewed", known, name)
    with console.steps() as step:
        laboratory = experiment.Laboratory(table, scale, step, even=even, skewed=uneven)
        found = dict(experiment.study(laboratory))
    said = list(small_domain_report.verdicts(found))
    if output is not None:
        listing_study.save("small-domain", found, said, small_domain_report.panels, output)
    listing_study.report(found, said, as_json=as_json, hidden=("figure 3",))


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
    from scumble.evaluate import people
    from scumble.evaluate.aroma_panels import panels
    from scumble.evaluate.aroma_report import verdicts

    scale = experiment.QUICK if quick else experiment.FULL
    names = _names(columns) or (experiment.MADE_UP if data is None else experiment.COLUMNS)
    if len(names) != 2:
        known = "two names: an age, and a sensitive column"
        raise ParameterError.of("reproduce", "columns", known, columns)
    table = people.fictitious(scale.people, names) if data is None else people.read(data, names)
    with console.steps() as step:
        found = dict(experiment.study(experiment.Laboratory(table, scale, step)))
    said = list(verdicts(found))
    if output is not None:
        listing_study.save("aroma", found, said, panels, output)
    listing_study.report(found, said, as_json=as_json)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))
