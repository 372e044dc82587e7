"""The command link: several tables about the same people, published under one promise."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from scumble.cli import bars, console, options, printing, publish_options
from scumble.model.errors import ParameterError
from scumble.model.schema.toml import nearest
from scumble.public.archive.relations import check_can_write_linked

Tables = Annotated[
    Path, typer.Argument(metavar="TABLES.toml", help="The tables, their keys, and the promise.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the releases."),
]
_OF_A_TABLE = {
    "source": str,
    "table": str,
    "query": str,
    "schema": str,
    "key": str,
    "columns": list,
}
_PROMISE = ("epsilon", "delta", "neighbours")
_CHOICES = ("contribution", "extra", "workload", "weights")
_NEEDED = ("source", "schema", "key")


def link(
    tables: Tables,
    output: Output = None,
    to: publish_options.ReleaseAddress = None,
    ledger: options.Ledger = None,
    outside: options.Outside = "error",
    reveal: publish_options.Reveal = False,
    jobs: publish_options.PublishJobs = 1,
    insecure_seed: publish_options.InsecureSeed = None,
    as_json: options.Json = False,
) -> None:
    """Publish several tables about the same people under one promise, by synthesis.

    The file has a section [synthesis] with epsilon, delta, neighbours and contribution, and for
    each table, the people first, [tables.NAME] with source, schema, key and columns, and with table
    or query if the source is a database.
    """
    from scumble.families import class_of
    from scumble.private.publish import publish

    found = _read(tables)
    goes = _place(output, to, list(found["tables"]))
    people, first = next(iter(found["tables"].items()))
    if "columns" not in first:
        raise ParameterError(f"[tables.{people}] in '{tables}' needs columns: what is published.")
    _check_promise(f"[synthesis] in '{tables}'", found["synthesis"])
    mechanism = class_of("synthesis")(first["columns"], **found["synthesis"])
    with bars.working("Publishing"):
        release = publish(
            **_tables(tables, found["tables"]),
            mechanism=mechanism,
            outside=cast(Any, outside),
            reveal=reveal,
            seed=insecure_seed,
            ledger=ledger,
            jobs=jobs,
        )
        release.save(goes, insecure=insecure_seed is not None)
    for name, each in release.tables.items():
        for remark in getattr(each, "remarks", ()):
            console.say(f"Note: {name}: {remark}")
    printing.show_linked(release, goes, as_json)


def _tables(file: Path, tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters of `publish` that describe the tables."""
    _, *others = tables
    children = {name: tables[name]["columns"] for name in others if "columns" in tables[name]}
    if children and len(children) < len(others):
        raise ParameterError(f"Give columns of all tables in '{file}', or of the people only.")
    place = file.resolve().parent

    def given(entry: str) -> dict[str, Any]:
        return {name: each[entry] for name, each in tables.items() if entry in each}

    return {
        "source": {name: _path(place, each) for name, each in given("source").items()},
        "schema": {name: place / each for name, each in given("schema").items()},
        "keys": given("key"),
        "children": children or None,
        "table": given("table") or None,
        "query": given("query") or None,
    }


def _place(output: Path | None, to: str | None, names: list[str]) -> Path | str:
    """Return where the releases go, if they can, before any work is done."""
    publish_options.check_one_place("releases go", output, to)
    if to is not None:
        check_can_write_linked(to, names)
        return to
    from scumble.public.synthesis.linked import check_linked_folder

    folder = Path() if output is None else output
    check_linked_folder(folder)
    return folder


def _path(folder: Path, source: str) -> str:
    """Return a source as it is read: a path beside the file, or the address of a database."""
    return source if "://" in source else str(folder / source)


def _read(file: Path) -> dict[str, Any]:
    """Return the sections of a file of tables, or raise ParameterError."""
    try:
        found = tomllib.loads(options.read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"The file '{file}' is not TOML: {error}.") from None
    sections = [found.get(name) for name in ("synthesis", "tables")]
    if set(found) != {"synthesis", "tables"} or not all(isinstance(s, dict) for s in sections):
        known = "the sections [synthesis] and [tables.NAME]"
        others = sorted(set(found) - {"synthesis", "tables"})
        got = f"; it has {', '.join(others)}" if others else ""
        raise ParameterError(f"'{file}' needs {known} only{got}.")
    for name, table in found["tables"].items():
        _check_table(f"[tables.{name}] in '{file}'", table)
    if not found["tables"]:
        raise ParameterError(f"'{file}' names no tables.")
    return found


def _refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keys that a section does not have."""
    known = tuple(known)
    for key in given:
        if key not in known:
            hint = nearest(key, known)
            raise ParameterError(
                f"{where}: unknown key '{key}'; the keys are {', '.join(known)}.{hint}"
            )


def _check_promise(where: str, given: dict[str, Any]) -> None:
    """Refuse parameters that several tables do not have, and a promise that is not complete."""
    _refuse_unknown(where, given, (*_PROMISE, *_CHOICES))
    missing = [name for name in _PROMISE if name not in given]
    if missing:
        raise ParameterError(f"{where} needs {' and '.join(missing)}.")


def _check_table(where: str, table: Any) -> None:
    """Refuse a section of a table with other entries than those that it may have."""
    if not isinstance(table, dict):
        raise ParameterError(f"{where} must be a section with {', '.join(_NEEDED)}.")
    _refuse_unknown(where, table, _OF_A_TABLE)
    missing = [name for name in _NEEDED if name not in table]
    if missing:
        raise ParameterError(f"{where} needs {' and '.join(missing)}.")
    for name, value in table.items():
        if not isinstance(value, _OF_A_TABLE[name]):
            kind = "a list of names" if _OF_A_TABLE[name] is list else "a text"
            raise ParameterError(f"{name} of {where} must be {kind}.")
