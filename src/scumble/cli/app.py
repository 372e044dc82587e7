"""Commands, signals.

The command line: arguments in, printing out. Heavy imports wait until a command runs.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from research import commands
from scumble._version import __version__
from scumble.cli import (
    advise,
    audit,
    compare,
    console,
    database,
    ledger,
    options,
    printing,
    publish,
)
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(
    name="scumble",
    cls=console.Careful,
    help="Publish tables about people, and ask them questions, with privacy and errors that are "
    "stated exactly.",
    no_args_is_help=True,
    # Help is plain text, since drawing boxes around it takes longer than all the rest.
    rich_markup_mode=None,
    # A traceback with local variables could show private rows.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_LONG = 40  # items of a list that a person wants to see
_UNPROTECTED = (
    "No column is sensitive: all are published as they are, or never. Methods that publish rows "
    'need one to protect; name it with --sensitive COLUMN, or write role = "sensitive" there.'
)
schema_app = console.group("Work with schemas: the public description of a table.")
app.add_typer(schema_app, name="schema")
app.add_typer(database.app, name="db")
app.add_typer(ledger.app, name="ledger")
app.add_typer(commands.app, name="reproduce")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"scumble {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            envvar="SCUMBLE_DEBUG",
            help="Show a traceback on errors; it may show private values.",
        ),
    ] = False,
    _asked: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Keep what holds for all commands."""
    console.settings(context).debug = debug


@schema_app.command("infer")
def infer(
    source: options.Source,
    sensitive: options.Sensitive = None,
    identifier: options.Identifier = None,
    insensitive: options.Insensitive = None,
    table: options.Table = None,
    output: options.SchemaOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Propose a schema for a table, and say what to check in it."""
    from scumble.model.schema.schema import Schema

    with console.progress("Reading") as progress:
        schema = Schema.infer(
            source,
            sensitive=options.columns(sensitive),
            identifier=options.columns(identifier),
            insensitive=options.columns(insensitive),
            table=table,
            progress=progress,
        )
    if output is not None:
        schema.save(output, force=force)
        console.say(f"Wrote {output}.")
    unprotected = [] if schema.sensitive else [_UNPROTECTED]
    if as_json:
        console.print_json({**schema.to_dict(), "checks": schema.checks() + unprotected})
    elif output is None:
        typer.echo(schema.dumps(most=_LONG if console.watched() else None), nl=False)
    for sentence in schema.checks():
        console.say(f"Check {sentence}")
    for sentence in unprotected:
        console.say(sentence)


for command in (publish.publish, publish.republish, publish.insert, publish.delete):
    app.command()(command)


@app.command()
def show(folder: options.ReleaseFolder, as_json: options.Json = False) -> None:
    """Show what a release is and what it promises."""
    from scumble.private.owner import open_release

    release = open_release(folder)
    if as_json:
        console.print_json(printing.manifest(folder))
    else:
        printing.show_release(release, folder)


@app.command()
def query(
    folder: options.ReleaseFolder,
    sql: options.Sql = None,
    file: options.SqlFile = None,
    side: options.SideTables = None,
    level: options.Level = 0.95,
    clamp: options.Clamp = False,
    as_json: options.Json = False,
) -> None:
    """Ask a release a question in SQL.

    COUNT(*), SUM(e) or AVG(e), with WHERE and GROUP BY; the table may have any name.
    """
    from scumble.model.laws.base import check_level
    from scumble.private.owner import open_release

    text = options.question(sql, file)
    level = check_level(level)
    answer = open_release(folder).answer(text, tables=_side_tables(side or []), clamp=clamp)
    if as_json:
        console.print_json(printing.answer_fields(answer, level))
    else:
        printing.show_answer(answer, level)


app.command("marginal")(publish.marginal)
app.command("select")(advise.select)
app.command("advise")(advise.advise)
app.command("compare")(compare.compare)
app.command("audit")(audit.audit)


@app.command()
def methods(as_json: options.Json = False) -> None:
    """List the methods to publish with, and what each promises."""
    if as_json:
        console.print_json(printing.method_fields())
    else:
        printing.show_methods()


@app.command()
def demo(
    output: options.DemoFolder = Path("scumble-demo"),
    people: options.People = 100_000,
    report: options.Report = True,
    show_page: options.OpenPage = False,
) -> None:
    """Publish fictitious people and compare answers with the truth."""
    from scumble.demo.story import run_demo

    with console.steps() as step:
        story = run_demo(people, output, step, report=report)
    printing.show_story(story, output)
    if show_page and report:
        typer.launch(str(output / "report.html"))


@app.command()
def version(as_json: options.Json = False) -> None:
    """Show the version of scumble."""
    if as_json:
        console.print_json({"version": __version__})
    else:
        _version(True)


def _side_tables(given: list[str]) -> dict[str, pa.Table]:
    """The public tables of `--with name=file`."""
    from scumble.public.sandbox import side_table

    tables = {}
    for pair in given:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise ParameterError.of("query", "with", "NAME=FILE", pair)
        tables[name] = side_table(path)
    return tables


def main() -> None:
    """The `scumble` command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that has no Greek letters shows something in their place.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with orderly():
            app()
    except KeyboardInterrupt:
        sys.exit(console.INTERRUPTED)


# An orderly end when a signal asks for it, so that temporary folders, which may hold private
# rows, go too.
#
# The end is an exception that is raised wherever the program is. Some libraries swallow any
# exception while they are imported; then it is raised again.

_SIGNALS = ("SIGTERM", "SIGHUP")
_PAUSE = 0.5  # seconds, after which an exception that nothing has come of was swallowed


@contextmanager
def orderly() -> Iterator[None]:
    """In here the program ends in an orderly way if another program, or the end of its terminal,
    asks for it. A signal that is kept away, as nohup does, stays away.
    """
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def _end(number: int, _: FrameType | None) -> None:
    ended = SystemExit(128 + number)
    if not hasattr(signal, "setitimer"):
        raise ended

    def insist(_: int, __: FrameType | None) -> None:
        """Raise it again, unless what is between its place and the beginning is being tidied up."""
        signal.setitimer(signal.ITIMER_REAL, _PAUSE)
        if not _leads_to(sys.exc_info()[1], ended):
            raise ended

    signal.signal(signal.SIGALRM, insist)
    signal.setitimer(signal.ITIMER_REAL, _PAUSE)
    raise ended


def _leads_to(error: BaseException | None, first: BaseException) -> bool:
    """Whether an exception is another one, or came up while that was on its way."""
    while error is not None and error is not first:
        error = error.__context__
    return error is first
