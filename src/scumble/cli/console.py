"""The console: results on stdout, everything else on stderr, errors as one sentence.

`application` makes a program whose errors become a sentence and an exit code. `ShellDialect` makes
messages name options where the Python interface names parameters. rich is imported when something
is drawn, so that `scumble --help` does not wait for it.
"""

from __future__ import annotations

import gc
import io
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from scumble.cli.signals import STOPPED, exit_code, exit_on_signals, interrupted
from scumble.model.errors import (
    Dialect,
    ParameterError,
    QueryError,
    ScumbleError,
    nearest_name,
    using_dialect,
)
from scumble.model.stored import CONTROL

if TYPE_CHECKING:
    from rich.console import Console

SYSTEM, BUG = 1, 70
_COMPLETION = ("install_completion", "show_completion")  # of typer; the documentation has them


@dataclass
class Settings:
    """What holds for a whole run: options before the command, --json, and the command itself."""

    debug: bool = False
    json: bool = False
    command: Any = None  # the click command that runs


def settings(context: typer.Context) -> Settings:
    """Return the settings of the run that `context` belongs to."""
    found: Settings = context.find_root().ensure_object(Settings)
    return found


_running = Settings()  # of the run that began last: a process has one


def prints_json() -> bool:
    """Return whether the command that runs prints JSON."""
    return _running.json


class ErrorReportingGroup(TyperGroup):
    """A group of commands that reports every error as one sentence and an exit code.

    Its help has the commands in `sections`, and a name of `old_names` tells the new one.
    """

    sections: ClassVar[Mapping[str, Iterable[str]]] = {}
    old_names: ClassVar[Mapping[str, str]] = {}

    def invoke(self, ctx: Any) -> Any:
        """Run the command; raise `typer.Exit` with the exit code if it fails."""
        global _running  # threads that show progress have no context
        _running = settings(ctx)
        try:
            with using_dialect(ShellDialect(lambda: settings(ctx).command)):
                result = super().invoke(ctx)
            # A closed pipe must be noticed here, not when the interpreter exits.
            sys.stdout.flush()
        except (ScumbleError, KeyboardInterrupt, typer.Abort, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):
                _drop_output()
                raise typer.Exit(SYSTEM) from None
            raise typer.Exit(_report(error, settings(ctx))) from None
        except Exception as error:
            # Exceptions of typer and click show themselves, except for numbers and as JSON.
            if type(error).__module__.partition(".")[0] in ("typer", "click"):
                _suggest_nearest(error)
                if (wrong := _wrong_option(error, settings(ctx))) is None:
                    raise
                raise typer.Exit(_report(wrong, settings(ctx))) from None
            raise typer.Exit(_report(error, settings(ctx))) from None
        return result

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and remember it: messages name its options."""
        for old in (" ".join(args[:2]), args[0]):
            if old in self.old_names and old not in self.commands:
                new = f"scumble {self.old_names[old]}"
                raise ParameterError(f"`scumble {old}` is now `{new}`.")
        settings(ctx).json = "--json" in args  # also if the command fails to read its options
        _, command, rest = found = super().resolve_command(ctx, args)
        while rest and rest[0] in (inner := getattr(command, "commands", {})):
            command, rest = inner[rest[0]], rest[1:]
        settings(ctx).command = command
        return found

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by sections, and the options below them."""
        if not self.sections:
            super().format_options(ctx, formatter)
            return
        width = max(map(len, self.commands))
        limit = formatter.width - width - 6
        for title, names in self.sections.items():
            shown = [name for name in names if name in self.commands]
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in shown
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        params = [each for each in self.get_params(ctx) if each.name not in _COMPLETION]
        records = [each.get_help_record(ctx) for each in params]
        with formatter.section("Options"):
            formatter.write_dl([each for each in records if each is not None])


Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="SCUMBLE_DEBUG",
        show_envvar=False,
        help="Show a traceback; it may show private values.",
    ),
]


