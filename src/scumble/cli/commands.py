"""The commands that need no file of their own: show, demo, doctor.

Heavy imports are inside the commands, so that one does not wait for what another needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scumble._version import __version__
from scumble.cli import bars, console, options, printing, targets
from scumble.cli.ask import Target
from scumble.model.errors import ParameterError


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


def show(target: Target, as_json: options.Json = False) -> None:
    """Show what a release, a database or a data set promises."""
    kind = targets.kind_of(target)
    if kind in ("database", "live"):
        from scumble.cli import database

        database.status(target, as_json=as_json)
    elif kind == "server":
        with targets.connected(target) as dataset:
            facts = dataset.describe()
        if as_json:
            console.print_json(facts)
        else:
            printing.show_dataset(target, facts)
    elif kind == "wire":
        raise ParameterError(
            "The wire only answers questions: give the http address of the server, or a release "
            "as postgresql://user@host/database/schema.name."
        )
    else:
        _show_release(target, as_json)


def _show_release(place: str, as_json: bool) -> None:
    from scumble.public.archive.load import load_any
    from scumble.public.release import Release

    release = load_any(place)
    if not isinstance(release, Release):
        printing.show_linked(release, place, as_json)
    elif as_json:
        console.print_json(printing.manifest(release))
    else:
        printing.show_release(release, place)


def demo(
    output: options.DemoFolder = Path("scumble-demo"),
    people: options.People = 100_000,
    report: options.Report = True,
    show_page: options.OpenPage = False,
    force: options.Force = False,
) -> None:
    """Publish fictitious people and compare answers with the truth."""
    from scumble.demo.run import demo_steps, run_demo

    with bars.steps(demo_steps(report)) as step:
        story = run_demo(people, output, step, report=report, force=force)
    printing.show_story(story, output)
    if show_page and report:
        typer.launch(str(output / "report.html"))


def doctor(folder: options.ResultFolder = Path(), as_json: options.Json = False) -> None:
    """Say what this machine has for scumble, and what it lacks.

    Exit code 0 if scumble can work here, 1 if something that it needs is missing.
    """
    from scumble.cli.tools.doctor import report

    raise typer.Exit(report(folder, as_json))
