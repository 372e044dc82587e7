"""Options that commands share, and how their values are read.

An option is an `Annotated` type, which a command uses as the annotation of a parameter. Options
that several commands take together are the fields of a dataclass: a command with `expand_groups`
takes the dataclass as one parameter.

typer makes a validator of pydantic, whose import takes as long as a question, for every option that
is given. Most values are texts, paths and plain numbers, which `PlainValue` converts. Every other
value goes to typer's validator, which converts or refuses it as ever.
"""

from __future__ import annotations

import csv
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer import core

from scumble.model.errors import OutputExistsError, ParameterError
from scumble.model.relational import is_address

# --- shared --------------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Table = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAME", help="The table to read in a DuckDB file or a database."
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="CSV (also .gz), Parquet (file, folder or 'glob*'), DuckDB file or "
        "postgresql://... with --table.",
    ),
]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="LEDGER", help="The owner's ledger to charge: see `scumble ledger`."
    ),
]
Outside = Annotated[
    str,
    typer.Option("--outside", metavar="CHOICE", help="Values outside: error, drop or missing."),
]
Seal = Annotated[
    str | None,
    typer.Option(
        "--seal", metavar="TEXT", help="What verify said at an earlier time: a number and a hash."
    ),
]
ReleaseFolder = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE",
        help="Folder of a release, postgresql://user@host/database/schema.name, or "
        "sqlite:///file.db/name.",
    ),
]

# --- schema infer --------------------------------------------------------------------------------

Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", metavar="COLUMNS", help="Columns to protect, as A,B; repeatable."),
]
Identifier = Annotated[
    list[str] | None,
    typer.Option("--identifier", metavar="COLUMNS", help="Columns never to publish; repeatable."),
]
Insensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--insensitive",
        metavar="COLUMNS",
        help="Columns that neither identify nor need protection; repeatable.",
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="COLUMN=TYPE",
        help="A column is a category, integer, number, binned, boolean, date, set or sequence, as "
        "zip=category; or in a spelling, as admitted=%d/%m/%Y, cost=decimal_comma or "
        "cost=decimal_point; repeatable, or as A=category,B=integer.",
    ),
]
Basket = Annotated[
    str | None,
    typer.Option(
        "--basket",
        metavar="COLUMN",
        help="One item a row: group the rows by this column.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option("--order", metavar="COLUMN", help="With --basket: sort the items by this column."),
]
Hierarchies = Annotated[
    bool,
    typer.Option("--hierarchies", help="Propose hierarchies of numbers, dates and codes, too."),
]
Neighbours = Annotated[
    str,
    typer.Option(
        "--neighbours",
        metavar="RELATION",
        help="Hide what a person's rows say (replace), or also that they are there (add_remove).",
    ),
]
SchemaOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: stdout]"),
]

# --- ask -----------------------------------------------------------------------------------------

Sql = Annotated[
    str | None, typer.Argument(metavar="SQL", help="The question; - reads it from stdin.")
]
SqlFile = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the question from a file.")
]
SideTables = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME=FILE|RELEASE",
        help="A public side table (CSV or Parquet), or another release of the same table, to "
        "answer from all releases together; repeatable.",
    ),
]
Level = Annotated[
    float,
    typer.Option("--level", metavar="SHARE", help="Probability that an interval holds the truth."),
]
Clamp = Annotated[
    bool, typer.Option("--clamp", help="Cut answers to what is possible (adds bias).")
]

# --- doctor --------------------------------------------------------------------------------------

ResultFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Where releases and databases will be written.  [default: this folder]",
        show_default=False,
    ),
]

# --- demo ----------------------------------------------------------------------------------------

DemoFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for what the demo makes.")
]
People = Annotated[
    int,
    typer.Option("--people", metavar="NUMBER", help="How many fictitious people.", min=1),
]
Report = Annotated[
    bool,
    typer.Option("--report/--no-report", help="Write a page with plots.", show_default=False),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]


_CONTAINS = re.compile(
    r"""(?:^|(?<=,))\s*(contains\([^()"',]+,\s*(?:'(?:[^']|'')*'|[+-]?\d+)\s*\))\s*(?=,|$)""",
    re.IGNORECASE,
)


def _in_quotes(found: re.Match[str]) -> str:
    return '"' + found[1].replace('"', '""') + '"'


def columns(given: list[str] | None) -> list[str]:
    """Return column names that were given one by one or as A,B.

    A name with a comma stands in double quotes, except for columns derived from lists.

    >>> columns(["age,sex", '"Weight, kg"', "zip,contains(items, 'milk')"])
    ['age', 'sex', 'Weight, kg', 'zip', "contains(items, 'milk')"]
    """
    derived = (_CONTAINS.sub(_in_quotes, each) for each in given or ())
    lines = csv.reader(derived, skipinitialspace=True)
    return [name.strip() for line in lines for name in line if name.strip()]


