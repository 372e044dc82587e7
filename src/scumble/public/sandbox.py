"""Sandboxed DuckDB, cells of a domain, public side tables.

A locked-down DuckDB in memory, for public data and for expressions over public domains.

It can read the published view and the public side tables that it was given, and nothing else: no
other file, no network, no extension, no setting can be reached from the SQL that it runs.
"""

from __future__ import annotations

import csv
import glob
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet, types

from scumble.model.errors import ParameterError, QueryError, ReleaseError, SourceError
from scumble.model.query import Expression, Query, place, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema

if TYPE_CHECKING:
    import duckdb

Values = npt.NDArray[Any]

_CELLS = "scumble cells"
_BATCH = 1 << 22
_SAMPLE = "scumble sample"
_SAMPLE_ROWS = 2048
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Sandbox:
    """Runs SQL over a published view (the table `view`), published files `beside` it and public
    side tables, from any thread.
    """

    def __init__(
        self,
        schema: Schema,
        tables: Mapping[str, Any] = _NOTHING,
        view: Path | None = None,
        beside: Mapping[str, Path] = _NOTHING,
    ) -> None:
        self.schema = schema
        self.view = view
        self.derived: dict[str, Any] = {}  # what estimators made of the view, for the next question
        sides = {name: side_table(table) for name, table in tables.items()}
        names = [name.lower() for name in sides]
        files = {**({"view": view} if view else {}), **beside}
        for name in {"view", *files} & set(names):
            raise ParameterError(f"A public side table cannot be called '{name}': the release is.")
        if len(set(names)) < len(names):
            raise ParameterError("Two public side tables have names that differ only by case.")
        self.columns = {name: tuple(table.column_names) for name, table in sides.items()}
        self._connection = _open({**sides, _SAMPLE: _sample(schema)}, files)

    def check(self, query: Query) -> None:
        """Complain, with the place, if types do not fit or constants cannot be converted.

        Every expression is evaluated on rows in which each attribute runs through its domain, so
        that what DuckDB notices only while it computes is noticed here.
        """
        try:
            table = self._select(query.expressions)
        except QueryError:
            for expression in query.expressions:
                self._check_alone(expression, query.text)
            raise
        for expression, column in zip(query.expressions, table.columns, strict=True):
            wanted = "a number" if expression is query.argument else "a condition"
            if _meaning(column.type) not in (wanted, "nothing"):
                raise _at(expression, query.text, _mismatch(query, wanted, column.type))

    def rows(self, sql: str) -> pa.Table:
        """Run SQL that an estimator built."""
        with closing(self._connection.cursor()) as cursor:
            return _run(cursor, sql)

    def evaluate(
        self,
        expressions: Sequence[Expression],
        names: Sequence[str],
        frame: pa.Table | None = None,
    ) -> list[Values]:
        """The value of each expression in every cell of the product of the domains of `names`.

        Cells come in row-major order, the last name fastest. With a `frame`, its rows stand in the
        place of the attributes that are its columns, and run slowest. Conditions come as bool, NULL
        as False; numbers as float64, NULL as 0. A number must be finite in every cell in which all
        the conditions of the same call hold; elsewhere it becomes 0 if it is not.
        """
        axes = self._axes(names, frame)
        if (total := cell_count(axes)) > CELL_LIMIT:
            raise QueryError(
                f"An expression over {', '.join(names)} would have to be evaluated for {total} "
                f"combinations of values; at most {CELL_LIMIT} are possible."
            )
        by_axes: dict[tuple[int, ...], list[int]] = {}
        for index, expression in enumerate(expressions):
            by_axes.setdefault(axes_of(axes, expression.attributes), []).append(index)
        found: dict[int, Values] = {}
        for used, indices in by_axes.items():
            values = self._over([axes[i] for i in used], [expressions[i] for i in indices])
            found |= {i: spread(v, axes, used) for i, v in zip(indices, values, strict=True)}
        return _finite([found[index] for index in range(len(expressions))], expressions)

    def holds(self, conditions: Sequence[Expression], names: Sequence[str]) -> list[Values]:
        """`evaluate`, but a complaint if one of the expressions is not a condition."""
        found = self.evaluate(conditions, names)
        for expression, value in zip(conditions, found, strict=True):
            if value.dtype != bool:
                raise QueryError(f"{expression.sql} is a number. WHERE needs conditions.")
        return found

    def close(self) -> None:
        """Give back the memory; the engine cannot be used afterwards."""
        self._connection.close()

    def _axes(self, names: Sequence[str], frame: pa.Table | None) -> list[CellAxis]:
        rest = [name for name in names if frame is None or name not in frame.column_names]
        axes = [CellAxis.of_domain(self.schema[name]) for name in rest]
        return axes if frame is None else [CellAxis.of_rows(frame), *axes]

    def _over(self, axes: Sequence[CellAxis], expressions: Sequence[Expression]) -> list[Values]:
        """The values over the product of just these axes, a batch of cells at a time."""
        parts: list[list[Values]] = [[] for _ in expressions]
        for start in range(0, max(cell_count(axes), 1), _BATCH):
            table = self._select(expressions, cell_table(axes, start, _BATCH))
            for part, expression, column in zip(parts, expressions, table.columns, strict=True):
                part.append(_values(expression, column))
        return [np.concatenate(part) for part in parts]

    def _select(self, expressions: Sequence[Expression], table: pa.Table | None = None) -> pa.Table:
        """The values of expressions in every row of a table, or of the sample."""
        listed = ", ".join(f"({expression.sql})" for expression in expressions) or "1"
        with closing(self._connection.cursor()) as cursor:
            if table is not None:
                cursor.register(_CELLS, table)
            source = _SAMPLE if table is None else _CELLS
            found = _run(cursor, f"SELECT {listed} FROM {quoted(source)}")
        return found if expressions else found.select([])

    def _check_alone(self, expression: Expression, text: str) -> None:
        try:
            self._select([expression])
        except QueryError as error:
            raise _at(expression, text, error.message) from None