def application(
    name: str,
    purpose: str,
    sections: Mapping[str, Iterable[str]] | None = None,
    old_names: Mapping[str, str] | None = None,
) -> typer.Typer:
    """Return an empty program of this name, with the option --debug. `purpose` heads its help, and
    `sections` and `old_names` are those of `ErrorReportingGroup`.
    """
    known = {"sections": sections or {}, "old_names": old_names or {}}
    found = typer.Typer(
        name=name,
        cls=type("Commands", (ErrorReportingGroup,), known),
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
        say(STOPPED)
        sys.exit(exit_code())


def keep_imported() -> None:
    """Exempt all objects so far from garbage collection; call it after imports.

    Modules live as long as the process, whose end would search them for cycles in vain. Objects of
    DuckDB must not be among them: it reports those that are not collected in the end.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


def _report(error: BaseException, wanted: Settings) -> int:
    """Print an error on stderr, as text or JSON; return the exit code."""
    sentence, code = _explain(error)
    if wanted.debug:
        traceback.print_exception(error, file=sys.stderr)
    if wanted.json:
        fields: dict[str, Any] = {"error": sentence, "kind": type(error).__name__}
        if isinstance(error, QueryError):
            fields |= {"error": error.message, "line": error.line, "column": error.column}
        sentence = json.dumps(fields | {"exit_code": code}, ensure_ascii=False)
    elif sentence != STOPPED:
        sentence = f"Error: {sentence}"
    say(sentence)
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    """Return a sentence that holds nothing private, and the exit code."""
    if isinstance(error, ScumbleError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):  # the latter at a prompt
        return STOPPED, exit_code()
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"The system refused: {error.strerror}{where}.", SYSTEM
    if isinstance(error, MemoryError):
        return "There is not enough memory for this.", SYSTEM
    if interrupted():
        return STOPPED, exit_code()
    # The message of an unexpected error may quote a private value, so it is not shown.
    kind = type(error).__name__
    hint = "scumble --debug ... shows where, and may show private values"
    return f"This is a mistake in scumble ({kind}); {hint}.", BUG


# What a number must be, by the error type of pydantic, which reads the options of typer.
_ALLOWED_NUMBERS = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than_equal": "at least {ge:g}",
    "greater_than": "above {gt:g}",
    "less_than_equal": "at most {le:g}",
    "less_than": "below {lt:g}",
}


def _wrong_option(error: Exception, wanted: Settings) -> ParameterError | None:
    """Return the error for an option that is not the number it must be, and as JSON for any other;
    None if typer shall show it, with how the command is used.
    """
    option, found = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    first = {} if option is None or found is None else found()[0]
    allowed = _ALLOWED_NUMBERS.get(first.get("type", ""))
    if option is None or allowed is None:
        shown = getattr(error, "format_message", None)
        return ParameterError(shown()) if wanted.json and shown is not None else None
    allowed = allowed.format(**first.get("ctx", {}))
    with using_dialect(ShellDialect(lambda: wanted.command)):
        return ParameterError.of("the command", str(option.name), allowed, first["input"])


def _suggest_nearest(error: Exception) -> None:
    """Let the error of an unknown option name the nearest option, if one is near, and no other."""
    known = getattr(error, "possibilities", None)
    if known:
        found = nearest_name(str(getattr(error, "option_name", "")), sorted(known))
        error.possibilities = None if found is None else [found]  # type: ignore[attr-defined]


def _drop_output() -> None:
    """Point stdout at the null device, so that the interpreter can close it without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


PIPE_COLUMNS = 10_000  # no line is broken in a file or a pipe
# What tells rich how to draw, besides the kind of the terminal.
_DRAWING = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def stdout() -> Console:
    """Return the console for results."""
    return _console_class()(highlight=False, width=None if on_terminal() else PIPE_COLUMNS)


def plain_width() -> int | None:
    """Return the width of the lines of results; None where only rich knows how to draw."""
    if not os.environ.keys().isdisjoint(_DRAWING) or os.name == "nt" or not _writes_unicode():
        return None
    if not on_terminal():
        return PIPE_COLUMNS
    if "COLUMNS" in os.environ or os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown"):
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def terminal_width() -> int | None:
    """Return how many columns the terminal of stdout has; None in a file or a pipe."""
    import shutil

    return shutil.get_terminal_size().columns if on_terminal() else None


def on_terminal() -> bool:
    """Return whether stdout is a terminal, not a file or a pipe."""
    return sys.stdout.isatty()


def stderr() -> Console:
    """Return the console for everything that is not a result."""
    return _console_class()(highlight=False, stderr=True)


def say(sentence: str) -> None:
    """Print a sentence that is not the result, on stderr."""
    typer.echo(visible(sentence), err=True)


_STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m"}


def echo(text: str = "", style: str = "", *, nl: bool = True) -> None:
    """Print a text of the result; `style`, "bold" or "dim", is for terminals that can show it.

    A letter that the encoding of stdout lacks is shown as a replacement.
    """
    text = visible(text)
    if style and on_terminal() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
        text = f"{_STYLES[style]}{text}\x1b[0m"
    sys.stdout.write(f"{text}\n" if nl else text)
    sys.stdout.flush()


def visible(text: str) -> str:
    r"""Return a text for a terminal, with control characters written like \x1b.

    Names and sentences of a release come from others, who could repaint the terminal by them. Line
    breaks stay.
    """
    return CONTROL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if character in "\n\t":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


@cache
def _console_class() -> type[Console]:
    """Return rich's console, which passes all texts through `visible`."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                if segment.control is None:
                    segment = segment._replace(text=visible(segment.text))
                yield segment

    return VisibleConsole


def print_json(value: object) -> None:
    """Print the result as JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=not _writes_unicode(), default=str)
    typer.echo(CONTROL.sub(_escaped_in_json, text))


