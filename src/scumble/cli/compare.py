"""The command compare: methods side by side on the owner's table and questions."""

from __future__ import annotations

import os
from contextlib import closing, nullcontext
from errno import EACCES
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options, printing
from scumble.cli.signals import exit_code, ignore_interrupts, interrupt_handled
from scumble.model.errors import OutputExistsError, ParameterError, ScumbleError, writing
from scumble.model.long_work import tell
from scumble.model.privacy.guarantee import read_epsilon
from scumble.model.stored import ExactText

if TYPE_CHECKING:
    from scumble.compare.comparison import Comparison, Results
    from scumble.compare.truth import TrueTable

# How many releases, and how many seconds, a forecast of the time is made from.
_FORECAST_RUNS, _FORECAST_SECONDS = 3, 2.0


def compare(
    schema: options.SchemaFile,
    methods: Methods,
    output: Page,
    source: Source = None,
    epsilon: Epsilons = None,
    setting: Setting = None,
    queries: Queries = "breakdowns",
    questions: Questions = None,
    repeats: Repeats = 3,
    measure: Measure = "relative",
    neighbours: Neighbours = "replace",
    private_preview: Preview = False,
    rows: Rows = 10_000,
    seed: Seed = 0,
    table: options.Table = None,
    basket: options.Basket = None,
    order: options.Order = None,
    outside: options.Outside = "error",
    jobs: Jobs = None,
    time: Time = 300.0,
    resume: Resume = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Compare methods: what an attacker learns against the error.

    What an attacker can learn is set against the error of your own questions.

    The output is made of the private table and is for its owner only. Ctrl-C keeps what is done,
    and --resume goes on.
    """
    from scumble.compare.page import fewer, write
    from scumble.compare.points import check_measure
    from scumble.compare.runs import usable_cores
    from scumble.compare.settings import read_settings

    check_measure(measure)
    _check_output(output, resume=resume, force=force)
    names, losses = list(dict.fromkeys(options.columns(methods))), _epsilons(epsilon)
    settings = read_settings(setting or [])
    if not losses and set(names) - set(settings):
        raise ParameterError("Say --epsilon NUMBERS, or give every method a --setting.")
    if _of_lists(names, schema):
        read = None if private_preview or resume else source
        reading = {"table": table, "outside": outside, "basket": basket, "order": order}
        given = (read, schema, reading)
        made = (names, losses, neighbours, settings)
        _lists(given, made, repeats, seed, output, as_json=as_json)
        return
    _refuse_lists(basket, order)
    known = _table(source, schema, table, outside, private_preview, (rows, seed))
    asked = (queries, _count(questions), seed)
    comparison = _comparison(known, asked, (names, losses, neighbours, settings), repeats)
    subject = "a synthetic stand-in" if private_preview else Path(str(source)).name
    results = _results(comparison, output, subject, preview=private_preview, resume=resume)
    results.about |= {
        "source": None if private_preview else source,
        "schema": str(schema),
        "file": queries if Path(queries).is_file() else None,
        "reading": _reading(table, outside),
    }
    if fewer(results):
        console.say(f"Questions: {fewer(results)}.")
    try:
        stopped = _run(comparison, results, jobs or usable_cores(), time)
    except Exception:  # an error must not cost hours of work
        if results.runs:
            write(results, measure, output)
        raise
    with ignore_interrupts() if stopped else nullcontext():
        _show(results, measure, output, as_json=as_json)
    if stopped:
        raise typer.Exit(exit_code())


def _reading(table: str | None, outside: str) -> dict[str, str]:
    """Return how the table is read, where it is not the default."""
    found = {} if table is None else {"table": table}
    return found if outside == "error" else {**found, "outside": outside}


def _refuse_lists(basket: str | None, order: str | None) -> None:
    if basket is not None or order is not None:
        raise ParameterError(
            "--basket and --order are for methods of lists: baskets, diffpart, sequences, "
            "trajectories."
        )


def _of_lists(names: list[str], schema: Path) -> bool:
    """Return whether methods of lists, or keys of an open category, are to be compared."""
    from scumble.compare.lists import METHODS
    from scumble.model.schema.schema import Schema

    found = set(METHODS) & set(names)
    return bool(found - {"keys"}) or ("keys" in found and bool(Schema.load(schema).open))


def _lists(
    given: tuple[str | None, Path, dict[str, Any]],
    made: tuple[list[str], list[float], str, Any],
    repeats: int,
    seed: int,
    output: Path,
    *,
    as_json: bool,
) -> None:
    """Compare methods of lists and keys by their own measures."""
    from scumble.compare import lists
    from scumble.model.schema.schema import Schema

    source, path, reading = given
    if source is None:
        raise ParameterError(
            "Methods of lists and keys are compared on a table: name it, without "
            "--private-preview and --resume."
        )
    names, losses, neighbours, settings = made
    schema = Schema.load(path)
    choices = lists.choices(schema, names, losses, neighbours, settings)
    table = lists.ListTable(source, schema, **reading)
    runs, left_out = [], {}
    with bars.working("Comparing"):
        try:
            for done, found in enumerate(lists.compared(table, choices, repeats, seed), 1):
                if isinstance(found, tuple):
                    left_out[found[0]] = found[1]
                else:
                    runs.append(found)
                tell(done, len(choices))
        except KeyboardInterrupt:
            if not runs:
                raise
            interrupt_handled()
            console.say("Stopped. This is what is done until now.")
    for name, reason in left_out.items():
        console.say(f"{name} is left out: {reason}")
    if not runs:
        raise ParameterError("Nothing was compared, and nothing is written.")
    written = lists.write(runs, left_out, output)
    if as_json:
        console.print_json(lists.fields(runs))
    else:
        head, body = lists.lines(runs)
        printing.table(head, body, text_columns=1)
    console.say(lists.OWNER)
    console.say(f"Wrote {', '.join(map(str, written))}.")


def _epsilons(text: str | None) -> list[float]:
    """Return the privacy losses of a list such as 0.5,1,2, each once, in order."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    return sorted({float(read_epsilon("compare", ExactText(part))) for part in parts})


def _count(questions: str | None) -> int | None:
    """Return the number of questions: 0 for all, None if the option was not given."""
    if questions is None or questions == "all":
        return None if questions is None else 0
    if not questions.isdecimal() or int(questions) == 0:
        raise ParameterError.of("compare", "questions", "a number above 0, or all", questions)
    return int(questions)


def _check_output(output: Path, *, resume: bool, force: bool) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if output.suffix != ".html":
        raise ParameterError.of("compare", "output", "a file that ends in .html", str(output))
    if resume and not output.with_suffix(".json").exists():
        raise ParameterError(f"There is no {output.with_suffix('.json')} to go on with.")
    there = [p for p in (output, *map(output.with_suffix, (".csv", ".json"))) if p.exists()]
    if there and not resume and not force:
        raise OutputExistsError.of(
            there[0], "Use --force to replace it, or --resume to go on with it."
        )
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(output.parent, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))


