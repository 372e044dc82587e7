"""The program `scumble`: its commands by name, and how it starts.

Starting takes less time than anything else that a command does: the help is a text that is kept in
a file, and of the commands only the one that runs is imported.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import weakref
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.cli.signals import STOPPED, exit_code
from scumble.model.long_work import work_is_left
from scumble.model.no_pandas import WithoutPandas

if TYPE_CHECKING:
    import typer

    app: typer.Typer  # all commands; made when it is asked for

_PURPOSE = "Publish tables about people with privacy and error stated exactly."
# The commands by the sections of the help, in its order, each with its module; of a group of
# commands, the module and the name of the group in it.
_SECTIONS = {
    "Publish a table": {
        "demo": "commands",
        "schema": "schema:app",
        "recommend": "recommend",
        "compare": "compare",
        "publish": "publish_group:app",
        "release": "release:app",
        "audit": "audit",
    },
    "Use what was published": {
        "show": "commands",
        "ask": "ask",
        "rows": "groups.rows",
    },
    "Answer live, and keep account": {
        "db": "database:app",
        "ledger": "groups.ledger:app",
        "serve": "groups.server",
        "token": "groups.server:token_app",
        "doctor": "commands",
    },
}
_COMMANDS = {name: place for each in _SECTIONS.values() for name, place in each.items()}
# What commands were called before, and what is called now.
OLD_NAMES = {
    "query": "ask",
    "db ask": "ask",
    "db cost": "ask --preview",
    "db plot": "db status --output",
    "export": "rows",
    "methods": "publish --list",
    "select": "recommend",
    "advise": "recommend",
    "link": "publish linked",
    **{
        name: f"release {name}"
        for name in ("republish", "insert", "delete", "marginal", "top", "rules", "next")
    },
    "closed": "schema close",
    "server": "token",
    "version": "--version",
}
HELP = Path(__file__).with_name("help.txt")
_HELP_COLUMNS = 80  # a wider terminal shows the same
# New objects before the garbage collector looks for cycles: imports make many, and no garbage.
_NEW_OBJECTS = 100_000


def application(only: str | None = None) -> typer.Typer:
    """Return the program: with all commands, or for a quicker start with the one that is named."""
    from scumble.cli import commands, console

    found = console.application("scumble", _PURPOSE, _SECTIONS, OLD_NAMES)
    found.callback()(commands.start)
    for name, place in _COMMANDS.items():
        if only in (None, name):
            module, _, group = place.partition(":")
            if group:
                found.add_typer(getattr(import_module(f"scumble.cli.{module}"), group), name=name)
            else:
                found.command(name)(getattr(import_module(f"scumble.cli.{module}"), name))
    return found


def __getattr__(name: str) -> Any:
    """Return `app`, the program with all commands."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = application()
    return found


def main() -> None:
    """Run the `scumble` command."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    words = sys.argv[1:]
    if words in (["--help"], ["-h"]) and _help_is_known():
        _print_help()
        return
    try:
        _run(words)
    except SystemExit:
        if work_is_left():  # else the interpreter ends with complaints about objects in use
            sys.stdout.flush()
            sys.stderr.flush()
            weakref.finalize._exitfunc()  # type: ignore[attr-defined]  # removes temporary folders
            os._exit(exit_code())
        raise
    except KeyboardInterrupt:  # before the command has begun, or after it has ended
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(exit_code())
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has ended, and its code stands


def _run(words: Sequence[str]) -> None:
    """Run the command that stands first among the words, or else say which there are."""
    from scumble.cli import console

    sys.meta_path.insert(0, WithoutPandas())
    named = words[0] if words and words[0] in _COMMANDS else None
    try:
        console.run(application(named))
    finally:
        console.keep_imported()  # the interpreter ends without a search for cycles


def _help_is_known() -> bool:
    """Return whether the help is the text of `HELP`: a narrow terminal breaks lines elsewhere."""
    if "_SCUMBLE_COMPLETE" in os.environ:
        return False
    stated = os.environ.get("COLUMNS", "")
    if stated:
        return stated.isdecimal() and int(stated) >= _HELP_COLUMNS
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns >= _HELP_COLUMNS
    except (OSError, ValueError):  # no terminal
        return True


def _print_help() -> None:
    try:
        sys.stdout.write(HELP.read_text("ascii"))
        sys.stdout.flush()
    except BrokenPipeError:  # the interpreter would report it once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
