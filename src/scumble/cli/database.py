"""The commands `scumble db ...`: a statistical database over a private table.

`create` and `append` make it, `shell` and `scumble ask` question it, and `status`, `history` and
`verify` read its journal. `quota` shows and sets what analysts may use.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.cli.ask import Asking
from scumble.cli.shell import Shell
from scumble.model.errors import ParameterError, writing
from scumble.model.errors import named as error_name
from scumble.model.privacy.guarantee import large_epsilon_warning

if TYPE_CHECKING:
    from scumble.private.database.inspect import DatabaseInspection
    from scumble.private.database.live.inspect import LiveInspection

app = console.group("Ask a private table, under one promise for all answers.")

Folder = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER",
        help="Folder of the database, or postgresql://user@host/database/schema.name.",
    ),
]

# --- what is promised ----------------------------------------------------------------------------

Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon", "-e", metavar="NUMBER", help="Privacy loss by all answers together, forever."
    ),
]
Noise = Annotated[
    float | None,
    typer.Option(
        "--noise",
        "-l",
        metavar="NUMBER",
        help="Mean size of the noise of one count, the same for all; or --delta.",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="NUMBER",
        help="Probability beyond epsilon, as 1e-9: every question has an answer, and a better one "
        "is paid for.",
    ),
]
LiveNeighbours = Annotated[
    str | None,
    typer.Option(
        "--neighbours",
        metavar="RELATION",
        help="With --delta: hide what a person's rows say (replace), or also that they are there "
        "(add_remove).",
    ),
]
Contribution = Annotated[
    int | None,
    typer.Option(
        "--contribution",
        metavar="NUMBER",
        help="With --delta: most rows of one person.  [default: 1]",
    ),
]
Sums = Annotated[
    list[str] | None,
    typer.Option(
        "--sums", metavar="COLUMNS", help="With --delta: number columns for SUM and AVG, as income."
    ),
]
Base = Annotated[
    float | None,
    typer.Option(
        "--base",
        metavar="SHARE",
        help="With --delta: share of the promise for the base.  [default: 0.75]",
    ),
]
LargestPurchase = Annotated[
    float | None,
    typer.Option(
        "--largest-purchase",
        metavar="SHARE",
        help="With --delta: most of what is left that one question takes.  [default: 0.125]",
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="What can be asked about, as age,sex; may be repeated.  [default: all]",
    ),
]
Tracker = Annotated[
    str,
    typer.Option(
        "--tracker",
        metavar="CHOICE",
        help="How answers are counted at each point: auto, exact, histogram or disjoint.",
    ),
]
Buckets = Annotated[
    int, typer.Option("--buckets", metavar="NUMBER", help="Most buckets of the histogram tracker.")
]
Relax = Annotated[
    int,
    typer.Option(
        "--relax-answers",
        metavar="NUMBER",
        help="Most answers that a relaxed one is made of; 0 for none.",
    ),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        metavar="ANALYST=EPSILON",
        help="An analyst's part of epsilon, with --delta a share of what is for purchases; "
        "repeatable.",
    ),
]

# --- adding rows ---------------------------------------------------------------------------------

AppendKey = Annotated[
    str | None,
    typer.Option("--key", metavar="TEXT", help="Idempotency key: added again with it, added once."),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Add rows although the database has the same: they are other people."
    ),
]

# --- quotas --------------------------------------------------------------------------------------

QuotaAnalyst = Annotated[
    str | None, typer.Argument(metavar="[ANALYST]", help="Whose quota.  [default: show all]")
]
QuotaEpsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="The analyst's part of epsilon."),
]
QuotaEnd = Annotated[bool, typer.Option("--end", help="End the quota of the analyst.")]

# --- reading -------------------------------------------------------------------------------------

Last = Annotated[
    int | None,
    typer.Option("--last", metavar="NUMBER", help="Only the latest NUMBER entries.", min=1),
]
TwoColumns = Annotated[
    str | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="With --output: a map of two columns, as age,income.  [default: the capacity curve]",
    ),
]
ImageFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Draw where it was asked, as a .png or .svg."
    ),
]


# --- commands -------------------------------------------------------------------------------------


@app.command()
def create(
    context: typer.Context,
    folder: Folder,
    source: options.Source,
    schema: options.SchemaFile,
    epsilon: Epsilon,
    noise: Noise = None,
    delta: Delta = None,
    neighbours: LiveNeighbours = None,
    contribution: Contribution = None,
    sums: Sums = None,
    base: Base = None,
    largest_purchase: LargestPurchase = None,
    attributes: Attributes = None,
    tracker: Tracker = "auto",
    buckets: Buckets = 100_000,
    relax: Relax = 3,
    quota: Quotas = None,
    outside: options.Outside = "error",
    table: options.Table = None,
    ledger: options.Ledger = None,
    as_json: options.Json = False,
) -> None:
    """Make a database over a table: a folder for its ledger.

    The folder stores the schema and the promise. The table stays where it is, and its place is not
    written down.
    """
    from scumble.cli import live, shell
    from scumble.cli.publish import say_remark
    from scumble.private.database.database import Database

    columns = None if attributes is None else options.columns(attributes)
    quotas = options.numbers("quota", "ANALYST=EPSILON", quota)
    _check_kind(context, noise, delta)
    if noise is None:
        given = {
            "contribution": contribution,
            "base": base,
            "largest_purchase": largest_purchase,
            "sums": None if sums is None else options.columns(sums),
        }
        live.create(
            folder,
            source,
            schema,
            as_json,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            attributes=columns,
            quotas=quotas,
            outside=outside,
            table=table,
            ledger=ledger,
            **{name: value for name, value in given.items() if value is not None},
        )
        return
    named: dict[str, Any] = {"tracker": tracker, "outside": outside, "table": table}
    named["ledger"] = ledger
    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        database = Database.create(
            folder,
            source,
            schema,
            epsilon=epsilon,
            noise=noise,
            attributes=columns,
            buckets=buckets,
            relax=relax,
            quotas=quotas,
            progress=progress,
            **named,
        )
    with database:
        if remark := large_epsilon_warning(database.terms.epsilon):
            console.say(f"Note: {remark}")
        if names := ", ".join(database.schema.from_data):
            console.say(f"Note: the domain of {names} was read from the private data: a leak.")
        for remark in database.remarks:
            say_remark(remark)
        if ledger is not None:
            console.say(f"Note: {live.describe_charge(database, ledger)}")
        if as_json:
            console.print_json({"database": folder, **asdict(database.status())})
        else:
            shell.show_created(database, folder)


_WITH_NOISE = ("tracker", "buckets", "relax")
_WITH_DELTA = ("neighbours", "contribution", "sums", "base", "largest_purchase")


def _check_kind(context: typer.Context, noise: float | None, delta: float | None) -> None:
    """Refuse neither --noise nor --delta, or both, and options of the other kind of database."""
    if (noise is None) == (delta is None):
        raise ParameterError(
            "Give --delta 1e-9, for a database that answers everything and sells accuracy, or "
            "--noise, for one whose answers all have the same noise."
        )
    others, option = (_WITH_DELTA, "--delta") if delta is None else (_WITH_NOISE, "--noise")
    for name in others:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ParameterError(f"{error_name(name)} is for a database with {option}.")


@app.command()
def append(
    folder: Folder,
    source: options.Source,
    table: options.Table = None,
    key: AppendKey = None,
    again: Again = False,
    as_json: options.Json = False,
) -> None:
    """Add rows of new people to a database, as a batch with the whole promise.

    Nobody may be in two batches. From then on every question needs the batch too, as --batch.
    """
    from scumble.cli import shell
    from scumble.private.database.tables import SourceTable, append_rows

    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        number = append_rows(folder, SourceTable(source, table, progress), key, again=again)
    if as_json:
        console.print_json({"database": folder, "batch": number})
    else:
        shell.show_appended(folder, number)


@app.command()
@options.expand_groups
def shell(
    folder: Folder,
    asking: Asking,
    level: options.Level = 0.95,
) -> None:
    r"""Ask one question after another; \help says what else there is.

    What is not a terminal is read line by line, each line a question.
    """
    from scumble.model.laws.base import check_level

    level = check_level(level)
    with asking.open(folder) as database:
        code = Shell(database, asking.arguments(), level).run()
    raise typer.Exit(code)


@app.command()
def status(
    folder: Folder,
    output: ImageFile = None,
    attributes: TwoColumns = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Show the promise, and how much of it is used; or draw that."""
    from scumble.cli import shell
    from scumble.private.database.inspect import DatabaseInspection
    from scumble.private.journal.journal import is_live

    if attributes is not None and output is None:
        raise ParameterError("--attributes is about a drawing: give --output too.")
    if output is not None:
        _check_image(output, force=force)
    if is_live(folder):
        from scumble.cli import live
        from scumble.private.database.live.inspect import LiveInspection

        if output is not None:
            raise ParameterError("--output draws databases that were made with --noise.")
        with LiveInspection(folder) as found:
            if as_json:
                console.print_json(asdict(found.status()))
            else:
                live.show_status(found)
        return
    with DatabaseInspection(folder) as reading:
        if output is not None:
            _draw(reading, output, attributes)
        elif as_json:
            console.print_json(asdict(reading.status()))
        else:
            shell.show_status(reading)