def _table(
    source: str | None,
    schema: Path,
    table: str | None,
    outside: str,
    preview: bool,
    drawn: tuple[int, int],
) -> TrueTable:
    """Return the private table, or a synthetic stand-in, without identifiers."""
    from scumble.compare.settings import schema_to_compare, warn_of_rows
    from scumble.compare.truth import TrueTable, stand_in
    from scumble.model.schema.schema import Schema

    given = Schema.load(schema)
    known = schema_to_compare(given)
    if warning := warn_of_rows(given):
        console.say(f"WARNING: {warning}")
    if preview:
        if source is not None:
            console.say(f"{source} is not read: --private-preview makes a stand-in.")
        return stand_in(known, *drawn)
    if source is None:
        raise ParameterError("Name the table to compare on, or say --private-preview.")
    choice: Any = outside  # checked there
    with bars.working("Reading", options.rows_of(source, table)) as done:
        return TrueTable.read(source, known, table=table, outside=choice, progress=done)


def _comparison(
    table: TrueTable,
    asked: tuple[str, int | None, int],
    made: tuple[list[str], list[float], str, Any],
    repeats: int,
) -> Comparison:
    """Return the comparison of what is `made` on what is `asked`, with the true answers."""
    from scumble.compare.comparison import Comparison
    from scumble.compare.questions import questions
    from scumble.compare.settings import Settings

    queries, count, seed = asked
    names, losses, neighbours, settings = made
    with bars.working("Computing the true answers"):
        chosen = questions(queries, table, count, seed)
        choices = Settings(table, chosen, neighbours).choices(names, losses, settings)
        return Comparison(table, chosen, choices, repeats, seed=seed)


