"""Stdout/stderr, errors, option names in messages.

How the command line speaks: results on stdout, everything else on stderr, no tracebacks.

Errors become one sentence and an exit code here, in one place. rich is imported when something is
drawn, so that `scumble --help` does not wait for it.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from scumble.cli.signals import exit_on_signals
from scumble.model.errors import Dialect, ParameterError, QueryError, ScumbleError, using_dialect

if TYPE_CHECKING:
    from rich.console import Console

SYSTEM, INTERRUPTED, BUG = 1, 130, 70


@dataclass
class Settings:
    """What was asked for the whole command line, not for one command."""

    debug: bool = False
    json: bool = False
    command: Any = None  # the one that runs


def settings(context: typer.Context) -> Settings:
    """The settings that belong to this run."""
    found: Settings = context.find_root().ensure_object(Settings)
    return found


class Careful(TyperGroup):
    """Runs a command and turns whatever goes wrong into one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; every way out that is not success ends in `typer.Exit`."""
        try:
            with using_dialect(ShellDialect(lambda: settings(ctx).command)):
                result = super().invoke(ctx)
            # A closed pipe must be noticed here, not by the interpreter on its way out.
            sys.stdout.flush()
        except (ScumbleError, KeyboardInterrupt, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):
                _drop_output()
                raise typer.Exit(SYSTEM) from None
            raise typer.Exit(_report(error, settings(ctx))) from None
        except Exception as error:
            # typer's own exceptions know how to show themselves; they and ours never overlap.
            if type(error).__module__.partition(".")[0] in ("typer", "click"):
                if (number := _no_number(error, settings(ctx))) is None:
                    raise
                raise typer.Exit(_report(number, settings(ctx))) from None
            raise typer.Exit(_report(error, settings(ctx))) from None
        return result

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Remember which command runs: sentences name its options."""
        _, command, rest = found = super().resolve_command(ctx, args)
        while rest and rest[0] in (inner := getattr(command, "commands", {})):
            command, rest = inner[rest[0]], rest[1:]
        settings(ctx).command = command
        return found


Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="SCUMBLE_DEBUG",
        help="Show a traceback on errors; it may show private values.",
    ),
]