def _writes_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _escaped_in_json(found: re.Match[str]) -> str:
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


# --- names of options in messages ----------------------------------------------------------------

# Options whose name differs from the parameter that they give.
_OPTION_NAMES = {
    "analyst": "quota",
    "batches": "batch",
    "children": "columns",
    "ids": "identifiers",
    "keys": "key",
    "quotas": "quota",
    "seed": "insecure_seed",
    "tables": "side",
    "weights": "weight",
    "with": "side",
}


class ShellDialect(Dialect):
    """Names parameters by the options of the command that runs.

    A parameter without an option there is named by its own name with dashes, as `publish` does.
    """

    def __init__(self, running: Callable[[], Any]) -> None:
        self._running = running

    def name(self, parameter: str) -> str:
        found = self._option(parameter)
        return _dashed(parameter) if found is None else _shown(found)

    def setting(self, parameter: str, value: object) -> str:
        found = self._option(parameter)
        if value is False and found is not None and found.secondary_opts:
            return str(found.secondary_opts[0])
        if isinstance(value, dict):
            pairs = ",".join(f"{key}={each}" for key, each in value.items())
            return f"{self.name(parameter)} {shlex.quote(pairs)}"
        if isinstance(value, bool):
            return self.name(parameter) if value else f"no {self.name(parameter)}"
        return f"{self.name(parameter)} {shlex.quote(str(value))}"

    def subject(self, owner: str, parameter: str) -> str:
        """Return the option, or parameter and owner if the command has no such option."""
        found = self._option(parameter)
        return super().subject(owner, parameter) if found is None else _shown(found)

    def listed(self, values: list[str | int] | tuple[str | int, ...]) -> str:
        return repr(",".join(map(str, values)))

    def literal(self, value: object) -> str:
        if value is None:
            return "nothing"
        return f"{value:.15g}" if isinstance(value, float) else repr(value)

    def _option(self, parameter: str) -> Any:
        """Return the option or argument of the running command that gives a parameter."""
        known = {each.name: each for each in getattr(self._running(), "params", ())}
        return known.get(parameter) or known.get(_OPTION_NAMES.get(parameter, ""))


def _shown(option: Any) -> str:
    """Return how help shows an option or argument, without the marks of optional arguments."""
    first = str(option.opts[0])
    return first if first.startswith("-") else str(option.metavar or first.upper()).strip("[].")


def _dashed(parameter: str) -> str:
    return f"--{_OPTION_NAMES.get(parameter, parameter).replace('_', '-')}"
