"""The command line: arguments in, printing out. Heavy imports wait until a command runs."""

from __future__ import annotations

import inspect
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import scumble
from scumble import console, listing, options
from scumble._version import __version__
from scumble.errors import ParameterError, ReleaseError

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.mechanism import Mechanism

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
schema_app = typer.Typer(
    help="Work with schemas: the public description of a table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(schema_app, name="schema")


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
    with console.progress("Reading") as progress:
        schema = scumble.Schema.infer(
            source,
            sensitive=sensitive or (),
            identifier=identifier or (),
            insensitive=insensitive or (),
            table=table,
            progress=progress,
        )
    if output is not None:
        schema.save(output, force=force)
        console.say(f"Wrote {output}.")
    if as_json:
        console.print_json({**schema.to_dict(), "checks": schema.checks()})
    elif output is None:
        typer.echo(schema.dumps(), nl=False)
    for sentence in schema.checks():
        console.say(f"Check {sentence}")


@app.command()
def publish(
    source: options.Source,
    schema: options.SchemaFile,
    method: options.Method,
    output: options.ReleaseOutput,
    epsilon: options.Epsilon = None,
    gamma: options.Gamma = None,
    keep: options.Keep = None,
    rho1: options.Rho1 = None,
    rho2: options.Rho2 = None,
    compound: options.Compound = None,
    attributes: options.Attributes = None,
    neighbours: options.Neighbours = None,
    contribution: options.Contribution = None,
    person: options.Person = None,
    outside: options.Outside = "error",
    reveal: options.Reveal = False,
    table: options.Table = None,
    force: options.Force = False,
    insecure_seed: options.InsecureSeed = None,
    as_json: options.Json = False,
) -> None:
    """Publish a table under a stated privacy promise."""
    from scumble.engine.source import open_source

    parameters = {
        "epsilon": epsilon,
        "gamma": gamma,
        "keep": keep,
        "rho1": rho1,
        "rho2": rho2,
        "several": None if compound is None else "compound" if compound else "each",
        "attributes": [n.strip() for part in attributes or () for n in part.split(",")] or None,
        "neighbours": neighbours,
        "contribution": contribution,
        "person": person,
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    mechanism = _make(method, given)
    if output.exists() and not force:
        # Saving would refuse it as well, but only after the work.
        raise ReleaseError(f"{output} exists already. Choose another folder, or add --force.")
    rows = open_source(source, table=table)
    with console.progress("Publishing", rows.rows) as progress:
        release = scumble.publish(
            rows,
            scumble.Schema.load(schema),
            mechanism,
            outside=outside,  # type: ignore[arg-type]  # checked there, with the right sentence
            reveal=reveal,
            seed=insecure_seed,
            progress=progress,
        )
        release.save(output, force=force, insecure=insecure_seed is not None)
    for remark in (*release.remarks, *listing.warnings(release)):
        console.say(f"Note: {remark}")
    if as_json:
        console.print_json({"release": str(output), **listing.manifest(output)})
    else:
        listing.show_published(release, output)


@app.command()
def show(folder: options.ReleaseFolder, as_json: options.Json = False) -> None:
    """Show what a release is and what it promises."""
    release = scumble.open(folder)
    if as_json:
        console.print_json(listing.manifest(folder))
    else:
        listing.show_release(release, folder)


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
    from scumble.noise.law import check_level

    text = _question(sql, file)
    level = check_level(level)
    answer = scumble.open(folder).answer(text, tables=_side_tables(side or []), clamp=clamp)
    if as_json:
        console.print_json(listing.answer_fields(answer, level))
    else:
        listing.show_answer(answer, level)


@app.command()
def methods(as_json: options.Json = False) -> None:
    """List the methods to publish with, and what each promises."""
    if as_json:
        console.print_json(listing.method_fields())
    else:
        listing.show_methods()


@app.command()
def demo(
    output: options.DemoFolder = Path("scumble-demo"),
    people: options.People = 100_000,
    report: options.Report = True,
    show_page: options.OpenPage = False,
) -> None:
    """Publish fictitious people and compare answers with the truth."""
    from scumble.demo.story import tell

    with console.steps() as step:
        story = tell(people, output, step, report=report)
    listing.show_story(story, output)
    if show_page and report:
        typer.launch(str(output / "report.html"))


@app.command()
def version(as_json: options.Json = False) -> None:
    """Show the version of scumble."""
    if as_json:
        console.print_json({"version": __version__})
    else:
        _version(True)


def _make(method: str, given: dict[str, Any]) -> Mechanism:
    """The mechanism, or a sentence about the options that it needs or does not know."""
    from scumble.mechanism import create

    kind = scumble.mechanisms().get(method)
    known = inspect.signature(kind).parameters if kind else {}
    strange = [f"--{name}" for name in given if kind and name not in known]
    if strange:
        raise ParameterError(f"The method '{method}' has no option {' or '.join(strange)}.")
    needed = [n for n, p in known.items() if p.default is p.empty and n not in given]
    if needed:
        options = " and ".join(f"--{name}" for name in needed)
        raise ParameterError(f"The method '{method}' needs {options}.")
    return create(method, **given)


def _question(sql: str | None, file: Path | None) -> str:
    """The SQL text, from the one place that was named."""
    if (sql is None) == (file is None):
        raise ParameterError("Give the question as one argument, as - for stdin, or with --file.")
    if file is None:
        return sys.stdin.read() if sql == "-" else str(sql)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParameterError(f"The file '{file}' is not UTF-8 text.") from None


def _side_tables(given: list[str]) -> dict[str, pa.Table]:
    """The public tables of `--with name=file`."""
    from scumble.engine.side import side_table

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
        app()
    except KeyboardInterrupt:
        sys.exit(console.INTERRUPTED)
