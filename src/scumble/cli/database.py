"""The commands `scumble db ...`: a statistical database over a private table.

`create` and `append` make it, `ask`, `cost` and `shell` question it, and `status`, `history`,
`verify` and `plot` read its journal. `quota` shows and sets what analysts may use.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.cli.printing import print_answer
from scumble.cli.shell import Shell
from scumble.model.errors import ParameterError, writing
from scumble.model.privacy.guarantee import large_epsilon_warning
from scumble.model.stored import without_infinity

if TYPE_CHECKING:
    from scumble.private.database.database import Database

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
    float,
    typer.Option("--noise", "-l", metavar="NUMBER", help="Mean size of the noise of one count."),
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
        "--relax", metavar="NUMBER", help="Most answers that a relaxed one is made of; 0 for none."
    ),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota", metavar="ANALYST=EPSILON", help="An analyst's part of epsilon; repeatable."
    ),
]

# --- asking --------------------------------------------------------------------------------------

PrivateSource = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="SOURCE",
        envvar="SCUMBLE_SOURCE",
        help="The private table; its place is never written down.",
    ),
]
Batches = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        metavar="SOURCE",
        envvar="SCUMBLE_BATCHES",
        help="Rows that were added later, as FILE or FILE::TABLE; all, in their order.",
    ),
]
SameSchema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="Refuse to ask if the database has another schema.  [default: its own]",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="Idempotency key: asked again with it, answered once."
    ),
]
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
Analyst = Annotated[
    str | None, typer.Option("--analyst", metavar="NAME", help="Who asks, for quotas and history.")
]
Relaxation = Annotated[
    str,
    typer.Option(
        "--relax",
        metavar="CHOICE",
        help="When the promise is used up: regression, compound or refuse.",
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        "--prefer",
        metavar="CHOICE",
        help="exact: first the box itself, if earlier answers add up to it; near: one nearby.",
        show_default="exact",
    ),
]
MaxRelaxationError = Annotated[
    float,
    typer.Option(
        "--max-relaxation-error",
        metavar="NUMBER",
        help="Refuse what is further from the question than this share of the ranges.",
        show_default=False,
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="COLUMN=NUMBER",
        help="How much it matters that the limits of a column move (1 by default); repeatable.",
    ),
]


@dataclass(frozen=True)
class Asking:
    """The database that a question goes to, and how the analyst wants it answered."""

    source: PrivateSource
    batch: Batches = None
    schema: SameSchema = None
    table: options.Table = None
    analyst: Analyst = None
    relax: Relaxation = "regression"
    prefer: Prefer = None
    max_relaxation_error: MaxRelaxationError = math.inf
    weight: Weights = None
    side: options.SideTables = None

    def open(self, folder: str) -> Database:
        """Open the database in `folder` over its private table."""
        from scumble.private.database.database import Database

        batches = [_batch(each) for each in self.batch or ()]
        with bars.progress("Reading", options.rows_of(self.source, self.table)) as progress:
            return Database.open(
                folder,
                self.source,
                self.schema,
                batches=batches,
                table=self.table,
                progress=progress,
            )

    def answer_options(self) -> dict[str, Any]:
        """Return the arguments of `Database.answer` and `Database.cost` after the question."""
        return {
            "analyst": self.analyst,
            "relax": self.relax,
            "prefer": self.prefer,
            "max_relaxation_error": self.max_relaxation_error,
            "weights": _numbers("weight", "COLUMN=NUMBER", self.weight),
            "tables": options.side_tables(self.side),
        }


def _batch(written: str) -> str | tuple[str, str]:
    """Return the file of FILE, or file and table of FILE::TABLE."""
    file, found, table = written.rpartition("::")
    return (file, table) if found else written


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
    typer.Option("--last", "-n", metavar="NUMBER", help="Only the latest NUMBER entries.", min=1),
]
TwoColumns = Annotated[
    str | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="Map of two columns, as age,income.  [default: the capacity curve]",
    ),
]
ImageFile = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="A .png or .svg to write.")
]


# --- commands -------------------------------------------------------------------------------------


@app.command()
def create(
    folder: Folder,
    source: options.Source,
    schema: options.SchemaFile,
    epsilon: Epsilon,
    noise: Noise,
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
    from scumble.cli import shell
    from scumble.private.database.database import Database

    named: dict[str, Any] = {"tracker": tracker, "outside": outside, "table": table}
    named["ledger"] = ledger
    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        database = Database.create(
            folder,
            source,
            schema,
            epsilon=epsilon,
            noise=noise,
            attributes=None if attributes is None else options.columns(attributes),
            buckets=buckets,
            relax=relax,
            quotas=_numbers("quota", "ANALYST=EPSILON", quota),
            progress=progress,
            **named,
        )
    with database:
        if remark := large_epsilon_warning(database.terms.epsilon):
            console.say(f"Note: {remark}")
        if names := ", ".join(database.schema.from_data):
            console.say(f"Note: the domain of {names} was read from the private data: a leak.")
        if ledger is not None:
            console.say(f"Note: {_charged(database, ledger)}")
        if as_json:
            console.print_json({"database": folder, **database.status()})
        else:
            shell.show_created(database, folder)


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
def ask(
    folder: Folder,
    asking: Asking,
    sql: options.Sql = None,
    file: options.SqlFile = None,
    key: Key = None,
    level: options.Level = 0.95,
    as_json: options.Json = False,
) -> None:
    """Ask a question in SQL, and pay for its answer.

    A SELECT of counts, sums, averages and what is made of them, with WHERE and GROUP BY; all of it
    is answered, or nothing is charged. The table may have any name.
    """
    from scumble.cli import shell
    from scumble.model.laws.base import check_level

    text, level = options.question(sql, file), check_level(level)
    with asking.open(folder) as database, bars.working("Answering"):
        answer = database.answer(text, key=key, **asking.answer_options())
    if as_json:
        print_answer(answer, level)
    else:
        shell.show_answer(answer, level)


@app.command()
@options.expand_groups
def cost(
    folder: Folder,
    asking: Asking,
    sql: options.Sql = None,
    file: options.SqlFile = None,
    as_json: options.Json = False,
) -> None:
    """Say what would become of a question, free of charge."""
    from scumble.cli import shell

    text = options.question(sql, file)
    with asking.open(folder) as database, bars.working("Planning"):
        found, used = shell.cost_of(database, text, asking.answer_options())
    if as_json:
        console.print_json(without_infinity(found | used))
    else:
        shell.show_cost(found, used)


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
        code = Shell(database, asking.answer_options(), level).run()
    raise typer.Exit(code)


@app.command()
def status(folder: Folder, as_json: options.Json = False) -> None:
    """Show the promise, and how much of it is used."""
    from scumble.cli import shell
    from scumble.private.database.inspect import DatabaseInspection

    with DatabaseInspection(folder) as reading:
        if as_json:
            console.print_json(reading.status())
        else:
            shell.show_status(reading)


@app.command()
def history(
    folder: Folder,
    last: Last = None,
    as_json: options.Json = False,
) -> None:
    """List the questions that were answered, and what became of each."""
    from scumble.cli import shell
    from scumble.private.database.inspect import DatabaseInspection

    with bars.working("Reading the journal"), DatabaseInspection(folder) as reading:
        found = reading.history()
    shown = found if last is None else found[-last:]
    if as_json:
        console.print_json(shown)
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
        console.print_json(found)
    else:
        shell.show_usage(found)


@app.command()
def verify(folder: Folder, seal: options.Seal = None, as_json: options.Json = False) -> None:
    """Find entries of the journal that were changed or cut off."""
    from scumble.cli.groups import ledger
    from scumble.private.database.inspect import DatabaseInspection

    with bars.working("Reading the journal"), DatabaseInspection(folder) as reading:
        findings = reading.verify(seal)
        now = None if findings else reading.seal
    ledger.show_verified(findings, now, f"db verify {shlex.quote(folder)}", as_json)


@app.command()
def plot(
    folder: Folder,
    output: ImageFile,
    attributes: TwoColumns = None,
    force: options.Force = False,
) -> None:
    """Draw where the database was asked, or how much it has answered."""
    from scumble.private.database.inspect import DatabaseInspection
    from scumble.public import plot

    if output.suffix not in (".png", ".svg"):
        raise ParameterError.of("plot", "output", "a file that ends with .png or .svg", str(output))
    options.refuse_existing(output, force=force)
    names = [] if attributes is None else options.columns([attributes])
    if len(names) not in (0, 2):
        raise ParameterError.of("plot", "attributes", "two columns, as age,income", attributes)
    with bars.working("Drawing"), DatabaseInspection(folder) as reading:
        figure = reading.plot(*names)
        picture = plot.png(figure) if output.suffix == ".png" else plot.svg(figure).encode()
    with writing(output):
        output.write_bytes(picture)
    console.say(f"Wrote {output}.")


def _charged(database: Database, ledger: str) -> str:
    """Return what a new database has cost its owner, in a sentence."""
    from scumble.private.ledger.cost import bill_of_database
    from scumble.private.ledger.ledger import open_ledger

    terms = database.terms
    bill = bill_of_database(
        terms.claim(), database.schema, open_ledger(ledger).terms, seeded=terms.seeded
    )
    return str(bill)


def _numbers(option: str, allowed: str, pairs: list[str] | None) -> dict[str, float] | None:
    """Return the numbers of an option such as `--quota anna=0.1`, which may be repeated."""
    if pairs is None:
        return None
    found = {}
    for pair in pairs:
        name, _, number = pair.rpartition("=")
        if name in found:
            raise ParameterError.of("db", option, "given once for each name", pair)
        try:
            found[name] = float(number)
        except ValueError:
            raise ParameterError.of("db", option, allowed, pair) from None
    return found
