"""The commands of `python -m research`: they repeat the experiments of papers and the public
benchmarks, and say where the results differ from what was published.

Heavy imports wait until a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from research.people import People
    from research.study import Row, Step, Study

app = console.application("research", "Repeat the experiments of papers, and public benchmarks.")

Quick = Annotated[bool, typer.Option("--quick", help="Fewer settings and runs: under a minute.")]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="Folder for figures and results."),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="A table to use, in place of a made-up one."),
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
DataFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", help="Folder of the benchmark's files.")
]


@app.command("alpha-beta")
def alpha_beta(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = None,
    as_json: options.Json = False,
) -> None:
    """The αβ algorithm against FRAPP: section 5 of its paper, all selections by up to 3 columns.

    The columns are those of Adult, if none are named. The results are for the owner of the table:
    they hold true counts, which no guarantee covers.
    """
    from research import alpha_beta
    from research.study import Paper

    scale = alpha_beta.QUICK if quick else alpha_beta.FULL
    table = _people(data, columns, alpha_beta.COLUMNS, alpha_beta.MADE_UP, scale.people)

    def study(step: Step) -> Study:
        return dict(alpha_beta.study(alpha_beta.Laboratory(table, scale, step)))

    hidden = ("figure 2",)
    paper = Paper("alpha-beta", study, alpha_beta.verdicts, alpha_beta.panels, hidden)
    paper.repeat(output, as_json=as_json)


@app.command("small-domain")
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
    owner of the table: they hold true counts, which no guarantee covers.
    """
    from research import small_domain
    from research.small_domain_report import panels, verdicts
    from research.study import Paper

    scale = small_domain.QUICK if quick else small_domain.FULL
    table = _people(data, columns, small_domain.COLUMNS, small_domain.MADE_UP, scale.people)
    even = balanced or ("occupation" if data is None else small_domain.BALANCED)
    uneven = skewed or small_domain.SKEWED
    for name in (even, uneven):
        if name not in table.names:
            known = f"among the columns {', '.join(table.names)}"
            raise ParameterError.of("small-domain", "balanced and skewed", known, name)

    def study(step: Step) -> Study:
        laboratory = small_domain.Laboratory(table, scale, step, even=even, skewed=uneven)
        return dict(small_domain.study(laboratory))

    paper = Paper("small-domain", study, verdicts, panels, hidden=("figure 3", "figure 6"))
    paper.repeat(output, as_json=as_json)


@app.command("aroma")
def aroma(
    quick: Quick = False,
    output: Folder = None,
    data: Data = None,
    columns: Columns = None,
    as_json: options.Json = False,
) -> None:
    """Aroma: section 6 of its paper, and the same comparisons at equal exposure.

    The columns are an age and a sensitive one, those of Adult if none are named. The results are
    for the owner of the table: they hold true counts, which no guarantee covers.
    """
    from research.aroma import experiments, views
    from research.aroma.panels import panels
    from research.aroma.verdicts import verdicts
    from research.study import Paper

    scale = views.QUICK if quick else views.FULL
    table = _people(data, columns, views.COLUMNS, views.MADE_UP, scale.people)
    if len(table.names) != 2:
        known = "two names: an age, and a sensitive column"
        raise ParameterError.of("aroma", "columns", known, columns)

    def study(step: Step) -> Study:
        return dict(experiments.study(views.Laboratory(table, scale, step)))

    Paper("aroma", study, verdicts, panels).repeat(output, as_json=as_json)


@app.command("numbers")
def numbers(data: DataFolder, quick: Quick = False, as_json: options.Json = False) -> None:
    """Limits of amounts for budget, against the best limits, and averages of groups of money,
    against one sum for each group alone.
    """
    from dataclasses import asdict

    from research.numbers import (
        AMOUNTS,
        EPSILON,
        MOST,
        QUICK,
        RELEASES,
        SEEDS,
        TABLES,
        WANTED,
        study_averages,
        study_limits,
    )

    seeds, releases = (QUICK, QUICK) if quick else (SEEDS, RELEASES)
    found = [study_limits(data / file, column, seeds) for file, column in TABLES.items()]
    averages = [
        each
        for file, column, most in AMOUNTS
        for each in study_averages(data / file, column, most, releases)
    ]
    if as_json:
        console.print_json([asdict(each) for each in found] + [asdict(each) for each in averages])
        return
    console.echo(
        f"Error of a mean at ε = {EPSILON} with limits of private_limits at the same ε, as a "
        f"multiple of that with the best limits of the grid; {seeds} seeds, at most {MOST} wanted."
    )
    for each in found:
        console.echo(
            f"{each.table} {each.column} ({each.rows:,} rows): median {each.median:.2f}, 90 % "
            f"{each.worst_tenth:.2f}; mostly {list(each.usual)}, best {list(each.best)}"
        )
    console.echo(
        f"Half-width (95 %) of averages at ε = 1, as a multiple of that of the best sum of a group "
        f"alone with the same share of ε; {releases} releases each."
    )
    for average in averages:
        console.echo(
            f"{average.table} {average.column} by {average.groups} ({average.rows:,} rows): "
            f"{average.ratio:.2f}, at most {WANTED[average.groups]} wanted; ± "
            f"{100 * average.of_mean:.2g} % of the average; {100 * average.held:.3g} % hold"
        )