def types(given: list[str] | None) -> dict[str, str]:
    """Return the types of columns that were given as COLUMN=TYPE.

    >>> types(["zip=category,age=integer"])
    {'zip': 'category', 'age': 'integer'}
    """
    pairs = [each.rpartition("=") for each in columns(given)]
    for name, _, kind in pairs:
        if not name:
            allowed = "a column and a type, as zip=category"
            raise ParameterError.of("schema infer", "types", allowed, kind)
    return {name: kind for name, _, kind in pairs}


def question(sql: str | None, file: Path | None) -> str:
    """Return the SQL text of an argument, of stdin (for -), or of a file."""
    if (sql is None) == (file is None):
        raise ParameterError("Give the question as one argument, as - for stdin, or with --file.")
    if file is None:
        return sys.stdin.read() if sql == "-" else str(sql)
    return read_text(file)


def read_text(file: Path) -> str:
    """Return the text of a file that an option names."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParameterError(f"There is no file '{file}'.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"The file '{file}' is not UTF-8 text.") from None
    except OSError as error:
        raise ParameterError(f"The file '{file}' cannot be read: {error.strerror}.") from None


def refuse_existing(output: Path | None, *, force: bool) -> None:
    """Raise `OutputExistsError` if a file would be replaced without --force."""
    if output is not None and output.exists() and not force:
        raise OutputExistsError.of(output)


def numbers(option: str, allowed: str, pairs: list[str] | None) -> dict[str, float] | None:
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


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass of options by its fields.

    The command is called with an object of the dataclass. The options must be defined before the
    command.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Mapping[str, inspect.Parameter]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            fields = inspect.signature(parameter.annotation, eval_str=True).parameters
            groups[parameter.name] = fields
            parameters += groups[parameter.name].values()
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, fields in groups.items():
            values = {field: given.pop(field) for field in fields}
            given[name] = signature.parameters[name].annotation(**values)
        command(**given)

    return with_signature(expanded, parameters)


def with_signature(
    command: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Make `command` show these parameters to typer, all by name; return it."""
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    shown: Any = command
    shown.__signature__ = inspect.Signature(named)
    shown.__annotations__ = {each.name: each.annotation for each in named}
    return command


def rows_of(source: object, table: str | None = None) -> Callable[[], int | None]:
    """Return a function that estimates the number of rows of a source, for a progress bar."""

    def expected() -> int | None:
        from scumble.private.tables.open import expected_rows

        return expected_rows(source, table)

    return expected


def side_tables(given: Iterable[str] | None) -> dict[str, Any]:
    """Return the public tables of `--with NAME=FILE`, by name."""
    tables = {}
    for pair in given or ():
        name, _, path = pair.partition("=")
        if is_release_place(pair):
            raise ParameterError(f"--with {pair} is a release, which only releases are asked with.")
        if not name or not path:
            raise ParameterError.of(
                "ask", "with", "NAME=FILE, or the folder of another release", pair
            )
        from scumble.public.side_tables import side_table

        tables[name] = side_table(path)
    return tables


def is_release_place(given: str) -> bool:
    """Return whether a value of `--with` is the place of a release, not NAME=FILE."""
    return is_address(given) or ("=" not in given and Path(given).is_dir())


# --- plain values, read without pydantic ----------------------------------------------------------

_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class PlainValue:
    """Converts the plain values of one parameter, and leaves the others to typer."""

    def __init__(self, descriptor: Any, build: Callable[[Any], Any]) -> None:
        self._descriptor, self._build = descriptor, build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the type of the parameter. The parameters are those of typer."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        found = _converted(value, self._descriptor.annotation, self._descriptor.parameter_info)
        if found is None or (several and isinstance(value, str)):
            return self._build(self._descriptor).coerce(value, param=param, ctx=ctx)
        return found


def read_plain_values() -> None:
    """Let all parameters of typer read plain values by `PlainValue`.

    A version of typer without the function that is replaced here reads them as it does.
    """
    build: Any = getattr(core, "build_runtime_param", None)
    if build is not None:
        core.build_runtime_param = lambda descriptor: PlainValue(descriptor, build)  # type: ignore


def _converted(value: Any, annotation: Any, info: Any) -> Any:
    """Return the value as the type of the annotation; None if typer has to convert it."""
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        [inner] = get_args(annotation)
        found = [_converted(each, inner, info) for each in value]
        return None if any(each is None for each in found) else found
    if getattr(info, "parser", None) is not None:
        return None
    if annotation is str:
        return value if isinstance(value, str) else None
    if annotation is Path:
        return _path(value, info)
    if annotation in (int, float):
        return _number(value, annotation, info)
    return None


def _path(value: Any, info: Any) -> Path | None:
    flags = (info.exists, info.writable, info.resolve_path, info.allow_dash, info.path_type)
    if any(flags) or not (info.file_okay and info.dir_okay) or not isinstance(value, str | Path):
        return None
    # typer refuses what exists and cannot be read.
    return Path(value) if os.access(value, os.R_OK) or not os.path.exists(value) else None


def _number(value: Any, kind: type, info: Any) -> Any:
    if type(value) is not kind:
        pattern = _WHOLE if kind is int else _NUMBER
        if not isinstance(value, str) or not pattern.fullmatch(value):
            return None
        value = kind(value)
    inside = (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if inside else None


read_plain_values()
