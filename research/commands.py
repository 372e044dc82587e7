"""Commands that repeat the experiments of papers, and say where the results differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research import printing
from scumble.cli import console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.dpbench import Scale
    from research.people import People
    from research.relaxation.verdicts import Verdict
    from scumble.public.plot.figures import Panel


# Commands that repeat the experiments of the papers on publishers.

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
    from research.alpha_beta import panels, verdicts

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
            raise ParameterError.of("research", "balanced and skewed", known, name)

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
        raise ParameterError.of("research", "columns", known, columns)

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


# The command that measures releases on the benchmarks of the field.

DataFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", help="Folder of the benchmark's files.")
]
QuickDpbench = Annotated[
    bool, typer.Option("--quick", help="Seven datasets, two scales, four trials of each.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="Folder for tables and figures."),
]
Chosen = Annotated[
    str | None, typer.Option("--methods", metavar="NAMES", help="Only these, with commas between.")
]
Datasets = Annotated[
    str | None, typer.Option("--datasets", metavar="NAMES", help="Only these, with commas between.")
]
Draws = Annotated[
    int | None, typer.Option("--draws", metavar="NUMBER", min=1, help="Tables drawn of each shape.")
]
Runs = Annotated[
    int | None, typer.Option("--runs", metavar="NUMBER", min=1, help="Releases of each table.")
]


def dpbench(
    data: DataFolder,
    quick: QuickDpbench = False,
    output: Output = None,
    methods: Chosen = None,
    datasets: Datasets = None,
    draws: Draws = None,
    runs: Runs = None,
    as_json: options.Json = False,
) -> None:
    """Errors of releases by DPBench's protocol: 1-D prefix sums and 2-D rectangles at ε = 0.1.

    Every release is made through its real mechanism. Ctrl-C ends it, and keeps what is done.
    """
    from research.dpbench import FULL, QUICK, verdicts
    from research.dpbench_report import records, sentence, sentences

    given = {"draws": draws, "runs": runs, "methods": _names(methods), "datasets": _names(datasets)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    rows = _measured(data, replace(QUICK if quick else FULL, **chosen))
    if not rows:
        raise ParameterError("Nothing was measured: no method fits, or no dataset has that name.")
    said = [*sentences(list(verdicts(rows))), sentence(records(rows))]
    if output is not None:
        _save(rows, said, output)
    if as_json:
        console.print_json({"rows": rows, "verdicts": said})
        return
    _show(rows)
    for line in said:
        typer.echo(f"- {line}")


def marginals(data: DataFolder, as_json: options.Json = False) -> None:
    """Errors of marginals and fourier: all pairs and triples of two real tables, at ε = 1."""
    from research.marginals import REFERENCE, marginal_benchmark

    with console.steps() as step:
        rows = list(marginal_benchmark(data, step))
    if as_json:
        console.print_json({"rows": rows, "reference": REFERENCE})
        return
    from rich.table import Table

    table = Table(
        title="Mean L1 error of marginals, ε = 1 (δ = 1e-9; fourier 0)", title_justify="left"
    )
    for name in ("dataset", "method", "ways", "least squares", "non-negative", "seconds"):
        table.add_column(name, justify="left" if name in ("dataset", "method") else "right")
    for row in rows:
        plain = "" if row["least squares"] is None else f"{row['least squares']:.3g}"
        fitted, seconds = f"{row['non-negative']:.3g}", f"{row['seconds']:.2f}"
        table.add_row(row["dataset"], row["method"], str(row["ways"]), plain, fitted, seconds)
    for name, known in REFERENCE.items():
        for ways, error in known.items():
            table.add_row("adult", f"reference: {name}", str(ways), "", f"{error:.3g}", "")
    console.stdout().print(table)


def _measured(data: Path, scale: Scale) -> list[Row]:
    """All rows, or those that were there when the person had enough."""
    from research.dpbench import benchmark, shapes

    total = len(shapes(data, scale.datasets)) * len(scale.scales)
    rows: list[Row] = []
    done = 0
    with console.progress("DPBench", total) as progress:

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


def _save(rows: Sequence[Row], said: Sequence[str], output: Path) -> None:
    """Rows and verdicts as CSV and Markdown and, where the plotting library is there, a figure."""
    from research.dpbench_report import as_csv, as_markdown, panels
    from scumble.public.plot import curves
    from scumble.public.plot.figures import MISSING, available, png

    output.mkdir(parents=True, exist_ok=True)
    (output / "dpbench.csv").write_text(as_csv(rows), encoding="utf-8")
    (output / "dpbench.md").write_text(as_markdown(rows, said), encoding="utf-8")
    if available():
        (output / "dpbench.png").write_bytes(png(curves(panels(rows))))
    else:
        console.say(f"No figure: {MISSING}")
    console.say(f"Wrote {output}.")


def _show(rows: Sequence[Row]) -> None:
    from rich.table import Table

    from research.dpbench import reference

    table = Table(title="log10 of the scaled error, ε = 0.1", title_justify="left")
    numbers = ("rows", "error", "± stderr", "reference", "ms")
    for name in ("method", "dataset", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in rows:
        known = reference(row)
        cells: tuple[Any, ...] = (
            row["method"], row["dataset"], f"{row['rows']:,}", f"{row['error']:.2f}",
            f"{row['stderr']:.2f}", "" if known is None else f"{known:.2f}",
            f"{row['milliseconds']:.1f}",
        )  # fmt: skip
        table.add_row(*cells)
    console.stdout().print(table)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


app = console.application("research", "Repeat the experiments of papers.")

app.command("alpha-beta")(alpha_beta)
app.command("aroma")(aroma)
app.command("dpbench")(dpbench)
app.command("marginals")(marginals)
app.command("small-domain")(small_domain)

QuickRelaxation = Annotated[
    bool, typer.Option("--quick", help="A tenth of the queries and of the noise: under a minute.")
]
SurveyData = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="A table to ask about, in place of a made-up one."),
]
SurveyColumns = Annotated[
    str,
    typer.Option("--columns", metavar="NAMES", help="Columns of that table, with commas between."),
]


@app.command("relaxation")
def relaxation(
    quick: QuickRelaxation = False,
    output: Folder = None,
    data: SurveyData = None,
    columns: SurveyColumns = "age,education,occupation,income",
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