def _results(
    comparison: Comparison, output: Path, subject: str, *, preview: bool, resume: bool
) -> Results:
    """Return empty results, or with `resume` those of an earlier run on the same questions."""
    from scumble.compare.page import read

    sensitive = [attribute.name for attribute in comparison.table.schema.sensitive]
    seed = comparison.runner.material.seed
    blank = comparison.blank(subject=subject, preview=preview, sensitive=sensitive, seed=seed)
    if not resume:
        return blank
    found = read(output.with_suffix(".json"))
    before = found.about.get("seed", seed)
    if before != seed:
        raise ParameterError(
            f"{output.with_suffix('.json')} was made with --seed {before}, not {seed}. Say --seed "
            f"{before} to go on, or begin anew with --force."
        )
    if found.about.get("table") != blank.about["table"]:
        raise ParameterError(
            f"{output.with_suffix('.json')} is about other questions, or another table or schema. "
            "Begin anew with --force, or choose another name."
        )
    return found


def _run(comparison: Comparison, results: Results, jobs: int, seconds: float) -> bool:
    """Run what is not done yet; return whether it was stopped from outside before the end.

    No run begins in this process after `seconds`. The first one is always made.
    """
    begin = monotonic()
    end = begin + seconds
    total = len(comparison.choices) * comparison.repeats
    settings = _counted(len(comparison.choices), "setting")
    releases = _counted(comparison.repeats, "release")
    console.say(f"{settings}, {releases} of each: {total} in all.")
    why, forecast = "Stopped", False
    with bars.working("Comparing"):
        try:
            with closing(comparison.runs(results, jobs)) as runs:
                ends = [begin]
                for done in runs:
                    tell(done, total)
                    forecast = forecast or _say_forecast(ends, total - done)
                    ends.append(monotonic())
                    if monotonic() >= end and results.runs:
                        break
            _say_what_is_open(comparison, results, seconds)
            return False
        except KeyboardInterrupt:
            if not results.runs:
                raise
            interrupt_handled()
        except ScumbleError as error:
            why = str(error)
    console.say(f"{why.rstrip('.')}. This is what is done until now; --resume goes on.")
    return True


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say_forecast(ends: list[float], left: int) -> bool:
    """Say about how long the `left` releases take, from the times at which earlier ones ended;
    return whether it was said. It is a median: the first releases load libraries.
    """
    if not left or len(ends) <= _FORECAST_RUNS or ends[-1] - ends[0] < _FORECAST_SECONDS:
        return False
    seconds = left * median(after - before for before, after in pairwise(ends))
    console.say(f"About {_counted(max(round(seconds), 1), 'more second')}.")
    return True


def _say_what_is_open(comparison: Comparison, results: Results, seconds: float) -> None:
    """Say what the time did not suffice for, if anything."""
    tried = [choice for choice in comparison.choices if choice.name not in results.left_out]
    made = results.made()
    wanted = [(c.method, c.words, n) for c in tried for n in range(comparison.repeats)]
    still = sum(each not in made for each in wanted)
    if not still:
        return
    seen = {(method, words) for method, words, _ in made}
    lost = [choice.name for choice in tried if (choice.method, choice.words) not in seen]
    without = f" Left out: {'; '.join(lost)}." if lost else ""
    console.say(
        f"After --time {seconds:g} seconds {still} of {len(wanted)} runs are not made.{without} "
        "--resume goes on; fewer --repeats, --questions or methods take less time."
    )


