"""Options of `scumble publish` and of the commands that change a release.

The options for the parameters of mechanisms are in generated_options.py. `take_mechanism_options`
gives them to a command, and `mechanism_parameters` turns their values into arguments of a
mechanism.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from scumble.cli import options
from scumble.cli.generated_options import METHODS, OPTIONS
from scumble.model.errors import ParameterError

# --- what to publish, and where ------------------------------------------------------------------

Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="How to publish: see `scumble methods`.",
        autocompletion=lambda: list(METHODS),
    ),
]
ReleaseOutput = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the release.")
]
ReleaseAddress = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="ADDRESS",
        help="Table for the release: postgresql://user@host/database/schema.name or "
        "sqlite:///file.db/name.",
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="VALUE",
        help="Only the rows of this part: a value of the --parts column of the ledger.",
    ),
]
Sample = Annotated[
    float | None,
    typer.Option(
        "--sample",
        metavar="SHARE",
        help="Draw this share of the people, in secret: a stronger promise, a larger error.",
    ),
]
Levels = Annotated[
    str | None,
    typer.Option(
        "--levels",
        metavar="NUMBERS",
        help="aroma: one nested view for each k, --k the largest: 5,20,49.",
    ),
]
Book = Annotated[
    Path | None,
    typer.Option(
        "--book",
        metavar="FILE",
        help="Where to keep the private record: aroma with --identifier, alphabeta with --views.",
    ),
]
SourceQuery = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="A SELECT to read from postgresql://..."),
]
PublishJobs = Annotated[
    int,
    typer.Option(
        "--jobs", "-j", metavar="NUMBER", help="Processes that read and perturb rows; same release."
    ),
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="CHOICE", help="Where rows are read: local or spark."),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="ADDRESS", help="spark: its master, as spark://host:7077."),
]
Staging = Annotated[
    Path | None,
    typer.Option(
        "--staging",
        metavar="FOLDER",
        help="spark: a private folder that all its machines see under this path.",
    ),
]
InsecureCluster = Annotated[
    bool,
    typer.Option("--insecure-cluster", help="spark: run although it does not encrypt its network."),
]
Reveal = Annotated[bool, typer.Option("--reveal", help="Let messages quote private values.")]
InsecureSeed = Annotated[
    int | None,
    typer.Option(
        "--insecure-seed", metavar="NUMBER", help="Draw from a fixed seed. NOT PRIVATE; for tests."
    ),
]


@contextmanager
def opened_engine(
    engine: str,
    master: str | None,
    staging: Path | None,
    insecure_cluster: bool,
) -> Iterator[Any]:
    """Yield the engine of `publish` that the options name: None for this machine."""
    if engine not in ("local", "spark"):
        raise ParameterError.of("publish", "engine", "'local' or 'spark'", engine)
    if engine == "local":
        if master is not None or staging is not None or insecure_cluster:
            raise ParameterError(
                "--master, --staging and --insecure-cluster are for --engine spark."
            )
        yield None
        return
    if master is None:
        raise ParameterError("--engine spark needs --master, such as --master spark://host:7077.")
    from scumble.private.engines.spark import Spark
    from scumble.private.engines.spark_session import spark_session

    with spark_session(master) as session:
        yield Spark(session, staging=staging, insecure_cluster=insecure_cluster)


# --- parameters of mechanisms --------------------------------------------------------------------


class MechanismOption(NamedTuple):
    """How the command line gives one parameter of a mechanism.

    `kind` says how the text is read; `words` are accepted in place of numbers or of a file. A
    "pair" has two flags, for True and False or for the two words.
    """

    kind: str
    flags: str
    placeholder: str
    help: str
    words: str

    @property
    def name(self) -> str:
        """The first flag, which messages name."""
        return self.flags.split()[0].partition("/")[0]

    def annotation(self) -> Any:
        """Return the option as typer reads it."""
        kind = _TYPES.get(self.kind, str) | None
        option = typer.Option(
            *self.flags.split(),
            metavar=self.placeholder or None,
            help=self.help,
            show_default=self.kind != "pair",
        )
        return Annotated[kind, option]

    def read(self, parameter: str, value: Any) -> Any:
        """Return the argument of the mechanism for the value of the option."""
        if self.kind == "pair" and self.words:
            return self.words.split()[not value]
        if self.kind == "file":
            return Path(value)
        if self.kind == "names":
            return options.columns(value)
        if self.kind == "sets":
            return [options.columns([part]) for part in value]
        if self.kind == "numbers" and value not in self.words.split():
            return value.split(",")
        if self.kind == "json" and value not in self.words.split():
            return _json_file(parameter, Path(value))
        whole = parameter in _MAY_BE_WHOLE and value.is_integer()
        return int(value) if whole else value


_TYPES: dict[str, Any] = {
    "number": float,
    "whole": int,
    "flag": bool,
    "pair": bool,
    "names": list[str],
    "sets": list[str],
}
_MAY_BE_WHOLE = ("k", "closeness")  # numbers that a manifest shows as they were written
# A parameter that is given in another way for another method has an option of its own.
_RENAMED = {
    ("generalise", "suppress"): "suppress_share",
    ("generalise", "weights"): "column_weights",
    ("keys", "within"): "within_column",
}
MECHANISM_OPTIONS = {name: MechanismOption(*row) for name, row in OPTIONS.items()}


def take_mechanism_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `**parameters` an option for each parameter of a mechanism."""
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, keyword, default=None, annotation=option.annotation())
        for name, option in MECHANISM_OPTIONS.items()
    ]
    return options.with_signature(command, [*own, *more])


def option_of(method: str, parameter: str) -> str:
    """Return the name of the option that gives a parameter of a method."""
    return _RENAMED.get((method, parameter), parameter)


def mechanism_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a mechanism for the options that were given (not None)."""
    parameters = {option: parameter for (_, parameter), option in _RENAMED.items()}
    return {
        parameters.get(name, name): MECHANISM_OPTIONS[name].read(name, value)
        for name, value in given.items()
        if value is not None
    }


def check_one_place(what: str, output: Path | None, to: str | None) -> None:
    """Refuse a command with no place for its result, or with two; `what` is as "release goes"."""
    if output is not None and to is not None:
        raise ParameterError(f"Say where the {what} by --output or --to, not both.")
    if output is None and to is None:
        raise ParameterError(f"Say where the {what}: --output FOLDER or --to ADDRESS.")


def _json_file(parameter: str, path: Path) -> Any:
    """Read public weights or a taxonomy, which are too long for the command line."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError):
        allowed = "a readable file of JSON"
        raise ParameterError.of("publish", parameter, allowed, str(path)) from None
