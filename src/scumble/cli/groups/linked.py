"""The command `publish linked`: several tables about the same people, under one promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from scumble.cli import bars, console, options, printing, publish_options
from scumble.model.errors import ParameterError
from scumble.model.relational import is_address
from scumble.public.archive.relations import check_can_write_linked

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=FILE...", help="The tables, the people first: people=p.csv visits=v.csv."
    ),
]
Schemas = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="NAME=FILE",
        help="Schema of a table; repeatable. By default that of v.csv is v.toml beside it.",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="NAME=COLUMN", help="Column of a table that names people; repeatable."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="NAME=COLUMNS",
        help="What to publish of a table, as people=age,sex; repeatable. Needed for the people; of "
        "other tables, those of the person that rows depend on are among them.",
    ),
]
TableNames = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME=TABLE", help="The table to read in a database."),
]
Queries = Annotated[
    list[str] | None,
    typer.Option("--query", metavar="NAME=SQL", help="A SELECT to read from postgresql://..."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the releases."),
]
# Parameters of Synthesis that are said for each table, and those that are for one table alone.
NOT_TAKEN = ("attributes", "person", "sums", "sum_share", "sum_ways", "moments")


@dataclass(frozen=True)
class LinkedOptions:
    """The tables, how they are read, and where the releases go."""

    sources: Sources
    schema: Schemas = None
    key: Keys = None
    columns: Columns = None
    table: TableNames = None
    query: Queries = None
    output: Output = None
    to: publish_options.ReleaseAddress = None
    ledger: options.Ledger = None
    outside: options.Outside = "error"
    reveal: publish_options.Reveal = False
    jobs: publish_options.PublishJobs = 1
    insecure_seed: publish_options.InsecureSeed = None
    as_json: options.Json = False


def publish_linked(given: LinkedOptions, promise: Mapping[str, Any]) -> None:
    """Publish the tables; `promise` has the parameters of Synthesis but its attributes."""
    from scumble.families import class_of
    from scumble.private.publish import publish_linked as publish
    from scumble.private.publish_options import PublishOptions, Table

    sources = _of_tables("NAME=FILE", given.sources)
    if len(sources) < 2:
        raise ParameterError("Give the people and another table, as people=p.csv visits=v.csv.")
    people, *others = sources
    columns = {
        name: options.columns([each])
        for name, each in _of_tables("--attributes", given.columns, sources).items()
    }
    if people not in columns:
        raise ParameterError(f"Say what to publish of the people: --attributes {people}=COLUMNS.")
    children = {name: columns[name] for name in others if name in columns}
    if children and len(children) < len(others):
        raise ParameterError("Give --attributes of all tables, or of the people only.")
    keys = _of_tables("--key", given.key, sources)
    missing = [name for name in sources if name not in keys]
    if missing:
        raise ParameterError(f"Say which column names people: --key {missing[0]}=COLUMN.")
    tables = _of_tables("--table", given.table, sources)
    queries = _of_tables("--query", given.query, sources)
    goes = _place(given.output, given.to, list(sources))
    mechanism = class_of("synthesis")(columns[people], **promise)
    with bars.working("Publishing"):
        release = publish(
            {
                name: Table(each, tables.get(name), queries.get(name))
                for name, each in sources.items()
            },
            _schemas(given.schema, sources),
            mechanism,
            keys=keys,
            children=children or None,
            options=PublishOptions(
                outside=cast(Any, given.outside),
                reveal=given.reveal,
                seed=given.insecure_seed,
                jobs=given.jobs,
            ),
            ledger=given.ledger,
        )
        release.save(goes, insecure=given.insecure_seed is not None)
    for name, each in release.tables.items():
        for remark in (*each.remarks, *printing.warnings(each)):
            console.say(f"Note: {name}: {remark}")
    printing.show_linked(release, goes, given.as_json)


def _of_tables(
    option: str, given: Sequence[str] | None, known: Iterable[str] = ()
) -> dict[str, str]:
    """Return what was given as NAME=..., by the name of the table."""
    found: dict[str, str] = {}
    for pair in given or ():
        name, _, value = pair.partition("=")
        if not name or not value:
            allowed = option if "=" in option else f"{option} NAME=COLUMN"
            raise ParameterError(f"Name the table: {allowed}. Got {pair!r} instead.")
        if known and name not in known:
            listed = ", ".join(known)
            raise ParameterError(f"{option} names no table '{name}'. The tables are {listed}.")
        if name in found:
            raise ParameterError(f"The table '{name}' is given twice.")
        found[name] = value
    return found


def _schemas(given: Sequence[str] | None, sources: Mapping[str, str]) -> dict[str, Path]:
    """Return the schema file of each table."""
    found = {name: Path(file) for name, file in _of_tables("--schema", given, sources).items()}
    for name, source in sources.items():
        if name not in found and is_address(source):
            raise ParameterError(f"Say which schema the table has: --schema {name}=FILE.")
    return {
        name: found.get(name, Path(source).with_suffix(".toml")) for name, source in sources.items()
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