def _show(results: Results, measure: str, output: Path, *, as_json: bool) -> None:
    from scumble.compare.measures import MEASURES
    from scumble.compare.page import OWNER, PREVIEW, percents, write
    from scumble.compare.points import as_fields, points, sentence

    for name, reason in results.refusals().items():
        console.say(f"{name} is left out: {reason}")
    if not results.runs:
        raise ParameterError("Nothing was compared, and nothing is written.")
    written = write(results, measure, output)
    found = points(results, measure)
    if as_json:
        console.print_json([as_fields(point) for point in found])
    else:
        shown = MEASURES[measure]
        for point in found:
            mean = point.error.mean
            error = percents(mean) if shown.percent else f"{mean:.4g}"
            title = f"{shown.words[0].upper()}{shown.words[1:]}"
            console.echo(f"{point.name}: {sentence(point)} {title} {error}.")
    console.say(PREVIEW if results.about["preview"] else OWNER)
    console.say(f"Wrote {', '.join(map(str, written))}.")


# --- options -------------------------------------------------------------------------------------

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="The private table, as for publish; none with --private-preview.",
        show_default=False,
    ),
]
Methods = Annotated[
    list[str],
    typer.Option(
        "--methods",
        "-m",
        metavar="NAMES",
        help="What to compare, as uniform,synthesis,synthesis-rows.",
    ),
]
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBERS",
        help="Privacy losses, as 0.5,1,2; methods that take none get comparable settings.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="METHOD:NAME=VALUES",
        help="Settings of one method in place of those for --epsilon, as aroma:k=5,20; repeatable.",
    ),
]
Queries = Annotated[
    str,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="Your questions as a file of SQL; or a generator: breakdowns, conjunctions, "
        "selections, marginals, ranges, prefixes:COLUMN, intervals:COLUMN; with options as "
        "conjunctions:ways=3,floor=0.001, marginals:ways=2, ranges:volume=0.1,centres=data.",
    ),
]
Questions = Annotated[
    str | None,
    typer.Option(
        "--questions",
        metavar="NUMBER|all",
        help="How many a generator makes; 30 with groups or 400 single ones, if nothing is said.",
        show_default=False,
    ),
]
Repeats = Annotated[
    int,
    typer.Option("--repeats", metavar="NUMBER", min=1, help="How often each setting is published."),
]
Measure = Annotated[
    str,
    typer.Option(
        "--measure",
        metavar="NAME",
        help="The error on the axis: relative, median, unbounded (without sanity bound), absolute, "
        "root, half (of the intervals of 95 %), squared, marginal (L1 of tables), alpha, beta or "
        "rho; the files have all.",
    ),
]
Neighbours = Annotated[
    str,
    typer.Option("--neighbours", metavar="RELATION", help="Of summaries: replace or add_remove."),
]
Page = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The page (.html); CSV and JSON lie beside it."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="NUMBER",
        min=1,
        help="Processes that make releases; as many as there are processors, if none is said. The "
        "results are the same.",
    ),
]
Time = Annotated[
    float,
    typer.Option(
        "--time",
        metavar="SECONDS",
        min=0,
        help="No run begins later than this; what is left is named, and --resume goes on.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with what an earlier run wrote there.")
]
Preview = Annotated[
    bool,
    typer.Option(
        "--private-preview", help="Compare on a synthetic stand-in; no private row is read."
    ),
]
Rows = Annotated[int, typer.Option("--rows", metavar="NUMBER", min=1, help="Rows of the stand-in.")]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        min=0,
        help="Of the questions, the releases and the stand-in: the same comparison again.",
    ),
]