def _check_image(output: Path, *, force: bool) -> None:
    if output.suffix not in (".png", ".svg"):
        allowed = "a file that ends with .png or .svg"
        raise ParameterError.of("status", "output", allowed, str(output))
    options.refuse_existing(output, force=force)


def _draw(reading: DatabaseInspection, output: Path, attributes: str | None) -> None:
    """Draw how many answers cover each pair of values, or the capacity curve."""
    from scumble.public import plot

    names = [] if attributes is None else options.columns([attributes])
    if len(names) not in (0, 2):
        raise ParameterError.of("status", "attributes", "two columns, as age,income", attributes)
    with bars.working("Drawing"):
        figure = reading.plot(*names)
        picture = plot.png(figure) if output.suffix == ".png" else plot.svg(figure).encode()
    with writing(output):
        output.write_bytes(picture)
    console.say(f"Wrote {output}.")


@app.command()
def history(
    folder: Folder,
    last: Last = None,
    as_json: options.Json = False,
) -> None:
    """List the questions that were answered, and what became of each."""
    from scumble.cli import shell

    with bars.working("Reading the journal"), _inspection(folder) as reading:
        found = reading.history()
    shown = found if last is None else found[-last:]
    if as_json:
        console.print_json([asdict(each) for each in shown])
    else:
        shell.show_history(shown)


