"""The command ask: a question to a release, a database, a data set of a server, or its wire."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from scumble.cli import bars, console, options, printing, targets, writing
from scumble.model.errors import ParameterError, named
from scumble.model.stored import without_infinity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scumble.cli.targets import Kind
    from scumble.private.database.database import Database
    from scumble.private.database.live.results import LiveCost
    from scumble.private.database.plan import AskOptions
    from scumble.private.database.results import Cost

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Folder of a release or a database, http(s)://server/dataset, or postgresql://...",
    ),
]
PrivateSource = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        envvar="SCUMBLE_SOURCE",
        help="Database: its private table; its place is never written down.",
    ),
]
Batches = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        metavar="SOURCE",
        envvar="SCUMBLE_BATCHES",
        help="Database: rows that were added later, as FILE or FILE::TABLE; all, in their order.",
    ),
]
SameSchema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="Database: refuse to ask if it has another schema.  [default: its own]",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="Idempotency key: asked again with it, answered once."
    ),
]
Analyst = Annotated[
    str | None,
    typer.Option("--analyst", metavar="NAME", help="Database: who asks, for quotas and history."),
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
Preview = Annotated[
    bool,
    typer.Option(
        "--preview", help="Say what would become of it and what it costs; charge nothing."
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        "--within",
        metavar="NUMBER",
        help="Database made with --delta: the half-width that is wanted, as 50, or 0.1% of the "
        "rows; what is missing is paid for.  [default: what is known, free]",
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]

# Which options each kind of target takes, besides those of all.
_TAKES: dict[Kind, tuple[str, ...]] = {
    "release": ("side", "level", "clamp"),
    "database": (
        *("source", "batch", "schema", "table", "analyst", "side", "weight"),
        *("relax", "prefer", "max_relaxation_error", "key", "level", "preview"),
    ),
    "live": ("source", "table", "analyst", "side", "key", "level", "preview", "within"),
    "server": ("relax", "prefer", "max_relaxation_error", "key", "level", "preview", "within"),
    "wire": (),
}


@dataclass(frozen=True)
class Asking:
    """The database that a question goes to, and how the analyst wants it answered."""

    source: PrivateSource = None
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

        if self.source is None:
            raise ParameterError(
                "A database is asked over its private table: name it with --source, or in the "
                "environment variable SCUMBLE_SOURCE."
            )
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

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Database.ask` and `Database.preview` after the question."""
        return {"tables": options.side_tables(self.side), "options": self.ask_options()}

    def ask_options(self) -> AskOptions:
        """Return the options of a question, also to a server."""
        from scumble.private.database.plan import AskOptions

        return AskOptions(
            analyst=self.analyst,
            weights=options.numbers("weight", "COLUMN=NUMBER", self.weight),
            relax=cast(Any, self.relax),
            prefer=cast(Any, self.prefer),
            max_relaxation_error=self.max_relaxation_error,
        )


def _batch(written: str) -> str | tuple[str, str]:
    """Return the file of FILE, or file and table of FILE::TABLE."""
    file, found, table = written.rpartition("::")
    return (file, table) if found else written