def _sample(schema: Schema) -> pa.Table:
    """Rows in which every attribute runs through its domain, or evenly through a large one."""
    attributes = schema.published
    rows = min(max((attribute.size for attribute in attributes), default=1), _SAMPLE_ROWS)
    columns = {}
    for attribute in attributes:
        codes = np.arange(rows) % attribute.size
        if attribute.size > rows:
            codes = np.array([i * (attribute.size - 1) // (rows - 1) for i in range(rows)])
        columns[attribute.name] = attribute.decode(codes.astype(attribute.code_type))
    return pa.table(columns)


def _open(sides: Mapping[str, pa.Table], files: Mapping[str, Path]) -> duckdb.DuckDBPyConnection:
    """A database that holds the side tables, sees the published files, and has then been locked."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET TimeZone = 'UTC'")
    # Version 2.0 takes NULL for true in WHERE starts_with(CASE WHEN b THEN 'x' END, 'x'), and fails
    # on other CASEs without ELSE, because what it knows of their values forgets that they are NULL.
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    for name, table in sides.items():
        connection.register(_CELLS, table)
        connection.execute(f"CREATE TABLE {quoted(name)} AS FROM {quoted(_CELLS)}")
        connection.unregister(_CELLS)
    parts = {name: _files(path) for name, path in files.items()}
    # DuckDB asks for both when it opens a file.
    plain = [str(file) for paths in parts.values() for file in paths]
    connection.execute(f"SET allowed_paths = {_list(sorted({*plain, *map(glob.escape, plain)}))}")
    for name, paths in parts.items():
        listed = _list([glob.escape(str(file)) for file in paths])
        try:
            connection.execute(f"CREATE VIEW {quoted(name)} AS FROM read_parquet({listed})")
        except duckdb.Error as error:
            raise ReleaseError(f"The published table cannot be read. {_sentence(error)}") from None
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _files(view: Path) -> list[Path]:
    found = sorted(view.rglob("*.parquet")) if view.is_dir() else [view]
    return [file.resolve() for file in found]


def _run(cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    import duckdb

    try:
        return cursor.sql(sql).to_arrow_table()
    except (duckdb.Error, pa.ArrowException) as error:
        complaint = _sentence(error)
    raise QueryError(complaint)


def _sentence(error: Exception) -> str:
    """The first line of a complaint of DuckDB, without its kind and advice that cannot help."""
    line = str(error).strip().split("\n")[0]
    line = re.sub(r"^[A-Z][\w ]*(Error|Exception): ", "", line)
    line = re.sub(r",? or SET .*", ".", line).removesuffix(
        "You might need to add explicit type casts."
    )
    return line.strip() if line.strip().endswith((".", "!", "?")) else line.strip() + "."


def _at(expression: Expression, text: str, message: str) -> QueryError:
    line, column = place(text, expression.start)
    return QueryError(message, text=text, line=line, column=column)


def _meaning(kind: pa.DataType) -> str:
    if types.is_boolean(kind):
        return "a condition"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "a number"
    return "nothing" if types.is_null(kind) else "something else"


def _mismatch(query: Query, wanted: str, kind: pa.DataType) -> str:
    if wanted == "a condition":
        return f"WHERE needs conditions that are true or false. This one is of type {kind}."
    name = "SUM" if query.aggregate == "sum" else "AVG"
    advice = " Write CAST(... AS INTEGER)." if types.is_boolean(kind) else ""
    return f"{name} needs a number. This expression is of type {kind}.{advice}"


def _values(expression: Expression, column: pa.ChunkedArray) -> Values:
    meaning = _meaning(column.type)
    if meaning == "something else":
        raise QueryError(
            f"{expression.sql} is of type {column.type}: it is neither a condition nor a number."
        )
    kind, nothing = (pa.float64(), 0.0) if meaning == "a number" else (pa.bool_(), False)
    found: Values = column.cast(kind).fill_null(nothing).to_numpy()
    return found


def _finite(values: list[Values], expressions: Sequence[Expression]) -> list[Values]:
    """Numbers set to 0 where they are not finite but do not count; a complaint where they do."""
    counts: Values | bool = True
    for value in values:
        if value.dtype == bool:
            counts = counts & value
    for value, expression in zip(values, expressions, strict=True):
        if value.dtype != bool and not (finite := np.isfinite(value)).all():
            if (~finite & counts).any():
                raise QueryError(
                    f"{expression.sql} is not a finite number for every combination of values that "
                    "satisfies the condition. Exclude the others in WHERE, or guard it with CASE."
                )
            value[~finite] = 0.0
    return values


def _list(texts: Sequence[str]) -> str:
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"


# The cells of a product of domains, listed in row-major order without holding them all.

CELL_LIMIT = 10**8
_ROW = "scumble row"


@dataclass(frozen=True)
class CellAxis:
    """One factor of a product: a number of positions, and the values of some attributes at them."""

    size: int
    names: tuple[str, ...]
    columns: Callable[[npt.NDArray[np.int64]], list[pa.Array]]

    @classmethod
    def of_domain(cls, attribute: Attribute) -> CellAxis:
        """The values of one attribute."""
        kind = attribute.code_type
        return cls(
            attribute.size, (attribute.name,), lambda at: [attribute.decode(at.astype(kind))]
        )

    @classmethod
    def of_rows(cls, frame: pa.Table) -> CellAxis:
        """The rows of a table."""
        return cls(
            frame.num_rows,
            tuple(frame.column_names),
            lambda at: frame.take(pa.array(at)).combine_chunks().columns,
        )


def cell_count(axes: Sequence[CellAxis]) -> int:
    """How many cells there are."""
    return prod(axis.size for axis in axes)


def axes_of(axes: Sequence[CellAxis], names: Sequence[str]) -> tuple[int, ...]:
    """Which axes hold these attributes."""
    return tuple(i for i, axis in enumerate(axes) if not set(names).isdisjoint(axis.names))


def cell_table(axes: Sequence[CellAxis], start: int, most: int) -> pa.Table:
    """The attributes of at most `most` cells from `start` on."""
    cell = np.arange(start, min(start + most, cell_count(axes)))
    columns: dict[str, Any] = {}
    stride = cell_count(axes)
    for axis in axes:
        stride //= max(axis.size, 1)
        at = cell // max(stride, 1) % max(axis.size, 1)
        columns |= zip(axis.names, axis.columns(at), strict=True)
    return pa.table(columns or {_ROW: cell})


def spread(values: Values, axes: Sequence[CellAxis], named: Sequence[int]) -> Values:
    """Values over some of the axes, repeated over the others."""
    narrow = [axis.size if i in named else 1 for i, axis in enumerate(axes)]
    wide = np.broadcast_to(values.reshape(narrow), [axis.size for axis in axes])
    return np.array(wide).reshape(-1)


# Public side tables: what a question may look up besides the release. Nothing here is private.

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