@app.command()
def quota(
    folder: Folder,
    analyst: QuotaAnalyst = None,
    epsilon: QuotaEpsilon = None,
    end: QuotaEnd = False,
    as_json: options.Json = False,
) -> None:
    """Show the quotas of analysts, or give, change or end one.

    It is an entry of the journal; a running server follows it. A quota cannot be below what the
    analyst was charged already.
    """
    from scumble.cli import shell
    from scumble.private.database.inspect import DatabaseInspection

    if (analyst is None) != (epsilon is None and not end) or (end and epsilon is not None):
        raise ParameterError(
            "Give an analyst and --epsilon, an analyst and --end, or neither to see all quotas."
        )
    with DatabaseInspection(folder) as reading:
        if analyst is not None:
            reading.set_quota(analyst, epsilon)
        found = reading.usage()
    if as_json:
        console.print_json([asdict(each) for each in found])
    else:
        shell.show_usage(found)


@app.command()
def verify(folder: Folder, seal: options.Seal = None, as_json: options.Json = False) -> None:
    """Find entries of the journal that were changed or cut off."""
    from scumble.cli.groups import ledger

    with bars.working("Reading the journal"), _inspection(folder) as reading:
        findings = reading.verify(seal)
        now = None if findings else reading.seal
    ledger.show_verified(findings, now, f"db verify {shlex.quote(folder)}", as_json)


def _inspection(folder: str) -> DatabaseInspection | LiveInspection:
    """Open the journal of a database of either kind."""
    from scumble.private.database.inspect import DatabaseInspection
    from scumble.private.database.live.inspect import LiveInspection
    from scumble.private.journal.journal import is_live

    return LiveInspection(folder) if is_live(folder) else DatabaseInspection(folder)
