"""open_source: a private table, and which of its rows are read, in which form.

This is the only place that chooses between files, databases and tables in memory, groups rows into
lists, and takes a part or a sample of them.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from scumble.model.errors import ParameterError, ScumbleError, SourceError, named
from scumble.model.privacy.sampling import Sample
from scumble.model.relational import is_address
from scumble.model.schema.attribute import Attribute
from scumble.private.tables.basket_grouping import LongRows
from scumble.private.tables.files import CsvFile, DatabaseTable, ParquetFiles
from scumble.private.tables.frames import ArrowStream, ArrowTable, PandasFrame, is_spark
from scumble.private.tables.persons.sample import SampledSource
from scumble.private.tables.relations import Relation
from scumble.private.tables.source import PartOfSource, Source
from scumble.public.archive.archive import MANIFEST

__all__ = ["Source", "expected_rows", "open_source"]

_SAMPLED = 1 << 18  # bytes of a CSV file from which its rows are estimated
_PARQUET = (".parquet", ".pq")
_DATABASE = (".duckdb", ".ddb", ".db")


def open_source(
    source: object,
    *,
    table: str | None = None,
    query: str | None = None,
    basket: str | None = None,
    order: str | None = None,
    lists: Sequence[str] | None = None,
    person: str | None = None,
    require: Sequence[str] = (),
    part: tuple[Attribute, object] | None = None,
    sample: Sample | None = None,
    fixed: bool = False,
    seed: int | None = None,
) -> Source:
    """Return the source of a table, given as a path, an address or a table in memory.

    A path names a CSV, Parquet or DuckDB file, a folder of Parquet files, or a pattern like
    `parts/*.parquet`. An address names a database: `postgresql://user@host/database` or
    `sqlite:///people.db`. `table` names the table of a DuckDB file or of a database; `query` is a
    SELECT for the database. In memory, Arrow tables and streams and data frames of pandas and
    polars are accepted. The table must have the columns `require`.

    With `basket`, rows of single items are grouped into lists: see `LongRows` about it, `order` and
    `lists`. With `part`, an attribute and a value of it, only those rows are read; with `sample`,
    those of the people who are drawn in the context `drawn` of the source, by `seed` if it is
    given: of a number that is `fixed`, or each by a coin. `person` is the column of people.
    """
    opened = _open_table(source, table, query)
    opened.require(require)
    if basket is not None:
        opened = _grouped(opened, basket, order, lists, person)
    elif order is not None:
        raise ParameterError(
            f"{named('order')} sorts the items of a basket: give {named('basket')} too."
        )
    if part is not None:
        opened = PartOfSource(opened, *part)
    if sample is not None:
        opened = SampledSource(opened, sample, person, seed, fixed=fixed)
    return opened


def _grouped(
    source: Source,
    basket: str,
    order: str | None,
    lists: Sequence[str] | None,
    person: str | None,
) -> Source:
    if lists is not None and not lists:
        raise ParameterError(
            f"{named('basket')} groups rows into lists, and the schema has no attribute of the "
            "type set or sequence."
        )
    return LongRows(source, basket, order, lists, () if person is None else (person,))


def _open_table(source: object, table: str | None, query: str | None) -> Source:
    """Return the source of a table as it is."""
    if isinstance(source, str) and is_address(source):
        return Relation(source, table, query)
    if query is not None:
        raise SourceError(
            f"Only a database can be asked a query; leave {named('query')} out, or give an address "
            "such as postgresql://user@host/database."
        )
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        return _open_path(str(source), table)
    if table is not None:
        raise SourceError(
            f"Only a DuckDB file has tables to choose from; leave {named('table')} out."
        )
    return _open_frame(source)


def expected_rows(source: object, table: str | None = None) -> int | None:
    """Return about how many rows a source has, for a progress bar; None if that is not known.

    Those of a CSV file are estimated from the length of its first lines.
    """
    try:
        found = open_source(source, table=table)
        if found.rows is not None or not isinstance(found, CsvFile) or found.gzipped:
            return found.rows
        with found.path.open("rb") as file:
            start = file.read(_SAMPLED)
        return found.path.stat().st_size * max(start.count(b"\n"), 1) // max(len(start), 1)
    except (OSError, ScumbleError):  # whoever reads the source says so
        return None


def _open_frame(source: object) -> Source:
    """Return the source of a table in memory."""
    if isinstance(source, pa.Table):
        return ArrowTable(source)
    if isinstance(source, pa.RecordBatch):
        return ArrowTable(pa.Table.from_batches([source]))
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "iloc"):
        return PandasFrame(source)
    if is_spark(source):
        # It speaks Arrow, but runs its plan again for every pass, in an order of its own.
        raise SourceError(
            f"A Spark DataFrame is read by its cluster: give {named('engine')}, Spark(session)."
        )
    if hasattr(source, "__arrow_c_stream__"):
        return ArrowStream(source)
    hint = " Call .collect() on it first." if type(source).__name__ == "LazyFrame" else ""
    raise SourceError(
        "A source is a path, an Arrow table or stream, or a pandas or polars DataFrame. "
        f"Got a {type(source).__name__} instead.{hint}"
    )


def _open_folder(path: Path) -> Source:
    manifest = path / MANIFEST
    if manifest.is_file() and '"mechanism"' in manifest.read_text("utf-8", "replace"):
        raise SourceError(f"'{path}' is a release, which is public already, and not a table.")
    files = [file for kind in _PARQUET for file in path.rglob(f"*{kind}") if file.is_file()]
    if not files:
        raise SourceError(f"The folder '{path}' holds no Parquet file (*.parquet).")
    return ParquetFiles(f"The Parquet folder '{path}'", sorted(files), base=path)


def _open_path(name: str, table: str | None) -> Source:
    path = Path(name)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        files = [Path(file) for file in sorted(glob.glob(name, recursive=True))]
        if not files:
            raise SourceError(f"There is no file '{name}'.")
        if not all(file.suffix.lower() in _PARQUET for file in files):
            raise SourceError(f"The pattern '{name}' may match Parquet files only (*.parquet).")
        return ParquetFiles(f"The Parquet files '{name}'", files)
    if not path.is_file():
        # It is read several times: of a pipe, the second time would take rows for the header.
        raise SourceError(f"'{path}' is a pipe or a device: write the table to a file first.")
    if path.suffix.lower() in _DATABASE or _magic(path)[8:] == b"DUCK":
        return DatabaseTable(path, table)
    if table is not None:
        raise SourceError(f"Only a DuckDB file has tables to choose from, and '{path}' is none.")
    if path.suffix.lower() in _PARQUET or _magic(path)[:4] == b"PAR1":
        return ParquetFiles(f"The Parquet file '{path}'", [path])
    return CsvFile(path)


def _magic(path: Path) -> bytes:
    """Return the first bytes of a file, which tell its format."""
    try:
        with path.open("rb") as file:
            return file.read(12)
    except OSError as error:
        reason = error.strerror or "the system gave no reason"
    raise SourceError(f"The file '{path}' cannot be read: {reason}.")