@options.expand_groups
def ask(
    context: typer.Context,
    target: Target,
    asking: Asking,
    sql: options.Sql = None,
    file: options.SqlFile = None,
    level: options.Level = 0.95,
    clamp: options.Clamp = False,
    key: Key = None,
    within: Within = None,
    preview: Preview = False,
    output: writing.Output = None,
    force: options.Force = False,
    as_csv: Csv = False,
    as_json: options.Json = False,
) -> None:
    """Ask a release, a database or a server a question in SQL.

    A SELECT of counts, sums, averages and what is made of them, with WHERE and GROUP BY; the table
    may have any name. A release answers for nothing. A database answers all of a question and
    charges it, or charges nothing.
    """
    from scumble.cli import live
    from scumble.model.laws.base import check_level

    text, level = options.question(sql, file), check_level(level)
    if (output is not None) + as_csv + as_json > 1:
        raise ParameterError("Give one of --csv, --json and --output.")
    if preview and (output is not None or as_csv):
        raise ParameterError("--preview has no table of answers: leave --csv and --output out.")
    writing.check_output(output, force=force)
    kind = targets.kind_of(target)
    _refuse_others(context, target, kind)
    if kind == "wire":
        with bars.working("Answering"):
            table = targets.ask_wire(target, text)
        _put_table(table, output, force=force, as_json=as_json)
        return
    found: Any
    if kind in ("live", "server"):
        with _opened(target, kind, asking) as (data, how):
            how |= {"within": within, "level": level}
            found = data.preview(text, **how) if preview else data.ask(text, key=key, **how)
    elif preview:
        with asking.open(target) as database, bars.working("Planning"):
            found = database.preview(text, **asking.arguments())
    else:
        with _asked(target, kind, asking, clamp) as put:
            found = put(text, key)
    if preview:
        _show_cost(found, level, as_json=as_json)
        return
    answer = getattr(found, "estimate", found)
    if as_csv or output is not None:
        writing.write_answer(answer, level, output, force=force)
    elif hasattr(found, "half_width"):
        live.show_answer(found, level, as_json=as_json)
    elif as_json:
        printing.print_answer(answer, level)
    else:
        targets.show_answer(answer, level)


@contextmanager
def _opened(target: str, kind: Kind, asking: Asking) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a live database or a data set of a server; yield it and the options of a question."""
    from scumble.cli import live

    if kind == "live":
        with live.opened(target, asking) as database, bars.working("Answering"):
            yield database, live.arguments(asking)
    else:
        with targets.connected(target) as dataset, bars.working("Answering"):
            yield dataset, {"options": asking.ask_options()}


def _refuse_others(context: typer.Context, target: str, kind: Kind) -> None:
    """Refuse options that say something about another kind of target."""
    optional = {name for takes in _TAKES.values() for name in takes}
    for name in sorted(optional.difference(_TAKES[kind])):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            fits = [targets.WORDS[each] for each, takes in _TAKES.items() if name in takes]
            if targets.WORDS["database"] in fits and targets.WORDS["live"] in fits:
                fits.remove(targets.WORDS["live"])  # it is one too
            raise ParameterError(
                f"{named(name)} is for {' or '.join(fits)}; '{target}' is {targets.WORDS[kind]}."
            )


@contextmanager
def _asked(target: str, kind: Kind, asking: Asking, clamp: bool) -> Iterator[Any]:
    """Yield a function that answers a question, given its idempotency key too."""
    if kind == "release":
        from scumble.public.archive.load import load_any
        from scumble.public.limits import QuestionLimits

        console.keep_imported()
        most = QuestionLimits.current().seconds  # of a statement of DuckDB only this is known
        others = [each for each in asking.side or () if options.is_release_place(each)]
        with bars.working(f"Answering, for {most:g} seconds at most"):
            asked: Any = load_any(target)
            tables = options.side_tables(each for each in asking.side or () if each not in others)
            if others:
                from scumble.public.combined import combine

                several: list[Any] = [asked, *map(load_any, others)]
                asked = combine(several)
            yield lambda sql, _: asked.answer(sql, tables=tables, clamp=clamp)
    else:
        with asking.open(target) as database, bars.working("Answering"):
            yield lambda sql, key: database.answer(sql, key=key, **asking.arguments())


def _show_cost(found: Cost | LiveCost, level: float, *, as_json: bool) -> None:
    """Print what would become of a question."""
    from scumble.cli import live, shell
    from scumble.private.database.live.results import LiveCost

    if as_json:
        console.print_json(without_infinity(asdict(found)))
    elif isinstance(found, LiveCost):
        live.show_cost(found, level)
    else:
        shell.show_cost(found)


def _put_table(table: Any, output: str | None, *, force: bool, as_json: bool) -> None:
    """Write the rows that came over the wire, or print them."""
    if as_json:
        console.print_json(table.to_pylist())
        return
    writing.write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {output}.")
