"""The commands rows and export: synthetic rows of a release, and how near they are to what was
measured; generalised rows, and what was changed in them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from scumble.cli import console, options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from scumble.public.synthesis.linked import LinkedRelease

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
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="CSV or Parquet.  [default: stdout]"),
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
    writes rows-people.csv and rows-visits.csv.
    """
    from scumble.public.archive.archive import load_any
    from scumble.public.release import Release

    release = load_any(folder)
    if not isinstance(release, Release):
        _linked_rows(release, number, output, seed, force, as_json)
        return
    refuse_existing(output, force=force)
    table = release.rows(number, seed=seed)
    report = release.quality(table)
    if as_json:
        shown = table.to_pylist() if output is None else table.num_rows
        console.print_json({"rows": shown, "quality": report.to_pylist()})
    if output is not None or not as_json:
        write_table(table, output)
    if output is not None:
        console.say(f"Wrote {table.num_rows:,} rows to {output}.")
    for sentence in _quality(report):
        console.say(sentence)


def _linked_rows(
    release: LinkedRelease,
    number: int | None,
    output: Path | None,
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
    tables = release.rows(number, seed=seed)
    report = release.quality(tables)
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
        write_table(tables[name], file)
        console.say(f"Wrote {tables[name].num_rows:,} rows to {file}.")
    for name in tables:
        for sentence in _quality(report[name]):
            console.say(f"{name}: {sentence}")


def _file_of(output: Path, name: str) -> Path:
    return output.with_name(f"{output.stem}-{name}{output.suffix}")


def export(
    folder: options.ReleaseFolder,
    output: RowsOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the rows of a release by generalise, and say what was changed in each column."""
    from scumble.public.archive.archive import load

    refuse_existing(output, force=force)
    found = load(folder).generalised()
    changes = found.changes()
    if as_json:
        console.print_json(asdict(changes))
    if output is not None or not as_json:
        write_table(found.labelled(), output)
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
            f"{len(some)} noisy {tables} of {ways} {attributes}: the rows are off by {far:.3f} "
            f"in the mean (0 to 2); their noise alone makes about {noise:.3f}."
        )
    return found


def refuse_existing(output: Path | None, *, force: bool) -> None:
    """Raise ParameterError if the output is of another type, or exists and may stay."""
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise ParameterError(
            f"'{output}' must end in .csv or .parquet: the table is written as CSV or Parquet."
        )
    if output is not None and output.exists() and not force:
        raise ParameterError(f"'{output}' exists already. Choose another file, or use --force.")


def write_table(table: pa.Table, output: Path | None) -> None:
    """Write a table as CSV to stdout, or as CSV or Parquet to a file, completely or not at all."""
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    if output is None:
        csv.write_csv(_plain(table), typer.get_binary_stream("stdout"))
        return
    partial = output.with_name(f".{output.name}.partial")
    try:
        if output.suffix.lower() == ".parquet":
            parquet.write_table(table, partial)
        else:
            csv.write_csv(_plain(table), partial)
        partial.replace(output)
    except OSError as error:
        raise ParameterError(f"'{output}' cannot be written: {error.strerror}.") from None
    finally:  # Ctrl-C leaves no half of a file
        partial.unlink(missing_ok=True)


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose lists are texts, which CSV can hold."""
    for place, name in enumerate(table.column_names):
        if pa.types.is_list(table.schema.field(place).type):
            texts = [" ".join(map(str, each)) for each in table[name].to_pylist()]
            table = table.set_column(place, name, pa.array(texts, pa.string()))
    return table
