"""The commands that need no file of their own: schema infer, show, query, demo, doctor.

Heavy imports are inside the commands, so that one does not wait for what another needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scumble._version import __version__
from scumble.cli import bars, console, options, printing
from scumble.public.limits import QuestionLimits

_SHOWN_VALUES = 40  # of a list in a schema that is printed on a terminal
_UNPROTECTED = (
    "No column is sensitive. Methods that publish counts need none; most that publish rows protect "
    "sensitive columns only, and publish the others as they are. Name one with --sensitive COLUMN, "
    'or write role = "sensitive" there.'
)
schema_app = console.group("Work with schemas: the public description of a table.")


def _show_version(wanted: bool) -> None:
    if wanted:
        console.echo(f"scumble {__version__}")
        raise typer.Exit


def start(
    context: typer.Context,
    debug: console.Debug = False,
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Read the options that stand before the command."""
    console.settings(context).debug = debug


@schema_app.command("infer")
def infer(
    source: options.Source,
    sensitive: options.Sensitive = None,
    identifier: options.Identifier = None,
    insensitive: options.Insensitive = None,
    types: options.Types = None,
    hierarchies: options.Hierarchies = False,
    table: options.Table = None,
    basket: options.Basket = None,
    order: options.Order = None,
    output: options.SchemaOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Propose a schema for a table, and say what to check in it."""
    from scumble.model.schema.schema import Schema

    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        schema = Schema.infer(
            source,
            sensitive=options.columns(sensitive),
            identifier=options.columns(identifier),
            insensitive=options.columns(insensitive),
            types=options.types(types),
            hierarchies=hierarchies,
            table=table,
            basket=basket,
            order=order,
            progress=progress,
        )
    if output is not None:
        schema.save(output, force=force)
        console.say(f"Wrote {output}.")
    protected = any("sensitive" in (a.role, a.to_fill_in) for a in schema)
    unprotected = [] if protected else [_UNPROTECTED]
    if as_json:
        console.print_json({**schema.to_dict(), "checks": schema.checks() + unprotected})
    elif output is None:
        console.echo(schema.dumps(most=_SHOWN_VALUES if console.on_terminal() else None), nl=False)
    for sentence in schema.checks():
        console.say(f"Check {sentence}")
    for sentence in unprotected:
        console.say(sentence)
    if schema.to_fill_in:
        where = "above" if output is None else f"in {output}"
        console.say(
            f"No domain could be proposed for {', '.join(schema.to_fill_in)}: write it {where}, at "
            "the places marked FILL IN. Until then no command reads the schema."
        )


def show(folder: options.ReleaseFolder, as_json: options.Json = False) -> None:
    """Show what a release is and what it promises."""
    from scumble.public.archive.load import load_any
    from scumble.public.release import Release

    release = load_any(folder)
    if not isinstance(release, Release):
        printing.show_linked(release, folder, as_json)
    elif as_json:
        console.print_json(printing.manifest(release))
    else:
        printing.show_release(release, folder)


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

    COUNT(*), SUM(e) or AVG(e), with WHERE and GROUP BY; the table may have any name. In a release
    of several tables FROM names one of them, or joins them.
    """
    from scumble.model.laws.base import check_level
    from scumble.public.archive.load import load_any

    console.keep_imported()
    text = options.question(sql, file)
    level = check_level(level)
    most = QuestionLimits.current().seconds  # of a statement of DuckDB only this is known
    with bars.working(f"Answering, for {most:g} seconds at most"):
        answer = load_any(folder).answer(text, tables=options.side_tables(side), clamp=clamp)
    if as_json:
        printing.print_answer(answer, level)
    else:
        printing.show_answer(answer, level)


def demo(
    output: options.DemoFolder = Path("scumble-demo"),
    people: options.People = 100_000,
    report: options.Report = True,
    show_page: options.OpenPage = False,
) -> None:
    """Publish fictitious people and compare answers with the truth."""
    from scumble.demo.run import demo_steps, run_demo

    with bars.steps(demo_steps(report)) as step:
        story = run_demo(people, output, step, report=report)
    printing.show_story(story, output)
    if show_page and report:
        typer.launch(str(output / "report.html"))


def doctor(folder: options.ResultFolder = Path(), as_json: options.Json = False) -> None:
    """Say what this machine has for scumble, and what it lacks.

    Exit code 0 if scumble can work here, 1 if something that it needs is missing.
    """
    from scumble.cli.tools.doctor import report

    raise typer.Exit(report(folder, as_json))


def version(as_json: options.Json = False) -> None:
    """Show the version of scumble."""
    if as_json:
        console.print_json({"version": __version__})
    else:
        _show_version(True)
