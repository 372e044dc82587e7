"""Public side tables, which a question may look up. Nothing here is private."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from scumble.model.errors import ParameterError, SourceError

_DELIMITERS = ",;\t|"
_LONGEST_HEADER = 1 << 16
MOST_ROWS, MOST_COLUMNS = 10_000_000, 1_000
_CHUNK = 1 << 20  # bytes read at once to count lines
# A text column is converted to the first type in whose canonical form all its values are: 01234 is
# a code, not a number, and 12345678901234567 would lose digits as a float.
_WRITTEN = (
    (r"(?i:true|false)", pa.bool_()),
    (r"0|-?[1-9][0-9]{0,17}", pa.int64()),
    (r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", pa.float64()),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", pa.date32()),
)


def side_table(given: Any) -> pa.Table:
    """Return a side table, given the path of a CSV (also gzipped) or Parquet file, or a table.

    A column of a CSV file becomes boolean, integer, float or date if all its values have that form,
    without leading zeros; otherwise it stays text. More than `MOST_ROWS` rows or `MOST_COLUMNS`
    columns are refused, in a file before it is read into memory.
    """
    if not isinstance(given, str | Path):
        try:
            table = pa.table(given)
        except (TypeError, ValueError, pa.ArrowException):
            table = None
        if table is None:
            raise ParameterError(
                "A side table is a path, an Arrow table or a data frame. "
                f"Got a {type(given).__name__} instead."
            )
        _refuse_large("The side table", table.num_rows, table.num_columns)
        return table
    path = Path(given)
    if not path.exists():
        raise SourceError(f"There is no file '{path}'.")
    if not (path.is_file() or path.is_dir()):
        raise SourceError(f"'{path}' is a pipe or a device: write the table to a file first.")
    is_parquet = path.is_dir() or path.suffix.lower() in (".parquet", ".pq")
    try:
        return _parquet_table(path) if is_parquet else _csv_table(path)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
        raise SourceError(
            f"The side table '{path}' is not a readable CSV or Parquet file."
        ) from None


def _refuse_large(what: str, rows: int, columns: int) -> None:
    """Refuse a side table that is too large to be looked up in memory."""
    for number, most, unit in ((rows, MOST_ROWS, "rows"), (columns, MOST_COLUMNS, "columns")):
        if number > most:
            raise SourceError(
                f"{what} has more than {most:,} {unit}, which is the most that a side table may "
                "have. Keep only what the question looks up."
            )


def _parquet_table(path: Path) -> pa.Table:
    files = list(path.rglob("*.parquet")) if path.is_dir() else [path]
    known = [parquet.read_metadata(each) for each in files]
    rows, columns = sum(each.num_rows for each in known), [each.num_columns for each in known]
    _refuse_large(f"The side table '{path}'", rows, max(columns, default=0))
    return parquet.read_table(path)


def _csv_table(path: Path) -> pa.Table:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
        header = text.readline(_LONGEST_HEADER)
    if len(header) >= _LONGEST_HEADER:
        raise SourceError(
            f"The header of the side table '{path}' has {_LONGEST_HEADER:,} characters or more."
        )
    if not header.strip():
        raise SourceError(f"The side table '{path}' is empty: it has no header line.")
    mark = max(_DELIMITERS, key=header.count)
    names = next(csv.reader([header], delimiter=mark), [])
    _refuse_large(f"The side table '{path}'", _lines(opener, path) - 1, len(names))
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise SourceError(f"The side table '{path}' has two columns named {twice!r}.")
    table = arrow_csv.read_csv(
        path,
        parse_options=arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = [_typed(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, names=[name.strip() for name in table.column_names])


def _lines(opener: Any, path: Path) -> int:
    """Return the number of lines of a file, or a larger number than is allowed."""
    lines, ends = 0, True
    with opener(path, "rb") as file:
        while (chunk := file.read(_CHUNK)) and lines <= MOST_ROWS + 1:
            lines, ends = lines + chunk.count(b"\n"), chunk.endswith(b"\n")
    return lines + (not ends)


def _typed(text: pa.Array) -> pa.Array:
    if text.null_count == len(text):
        return text
    for pattern, kind in _WRITTEN:
        if pc.all(pc.match_substring_regex(text, f"^({pattern})$")).as_py():
            try:
                return text.cast(kind)
            except pa.ArrowInvalid:  # such as the 30th of February
                return text
    return text