def application(name: str, purpose: str) -> typer.Typer:
    """Return an empty program of this name, with the option --debug. `purpose` heads its help."""
    found = typer.Typer(
        name=name,
        cls=Careful,
        help=purpose,
        no_args_is_help=True,
        # Help is plain text: drawing boxes around it takes longer than everything else.
        rich_markup_mode=None,
        # A traceback with local variables could show private rows.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @found.callback()
    def start(context: typer.Context, debug: Debug = False) -> None:
        settings(context).debug = debug

    return found


def group(purpose: str) -> typer.Typer:
    """Return an empty group of commands. `purpose` heads its help, which is plain text too."""
    return typer.Typer(help=purpose, no_args_is_help=True, rich_markup_mode=None)


def run(application: typer.Typer, name: str | None = None) -> None:
    """Run a program with the arguments of this process; `name` is how its help calls it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Greek letters shows a replacement instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with exit_on_signals():
            application(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _report(error: BaseException, wanted: Settings) -> int:
    """Say on stderr what went wrong, as text or JSON; return the exit code."""
    sentence, code = _explain(error)
    if wanted.debug:
        traceback.print_exception(error, file=sys.stderr)
    if wanted.json:
        fields: dict[str, Any] = {"error": sentence, "kind": type(error).__name__}
        if isinstance(error, QueryError):
            fields |= {"error": error.message, "line": error.line, "column": error.column}
        sentence = json.dumps(fields | {"exit_code": code}, ensure_ascii=False)
    elif not isinstance(error, KeyboardInterrupt):
        sentence = f"Error: {sentence}"
    say(sentence)
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    """A sentence that holds nothing private, and the exit code."""
    if isinstance(error, ScumbleError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Stopped. Nothing was left half-written.", INTERRUPTED
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The system refused: {error.strerror}{where}.", SYSTEM
    if isinstance(error, MemoryError):
        return "There is not enough memory for this.", SYSTEM
    # The message of an error that nobody foresaw may quote a private value, so it stays unsaid.
    kind = type(error).__name__
    hint = "scumble --debug ... shows where, and may show private values"
    return f"This is a mistake in scumble ({kind}); {hint}.", BUG


# What is wrong with a number, in the words of those who read options for us, and in ours.
_NO_NUMBER = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "at least {ge:g}",
    "greater_than": "above {gt:g}",
    "less_than_equal": "at most {le:g}",
    "less_than": "below {lt:g}",
}


def _no_number(error: Exception, wanted: Settings) -> ParameterError | None:
    """Our sentence about an option that is not the number it must be; None for other mistakes."""
    option, found = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if option is None or found is None:
        return None
    first = found()[0]
    allowed = _NO_NUMBER.get(first["type"])
    if allowed is None:
        return None
    allowed = allowed.format(**first.get("ctx", {}))
    with using_dialect(ShellDialect(lambda: wanted.command)):
        return ParameterError.of("the command", str(option.name), allowed, first["input"])


def _drop_output() -> None:
    """Point stdout at nothing, so that the interpreter does not complain when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout() -> Console:
    """Where results go; in a pipe lines are not folded to the width of a screen."""
    from rich.console import Console

    return Console(highlight=False, width=None if watched() else 160)


def watched() -> bool:
    """Whether results go to a person rather than into a file or a pipe."""
    return sys.stdout.isatty()


def stderr() -> Console:
    """Where everything that is not a result goes."""
    from rich.console import Console

    return Console(highlight=False, stderr=True)


def say(sentence: str) -> None:
    """Tell the person something that is not the result."""
    typer.echo(sentence, err=True)


def print_json(value: object) -> None:
    """The result for a program to read."""
    readable = (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(value, indent=2, ensure_ascii=not readable, default=str))


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr that takes the number of rows done so far, or None where nobody watches.

    It shows a share and the time, never a number of rows: that may be private.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.update(task, completed=rows)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Says on stderr what is being done: a spinner for a person, plain lines for a file."""
    if not sys.stderr.isatty():
        yield say
        return
    with stderr().status("") as status:
        yield lambda sentence: status.update(f"{sentence} …")


# The dialect of the command line: parameters are called by the options of the running command.

# Where an option is not called like the parameter that it gives.
_CALLED = {
    "analyst": "quota",
    "batches": "batch",
    "head": "seal",
    "ids": "identifiers",
    "quotas": "quota",
    "seed": "insecure_seed",
    "several": "compound",
    "tables": "side",
    "weights": "weight",
    "with": "side",
}
# What Python says with words, the command line with one of two flags.
_FLAGS = {("several", "compound"): True, ("several", "each"): False}


class ShellDialect(Dialect):
    """The words of the command that runs; where it has no such option, what `publish` has."""

    def __init__(self, running: Callable[[], Any]) -> None:
        self._running = running

    def name(self, parameter: str) -> str:
        found = self._option(parameter)
        return _dashed(parameter) if found is None else _shown(found)

    def setting(self, parameter: str, value: object) -> str:
        flag = _FLAGS.get((parameter, value), value) if isinstance(value, str) else value
        found = self._option(parameter)
        if flag is False and found is not None and found.secondary_opts:
            return str(found.secondary_opts[0])
        if isinstance(flag, bool):
            return self.name(parameter) if flag else f"no {self.name(parameter)}"
        return f"{self.name(parameter)} {shlex.quote(str(value))}"

    def subject(self, owner: str, parameter: str) -> str:
        """The option; what was not typed as one keeps its owner, such as a method to compare."""
        found = self._option(parameter)
        return super().subject(owner, parameter) if found is None else _shown(found)

    def listed(self, values: list[str | int] | tuple[str | int, ...]) -> str:
        return repr(",".join(map(str, values)))

    def literal(self, value: object) -> str:
        if value is None:
            return "nothing"
        return f"{value:.15g}" if isinstance(value, float) else repr(value)

    def _option(self, parameter: str) -> Any:
        """The option or argument of the running command that gives a parameter."""
        known = {each.name: each for each in getattr(self._running(), "params", ())}
        return known.get(parameter) or known.get(_CALLED.get(parameter, ""))


def _shown(option: Any) -> str:
    first = str(option.opts[0])
    return first if first.startswith("-") else str(option.metavar or first.upper())


def _dashed(parameter: str) -> str:
    return f"--{_CALLED.get(parameter, parameter).replace('_', '-')}"
