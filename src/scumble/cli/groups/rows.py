"""The commands rows and export: synthetic rows of a release, and how near they are to what was
measured; generalised rows, and what was changed in them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError, writing
from scumble.model.long_work import aside, portion, tell
from scumble.model.relational import is_address

if TYPE_CHECKING:
    from scumble.public.synthesis.linked import LinkedRelease

_ROW_GROUP, _CSV_ROWS = 1 << 20, 1 << 18  # rows that are written at once

Number = Annotated[
    int | None,
    typer.Option(
        "--number",
        "-n",
        metavar="ROWS",
        min=0,
        help="How many rows.  [default: about as many as the private table has]",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="NUMBER", help="Draw the same rows again; costs no privacy."),
]
RowsOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="CSV or Parquet, postgresql://user@host/database/schema.name, or "
        "sqlite:///file.db/name.  [default: stdout]",
    ),
]


def rows(
    folder: options.ReleaseFolder,
    number: Number = None,
    output: RowsOutput = None,
    seed: Seed = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Draw synthetic rows from the noisy counts of a release.

    They cost no privacy, however many are drawn. Nobody's row is among them but by chance, and no
    interval holds for what is computed from them. Of several tables each is a file: -o rows.csv
    writes rows-people.csv and rows-visits.csv, and a table name in a database name_people and
    name_visits.
    """
    from scumble.public.archive.load import load_any
    from scumble.public.release import Release

    release = load_any(folder)
    if not isinstance(release, Release):
        _linked_rows(release, number, output, seed, force, as_json)
        return
    refuse_existing(output, force=force)
    with bars.working("Drawing rows"):
        table = aside(lambda: release.rows(number, seed=seed))
    with bars.working("Comparing rows with the noisy counts"):
        report = aside(lambda: release.quality(table))
    if as_json:
        shown = table.to_pylist() if output is None else table.num_rows
        console.print_json({"rows": shown, "quality": report.to_pylist()})
    if output is not None or not as_json:
        write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {table.num_rows:,} rows to {output}.")
    for sentence in _quality(report):
        console.say(sentence)


def _linked_rows(
    release: LinkedRelease,
    number: int | None,
    output: str | None,
    seed: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows of several tables, and write each to a file."""
    if output is None and not as_json:
        raise ParameterError(
            "The release has several tables: say with --output FILE where they go, or --json."
        )
    files = {} if output is None else {n: _file_of(output, n) for n in release.tables}
    for file in files.values():
        refuse_existing(file, force=force)
    with bars.working("Drawing rows"):
        tables = aside(lambda: release.rows(number, seed=seed))
    with bars.working("Comparing rows with the noisy counts"):
        report = aside(lambda: release.quality(tables))
    if as_json:
        fields = {
            name: {
                "rows": table.num_rows if files else table.to_pylist(),
                "quality": report[name].to_pylist(),
            }
            for name, table in tables.items()
        }
        console.print_json(fields)
    for name, file in files.items():
        write_table(tables[name], file, force=force)
        console.say(f"Wrote {tables[name].num_rows:,} rows to {file}.")
    for name in tables:
        for sentence in _quality(report[name]):
            console.say(f"{name}: {sentence}")


def _file_of(output: str, name: str) -> str:
    if is_address(output):
        from scumble.public.archive.relations import address_of_table

        return address_of_table(output, name)
    path = Path(output)
    return str(path.with_name(f"{path.stem}-{name}{path.suffix}"))


def export(
    folder: options.ReleaseFolder,
    output: RowsOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the rows of a release by generalise, and say what was changed in each column."""
    from scumble.public.archive.load import load

    refuse_existing(output, force=force)
    with bars.working("Reading rows"):
        with portion(0, 0.5):
            found = load(folder).generalised()
        changes = found.changes()
        with portion(0.5, 1):
            table = found.labelled() if output is not None or not as_json else None
    if as_json:
        console.print_json(asdict(changes))
    if table is not None:
        write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {changes.rows:,} rows to {output}.")
    for sentence in changes.sentences():
        console.say(sentence)


def _quality(report: pa.Table) -> list[str]:
    """Say how near the rows are to the noisy tables, by the number of attributes of a table."""
    found = []
    for ways in sorted(set(report["ways"].to_pylist())):
        some = [each for each in report.to_pylist() if each["ways"] == ways]
        far, noise = (sum(each[key] for each in some) / len(some) for key in ("distance", "noise"))
        tables = "table" if len(some) == 1 else "tables"
        attributes = "attribute" if ways == 1 else "attributes"
        found.append(
            f"{len(some)} noisy {tables} of {ways} {attributes}: the shares of the rows differ by "
            f"{far:.3f} on average (0: equal, 2: nothing in common); noise alone gives about "
            f"{noise:.3f}."
        )
    return found


def refuse_existing(output: str | Path | None, *, force: bool) -> None:
    """Raise an error if the output is of another type, or exists and may stay."""
    if output is None:
        return
    if is_address(str(output)):
        from scumble.public.archive.row_tables import check_rows

        check_rows(str(output), force=force)
        return
    path = Path(output)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ParameterError(
            f"'{path}' must end in .csv or .parquet: the table is written as CSV or Parquet. A "
            "table in a database is postgresql://user@host/database/schema.name or "
            "sqlite:///file.db/name."
        )
    options.refuse_existing(path, force=force)


def write_table(table: pa.Table, output: str | Path | None, *, force: bool = False) -> None:
    """Write a table as CSV to stdout, as CSV or Parquet to a file, or to a database, completely or
    not at all.
    """
    if output is None:
        _write(table, typer.get_binary_stream("stdout"))
        return
    if is_address(str(output)):
        from scumble.public.archive.row_tables import write_rows

        write_rows(table, str(output), force=force)
        return
    path = Path(output)
    partial = path.with_name(f".{path.name}.partial")
    with writing(path):
        try:
            with bars.working("Writing rows"):
                _write(table, partial, parquet=path.suffix.lower() == ".parquet")
            partial.replace(path)
        finally:  # Ctrl-C leaves no half of a file
            partial.unlink(missing_ok=True)


def _write(table: pa.Table, place: Path | IO[bytes], *, parquet: bool = False) -> None:
    """Write a table in parts, between which Ctrl-C is heard and the progress is told."""
    writer: Any
    if parquet:
        import pyarrow.parquet as pq

        writer = pq.ParquetWriter(place, table.schema)
    else:
        import pyarrow.csv as csv

        writer = csv.CSVWriter(place, _plain(table.slice(0, 0)).schema)
    step = _ROW_GROUP if parquet else _CSV_ROWS
    with writer:
        for start in range(0, max(table.num_rows, 1), step):
            part = table.slice(start, step)
            writer.write_table(part if parquet else _plain(part))
            tell(start + part.num_rows, max(table.num_rows, 1))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose lists are texts, which CSV can hold."""
    for place, name in enumerate(table.column_names):
        if pa.types.is_list(table.schema.field(place).type):
            texts = [" ".join(map(str, each)) for each in table[name].to_pylist()]
            table = table.set_column(place, name, pa.array(texts, pa.string()))
    return table