@app.command("relaxation")
def relaxation(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A tenth of the queries and of the noise: under a minute."),
    ] = False,
    output: Folder = None,
    data: Data = None,
    columns: Annotated[
        str, typer.Option("--columns", metavar="NAMES", help="Columns of that table, with commas.")
    ] = "age,education,occupation,income",
    as_json: options.Json = False,
) -> None:
    """Query relaxation in a statistical database: figures 11 to 16 of its paper.

    The results are for the owner of the table: they hold true counts, which no guarantee covers.
    """
    from research.relaxation import experiments
    from research.relaxation.panels import panels
    from research.relaxation.survey import read, synthetic
    from research.relaxation.verdicts import verdicts
    from research.study import Paper

    scale = experiments.QUICK if quick else experiments.FULL
    survey = synthetic(scale.people) if data is None else read(data, _names(columns) or ())

    def study(step: Step) -> Study:
        return dict(experiments.study(experiments.Laboratory(survey, scale, step)))

    judge = partial(verdicts, scale=scale)
    paper = Paper("relaxation", study, judge, panels, shortened={"figure 11": _last_points})
    paper.repeat(output, as_json=as_json)


@app.command("dpbench")
def dpbench(
    data: DataFolder,
    quick: Annotated[
        bool, typer.Option("--quick", help="Seven datasets, two scales, four trials of each.")
    ] = False,
    output: Folder = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", metavar="NAMES", help="Only these, with commas between."),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option("--datasets", metavar="NAMES", help="Only these, with commas between."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", metavar="NUMBER", min=1, help="Tables drawn of each shape."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="NUMBER", min=1, help="Releases of each table.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Errors of releases by DPBench's protocol: 1-D prefix sums and 2-D rectangles at ε = 0.1.

    Every release is made through its real mechanism. Ctrl-C ends it, and keeps what is done.
    """
    from research import dpbench_report
    from research.dpbench import FULL, QUICK

    given = {"draws": draws, "runs": runs, "methods": _names(methods), "datasets": _names(datasets)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    rows = _measured(data, replace(QUICK if quick else FULL, **chosen))
    if not rows:
        raise ParameterError("Nothing was measured: no method fits, or no dataset has that name.")
    said = dpbench_report.sentences(rows)
    if output is not None:
        dpbench_report.save(rows, said, output)
        console.say(f"Wrote {output}.")
    if as_json:
        console.print_json({"rows": rows, "verdicts": said})
        return
    console.stdout().print(dpbench_report.as_table(rows))
    for line in said:
        typer.echo(f"- {line}")


@app.command("generalise")
def generalise(
    data: DataFolder,
    large: Annotated[bool, typer.Option("--large", help="Also time 10^6 rows.")] = False,
    as_json: options.Json = False,
) -> None:
    """Generalisation of Adult: quality, time, errors of counts, and a check by pycanon."""
    from research.generalise import study

    lines = list(study(data, large=large))
    if as_json:
        console.print_json(lines)
        return
    for line in lines:
        numbers = (f"{key} {value:.4g}" for key, value in line.items() if key != "setting")
        typer.echo(f"{line['setting']}: {', '.join(numbers)}")


@app.command("honest")
def honest(
    data: DataFolder,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three datasets, one scale, one release of each.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="NUMBER", min=1, help="Releases of each table.")
    ] = None,
    replaced: Annotated[
        bool, typer.Option("--replace", help="Neighbours replace a person: n is published.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Coverage and half-width of intervals of 95 % where ranges cut boxes, at ε = 0.1, and where
    counts depend on groups of Anatomy and left-out cells of Sparse.

    Before: the noise alone (of Anatomy, the regression over groups alone). Now: with the least and
    the most that cut boxes, groups and left-out cells can hold. And how often the selector's choice
    has the shortest intervals.
    """
    from research import honest_report, honest_rows
    from research.honest import FULL, QUICK, study

    scale = QUICK if quick else FULL
    with bars.steps() as step:
        chosen = scale if runs is None else replace(scale, runs=runs)
        chosen = replace(chosen, neighbours="replace") if replaced else chosen
        cells = list(study(data, chosen, step, fixed=True))
        others = list(honest_rows.study(data, chosen, step))
    rows, said = honest_report.summary([*cells, *others]), honest_report.sentences(cells)
    if as_json:
        console.print_json({"rows": rows, "verdicts": said})
        return
    console.stdout().print(honest_report.as_table(rows))
    for line in said:
        typer.echo(f"- {line}")


@app.command("marginals")
def marginals(data: DataFolder, as_json: options.Json = False) -> None:
    """Errors of marginals and fourier: all pairs and triples of two real tables, at ε = 1."""
    from research.marginals import REFERENCE, as_table, marginal_benchmark

    with bars.steps() as step:
        rows = list(marginal_benchmark(data, step))
    _show(rows, as_table, as_json, reference=REFERENCE)


@app.command("live")
def live(data: DataFolder, quick: Quick = False, as_json: options.Json = False) -> None:
    """Errors of a live database after 10 to 2,000 questions on three real tables, at ε = 1."""
    from research.live import QUESTIONS, QUICK, as_table, study

    with bars.steps() as step:
        rows = list(study(data, QUICK if quick else QUESTIONS, step))
    _show(rows, as_table, as_json)


@app.command("sequences")
def sequences(
    data: DataFolder,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=2, help="Releases.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Sequences: errors of strings, and the most frequent ones, from rows of suffix trees."""
    from research.sequences import REFERENCE, as_table, study

    with bars.steps() as step:
        rows = list(study(data, step, seeds))
    _show(rows, as_table, as_json, reference=REFERENCE)


@app.command("baskets")
def baskets(
    data: DataFolder,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=2, help="Releases.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Baskets: how many of the most frequent sets of items are missed, and errors of counts."""
    from research.baskets import as_table, study

    with bars.steps() as step:
        rows = list(study(data, step, seeds))
    _show(rows, as_table, as_json)


@app.command("synthetic")
def synthetic(
    data: DataFolder,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=2, help="Releases.")] = 20,
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAMES", help="Of adult, nltcs and census.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Synthesis: how far the tables of synthetic rows are from the truth, and the time it takes."""
    from research.synthetic import FILES, REFERENCE, as_table, study

    with bars.steps() as step:
        rows = list(study(data, step, seeds, _names(only) or tuple(FILES)))
    _show(rows, as_table, as_json, reference=REFERENCE)


@app.command("classifier")
def classifier(
    data: DataFolder,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=2, help="Releases.")] = 5,
    as_json: options.Json = False,
) -> None:
    """Synthesis: classifiers that learn from synthetic rows, tested on true ones."""
    from research.synthetic_classifier import as_table, study

    with bars.steps() as step:
        rows = list(study(data, step, seeds))
    _show(rows, as_table, as_json)


def _show(
    rows: list[dict[str, Any]], as_table: Callable[[Any], Any], as_json: bool, **beside: object
) -> None:
    """Print the rows of a study as its table, or as JSON with what stands `beside` them."""
    if as_json:
        console.print_json({"rows": rows, **beside})
    else:
        console.stdout().print(as_table(rows))


def _people(
    data: str | None, columns: str | None, known: Sequence[str], made_up: Sequence[str], count: int
) -> People:
    """Return the table of an experiment: the file `data`, or `count` made-up people.

    The columns are `columns`, or else `known` of a file and `made_up` of made-up people.
    """
    from research import people

    names = _names(columns)
    if data is None:
        return people.fictitious(count, names or made_up)
    return people.read(data, names or known)


def _measured(data: Path, scale: Any) -> list[Row]:
    """Return the rows of the benchmark; on Ctrl-C those that were measured before it."""
    from research.dpbench import benchmark, shapes

    total = len(shapes(data, scale.datasets)) * len(scale.scales)
    rows: list[Row] = []
    done = 0
    with bars.progress("DPBench", total) as progress:

        def step(_: str) -> None:
            nonlocal done
            if progress is not None:
                progress(done)
            done += 1

        try:
            for row in benchmark(data, scale, step):
                rows.append(row)
        except KeyboardInterrupt:
            console.say("Stopped: this is what was measured until now.")
    return rows


def _last_points(rows: Sequence[Row]) -> list[Row]:
    """Return the last point of every curve of figure 11 on relaxation."""
    return list({(row["centres"], row["tracker"], row["θ"]): row for row in rows}.values())


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))
