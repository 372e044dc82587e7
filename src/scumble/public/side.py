"""Public side tables: what a question may look up besides the release. Nothing here is private."""

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
# A column of text becomes another type only if each of its values is written as that type writes
# it: 01234 is the code of a place, and 12345678901234567 would lose digits as a float.
_WRITTEN = (
    (r"(?i:true|false)", pa.bool_()),
    (r"0|-?[1-9][0-9]{0,17}", pa.int64()),
    (r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", pa.float64()),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", pa.date32()),
)


def side_table(given: Any) -> pa.Table:
    """A table from the path of a CSV (also gzipped) or Parquet file, or from any Arrow-like table.

    Columns of a CSV file become truth values, whole numbers, numbers or dates if all their values
    are written so, without leading zeros; otherwise they stay text.
    """
    if not isinstance(given, str | Path):
        try:
            return pa.table(given)
        except (TypeError, ValueError, pa.ArrowException):
            kind = type(given).__name__
        raise ParameterError(
            f"A side table is a path, an Arrow table or a data frame. Got a {kind} instead."
        )
    path = Path(given)
    if not path.exists():
        raise SourceError(f"There is no file '{path}'.")
    is_parquet = path.is_dir() or path.suffix.lower() in (".parquet", ".pq")
    try:
        return parquet.read_table(path) if is_parquet else _csv_table(path)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError):
        raise SourceError(
            f"The side table '{path}' is not a readable CSV or Parquet file."
        ) from None


def _csv_table(path: Path) -> pa.Table:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
        header = text.readline()
    mark = max(_DELIMITERS, key=header.count)
    names = next(csv.reader([header], delimiter=mark), [])
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


def _typed(text: pa.Array) -> pa.Array:
    if text.null_count == len(text):
        return text
    for pattern, kind in _WRITTEN:
        if pc.all(pc.match_substring_regex(text, f"^({pattern})$")).as_py():
            try:
                return text.cast(kind)
            except pa.ArrowInvalid:  # the 30th of February
                return text
    return text
