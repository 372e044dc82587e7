"""Sandbox: a locked-down DuckDB in memory, for public data and expressions over public domains.

It can read the published view and the given public side tables, and nothing else: no other file, no
network, no extension and no setting can be reached from the SQL that it runs.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from scumble.model.cache import Cache
from scumble.model.errors import ParameterError, QueryError, ReleaseError
from scumble.model.long_work import interruptible
from scumble.model.query import Expression, Query, place, quoted
from scumble.model.schema.cells import (
    CELL_LIMIT,
    CellAxis,
    Values,
    axes_of,
    cell_count,
    cell_table,
    codes_within,
    spread,
)
from scumble.model.schema.comparisons import satisfying_codes
from scumble.model.schema.schema import Schema
from scumble.public.limits import (
    BOUNDED_FUNCTIONS,
    QuestionLimits,
    bounded_macros,
    claim_memory,
    watched,
)
from scumble.public.side_tables import side_table

if TYPE_CHECKING:
    import duckdb

_CELLS = "scumble cells"
_BATCH = 1 << 22
OPEN = "open"  # in `Sandbox.derived`: the names of open categories, closed by published values
PLANNED = "planned questions"  # in `Sandbox.derived`: the SQL that a release was planned for
_SAMPLE = "scumble sample"
_SAMPLE_ROWS = 2048
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# What is known of expressions over domains: their values, the questions whose types fit, and the
# versions of conditions that cut bins. In bytes; a key counts as some.
_KNOWN: Cache[Any, Any] = Cache(1 << 26)
SMALLEST = 1 << 10  # what an entry counts at least
_MOST_KEY = 1 << 12  # values of an attribute that is part of a key


class Sandbox:
    """Runs SQL over published files and public side tables, from any thread.

    `tables` are the side tables by name (see `side_table`). The file `view` is the table `view`,
    and `others` are more published files by table name. `derived` is for the estimators: objects
    that they computed from the view, for the next question, and the planned questions of a release.
    """

    def __init__(
        self,
        schema: Schema,
        tables: Mapping[str, Any] = _NOTHING,
        view: Path | None = None,
        others: Mapping[str, Path] = _NOTHING,
    ) -> None:
        self.schema = schema
        self.view = view
        self.derived: dict[str, Any] = {}
        self.side_tables = side_tables = {n: side_table(table) for n, table in tables.items()}
        names = [name.lower() for name in side_tables]
        files = {**({"view": view} if view else {}), **others}
        for name in {"view", *files} & set(names):
            raise ParameterError(f"A public side table cannot be called '{name}': the release is.")
        if len(set(names)) < len(names):
            raise ParameterError("Two public side tables have names that differ only by case.")
        self.columns = {name: tuple(table.column_names) for name, table in side_tables.items()}
        self._domain_axes: dict[str, CellAxis] = {}
        self._open_tables = side_tables, files
        self._opened: duckdb.DuckDBPyConnection | None = None
        self._opening = Lock()
        self._sampled = False  # whether there is the table of sample rows
        self._bounded = False  # whether macros bound the results of functions
        small = all(each.size <= _MOST_KEY for each in schema.published)
        # What expressions mean depends on the schema alone, if there are no side tables.
        self.known = None if side_tables or not small else _KNOWN

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The database, which is opened when something is asked of it."""
        with self._opening:
            if self._opened is None:
                side_tables, files = self._open_tables
                self._opened = _open(side_tables, files)
            return self._opened

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor for a statement, which Ctrl-C stops."""
        with interruptible(), closing(self._connection.cursor()) as cursor:
            yield cursor

    def of_file(self, schema: Schema, name: str) -> Sandbox:
        """Return a sandbox of the same side tables, for another file of the same release."""
        if self.view is None:
            raise ReleaseError("The release has no files.")
        return Sandbox(schema, self._open_tables[0], self.view.parent / name)

    def check(self, query: Query) -> None:
        """Raise `QueryError` if types do not fit or constants cannot be converted.

        Every expression is evaluated on sample rows in which each attribute takes all values of its
        domain, so that errors at run time of DuckDB are found here.
        """
        expressions = [each for each in query.expressions if self._codes(each) is None]
        if query.expressions and not expressions:
            return
        if self.known is None:
            self._check(query, expressions)
            return
        key = (query.expressions, query.argument, self.schema)
        if key not in self.known:
            self._check(query, expressions)
            self.known.put(key, None, SMALLEST)

    def _check(self, query: Query, expressions: Sequence[Expression]) -> None:
        """Check the expressions of a question that DuckDB must evaluate."""
        try:
            table = self._select(expressions)
        except QueryError:
            for expression in expressions:
                self._check_alone(expression, query.text)
            raise
        for expression, column in zip(expressions, table.columns, strict=True):
            wanted = "a number" if expression is query.argument else "a condition"
            if _category(column.type) not in (wanted, "nothing"):
                raise _at(expression, query.text, _type_message(query, wanted, column.type))

    def _codes(self, expression: Expression) -> list[tuple[int, int]] | None:
        """Return the intervals of codes that satisfy a comparison; None if DuckDB must tell."""
        comparison = expression.comparison
        if comparison is None:
            return None
        return satisfying_codes(comparison, self.schema[comparison.column])

    def rows(self, sql: str) -> pa.Table:
        """Run SQL that an estimator built and return the result."""
        with self._cursor() as cursor:
            return self._run(cursor, sql)

    def evaluate(
        self,
        expressions: Sequence[Expression],
        names: Sequence[str],
        frame: pa.Table | None = None,
    ) -> list[Values]:
        """Return the value of each expression in every cell of the product domain of `names`.

        Cells are in row-major order, the last name fastest. With a `frame`, its rows take the place
        of the attributes that are its columns, as the slowest axis. Conditions are returned as
        bool, NULL as False; numbers as float64, NULL as 0. A number must be finite in every cell in
        which all conditions of the same call hold; elsewhere, one that is not finite becomes 0.
        """
        axes = self._axes(names, frame)
        if (total := cell_count(axes)) > CELL_LIMIT:
            raise QueryError(
                f"An expression over {', '.join(names)} would have to be evaluated for {total} "
                f"combinations of values; at most {CELL_LIMIT} are possible."
            )
        size, most = 8 * total * (len(expressions) + 2), QuestionLimits.current().memory
        # Numbers of 64 bits; DuckDB, and what is computed of them, take about as much again.
        claim_memory(size if size > most else min(2 * size, most))
        by_axes: dict[tuple[int, ...], list[int]] = {}
        for index, expression in enumerate(expressions):
            by_axes.setdefault(axes_of(axes, expression.attributes), []).append(index)
        found: dict[int, Values] = {}
        for used, indices in by_axes.items():
            some = [expressions[i] for i in indices]
            values = self._kept([axes[i] for i in used], some)
            found |= {i: spread(v, axes, used) for i, v in zip(indices, values, strict=True)}
        return _check_finite([found[index] for index in range(len(expressions))], expressions)

    def holds(self, conditions: Sequence[Expression], names: Sequence[str]) -> list[Values]:
        """Return the truth of each condition as `evaluate` does; other expressions are an error."""
        found = self.evaluate(conditions, names)
        for expression, value in zip(conditions, found, strict=True):
            if value.dtype != bool:
                raise QueryError(f"{expression.sql} is a number. WHERE needs conditions.")
        return found

    def distinct(
        self,
        expressions: Sequence[Expression],
        names: Sequence[str],
        clauses: Sequence[Expression],
        most: int,
    ) -> pa.Table:
        """Return the combinations of values that expressions take on the product domain of `names`.

        Cells where a clause does not hold are left out. More than `most` are refused.
        """
        axes = self._axes(names, None)
        if (total := cell_count(axes)) > CELL_LIMIT:
            raise QueryError(
                f"GROUP BY an expression over {', '.join(names)} would have to be evaluated for "
                f"{total} combinations of values; at most {CELL_LIMIT} are possible."
            )
        listed = ", ".join(f"({e.sql}) AS c{place}" for place, e in enumerate(expressions))
        where = " AND ".join(f"({clause.sql})" for clause in clauses) or "true"
        parts = []
        for start in range(0, max(total, 1), _BATCH):
            with self._cursor() as cursor:
                cursor.register(_CELLS, cell_table(axes, start, _BATCH))
                sql = f"SELECT DISTINCT {listed} FROM {quoted(_CELLS)} WHERE {where}"
                parts.append(self._run(cursor, f"{sql} ORDER BY ALL LIMIT {most + 1}"))
        found = pa.concat_tables(parts)
        if len(parts) > 1:
            found = found.group_by(found.column_names).aggregate([])
        if found.num_rows > most:
            raise QueryError(
                f"{', '.join(e.sql for e in expressions)} has more than {most:,} values; at most "
                f"{most:,} are possible here. Use a coarser expression."
            )
        return found

    def limits(
        self, expression: Expression, names: Sequence[str], clauses: Sequence[Expression]
    ) -> tuple[float, float]:
        """Return the least and largest value of a number where all clauses hold; NaN if nowhere."""
        *holds, values = self.evaluate([*clauses, expression], names)
        there = np.logical_and.reduce([np.ones(len(values), bool), *holds])
        if not there.any():
            return float("nan"), float("nan")
        return float(values[there].min()), float(values[there].max())

    def sql_types(self, table: pa.Table) -> list[str]:
        """Return the SQL types of the columns of a table."""
        with self._cursor() as cursor:
            cursor.register(_CELLS, table)
            listed = ", ".join(f"typeof({quoted(name)})" for name in table.column_names)
            first = self._run(cursor, f"SELECT {listed} FROM {quoted(_CELLS)} LIMIT 1")
        return [column[0].as_py() if len(column) else "VARCHAR" for column in first.columns]

    def arranged(self, table: pa.Table, column: str, sql: str) -> pa.ChunkedArray:
        """Return a column of a table of estimates after WHERE, ORDER BY and LIMIT, given as SQL."""
        with self._cursor() as cursor:
            cursor.register(_CELLS, table)
            found = self._run(cursor, f"SELECT {quoted(column)} FROM {quoted(_CELLS)} {sql}")
        return found.column(0)

    def add_table(self, name: str, table: pa.Table) -> None:
        """Add a side table."""
        self.keep_table(name, table)
        self.side_tables[name] = table
        self.columns[name] = tuple(table.column_names)

    def keep_table(self, name: str, table: pa.Table) -> None:
        """Add or replace a table that SQL of estimators can name, and questions cannot."""
        with self._cursor() as cursor:
            _create_table(cursor, name, table)

    def close(self) -> None:
        """Close the connection and release its memory."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()

    def _axes(self, names: Sequence[str], frame: pa.Table | None) -> list[CellAxis]:
        rest = [name for name in names if frame is None or name not in frame.column_names]
        for name in rest:
            if name not in self._domain_axes:
                self._domain_axes[name] = CellAxis.of_domain(self.schema[name])
        axes = [self._domain_axes[name] for name in rest]
        return axes if frame is None else [CellAxis.of_rows(frame), *axes]

    def _kept(self, axes: Sequence[CellAxis], expressions: Sequence[Expression]) -> list[Values]:
        """Return what `_over` does; values over domains are kept for all sandboxes of a process."""
        names = tuple(name for axis in axes for name in axis.names)
        if self.known is None or not all(axis.domain for axis in axes):
            return self._over(axes, expressions)
        domains = tuple(self.schema[name] for name in names)
        keys = [(expression.sql, domains) for expression in expressions]
        found = [self.known.get(key) for key in keys]
        if new := [place for place, value in enumerate(found) if value is None]:
            values = self._over_domains(axes, [expressions[place] for place in new])
            for place, value in zip(new, values, strict=True):
                found[place] = value
                self.known.put(keys[place], value, max(value.nbytes, SMALLEST))
        return [cast(Values, value) for value in found]

    def _over_domains(
        self, axes: Sequence[CellAxis], expressions: Sequence[Expression]
    ) -> list[Values]:
        """Return what `_over` does; comparisons of one attribute are found without DuckDB."""
        codes = [self._codes(expression) if len(axes) == 1 else None for expression in expressions]
        rest = [each for each, known in zip(expressions, codes, strict=True) if known is None]
        others = iter(self._over(axes, rest) if rest else [])
        return [
            next(others) if each is None else codes_within(each, axes[0].size) for each in codes
        ]

    def _over(self, axes: Sequence[CellAxis], expressions: Sequence[Expression]) -> list[Values]:
        """Return the values over the product of only these axes, computed in batches of cells."""
        parts: list[list[Values]] = [[] for _ in expressions]
        for start in range(0, max(cell_count(axes), 1), _BATCH):
            table = self._select(expressions, cell_table(axes, start, _BATCH))
            for part, expression, column in zip(parts, expressions, table.columns, strict=True):
                part.append(_values(expression, column))
        return [np.concatenate(part) for part in parts]

    def _select(self, expressions: Sequence[Expression], table: pa.Table | None = None) -> pa.Table:
        """Return the values of expressions in every row of a table; by default, of the sample."""
        listed = ", ".join(f"({expression.sql})" for expression in expressions) or "1"
        with self._cursor() as cursor:
            if table is not None:
                cursor.register(_CELLS, table)
            else:
                self._add_sample(cursor)
            source = _SAMPLE if table is None else _CELLS
            found = self._run(cursor, f"SELECT {listed} FROM {quoted(source)}")
        return found if expressions else found.select([])

    def _add_sample(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Create the table of sample rows before the first statement that needs it."""
        with self._opening:
            if not self._sampled:
                cursor.register(_CELLS, _sample(self.schema))
                cursor.execute(
                    f"CREATE OR REPLACE TABLE {quoted(_SAMPLE)} AS FROM {quoted(_CELLS)}"
                )
                self._sampled = True

    def _run(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
        """Run a statement within the limits of a question and return the result."""
        import duckdb

        self._bound_functions(cursor, sql)
        with watched(cursor.interrupt) as watch:
            try:
                return cursor.sql(sql).to_arrow_table()
            except (duckdb.OutOfMemoryException, MemoryError):
                complaint = watch.limits.memory_message
            except (duckdb.InterruptException, RuntimeError):
                if not watch.exceeded:  # Ctrl-C
                    raise
                complaint = watch.exceeded
            except (duckdb.Error, pa.ArrowException) as error:
                from scumble.public.sql.conditions import type_complaint

                complaint = watch.exceeded or type_complaint(sql, self.schema, _sentence(error))
        raise QueryError(complaint)

    def _bound_functions(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Bound the results of functions before the first statement that can call one of them.

        Few questions name one, and making the macros takes as long as answering a plain question.
        """
        written = sql.lower()
        if not self._bounded and any(name in written for name in BOUNDED_FUNCTIONS):
            with self._opening:
                for statement in () if self._bounded else bounded_macros():
                    cursor.execute(statement)
                self._bounded = True

    def _check_alone(self, expression: Expression, text: str) -> None:
        try:
            self._select([expression])
        except QueryError as error:
            raise _at(expression, text, error.message) from None


def _sample(schema: Schema) -> pa.Table:
    """Return rows in which every attribute takes all its values, or evenly spaced ones."""
    attributes = schema.published
    rows = min(max((attribute.size for attribute in attributes), default=1), _SAMPLE_ROWS)
    columns = {}
    for attribute in attributes:
        codes = np.arange(rows) % attribute.size
        if attribute.size > rows:
            codes = np.array([i * (attribute.size - 1) // (rows - 1) for i in range(rows)])
        columns[attribute.name] = attribute.decode(codes.astype(attribute.code_type))
    return pa.table(columns or {"": np.zeros(rows, np.int8)})  # DuckDB needs a column


def _open(
    side_tables: Mapping[str, pa.Table], files: Mapping[str, Path]
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB database with the side tables and views of the published files; lock it."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET TimeZone = 'UTC'")
    # A bug of version 2.0: the statistics of CASE without ELSE ignore NULL, so that
    # WHERE starts_with(CASE WHEN b THEN 'x' END, 'x') is true at NULL and other such CASEs fail.
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    for name, table in side_tables.items():
        _create_table(connection, name, table)
    parts = {name: _files(path) for name, path in files.items()}
    # DuckDB checks both the plain and the escaped path when it opens a file.
    plain = [str(file) for paths in parts.values() for file in paths]
    connection.execute(f"SET allowed_paths = {_list(sorted({*plain, *map(glob.escape, plain)}))}")
    for name, paths in parts.items():
        listed = _list([glob.escape(str(file)) for file in paths])
        try:
            with interruptible():
                connection.execute(f"CREATE VIEW {quoted(name)} AS FROM read_parquet({listed})")
        except duckdb.Error as error:
            raise ReleaseError(f"The published table cannot be read. {_sentence(error)}") from None
    connection.execute("SET temp_directory = ''")  # what does not fit is refused, not written
    connection.execute(f"SET memory_limit = '{QuestionLimits.current().memory / 1e6:.0f}MB'")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    return connection


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register(_CELLS, table)
    connection.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS FROM {quoted(_CELLS)}")
    connection.unregister(_CELLS)


def _files(view: Path) -> list[Path]:
    found = sorted(view.rglob("*.parquet")) if view.is_dir() else [view]
    return [file.resolve() for file in found]


def _sentence(error: Exception) -> str:
    """Return the first line of a DuckDB error, without its type and advice that does not apply."""
    line = str(error).strip().split("\n")[0]
    line = re.sub(r"^[A-Z][\w ]*(Error|Exception): ", "", line)
    line = re.sub(r",? or SET .*", ".", line).removesuffix(
        "You might need to add explicit type casts."
    )
    return line.strip() if line.strip().endswith((".", "!", "?")) else line.strip() + "."


def _at(expression: Expression, text: str, message: str) -> QueryError:
    line, column = place(text, expression.start)
    return QueryError(message, text=text, line=line, column=column)


def _category(kind: pa.DataType) -> str:
    if types.is_boolean(kind):
        return "a condition"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "a number"
    return "nothing" if types.is_null(kind) else "something else"


def _type_message(query: Query, wanted: str, kind: pa.DataType) -> str:
    if wanted == "a condition":
        return f"WHERE needs conditions that are true or false. This one is of type {kind}."
    name = "SUM" if query.aggregate == "sum" else "AVG"
    advice = " Write CAST(... AS INTEGER)." if types.is_boolean(kind) else ""
    return f"{name} needs a number. This expression is of type {kind}.{advice}"


def _values(expression: Expression, column: pa.ChunkedArray) -> Values:
    category = _category(column.type)
    if category == "something else":
        raise QueryError(
            f"{expression.sql} is of type {column.type}: it is neither a condition nor a number."
        )
    kind, nothing = (pa.float64(), 0.0) if category == "a number" else (pa.bool_(), False)
    found: Values = pc.fill_null(pc.cast(column, kind), nothing).to_numpy()
    return found


def _check_finite(values: list[Values], expressions: Sequence[Expression]) -> list[Values]:
    """Set numbers that are not finite to 0 where a condition is false; others are an error."""
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
