"""Counts from a small published file, read by Arrow.

Importing and starting DuckDB takes longer than everything else that a plain count from a small
release needs. Here the file is read whole, its values become codes, and comparisons of columns with
literals are looked up by code. Every function returns None where DuckDB must do it: if the file is
not small, if DuckDB runs anyway, or if only DuckDB knows what a comparison means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.query import Expression, Query
from scumble.model.schema.cells import codes_within
from scumble.model.schema.comparisons import satisfying_codes
from scumble.model.schema.schema import Schema
from scumble.model.stored import SMALL
from scumble.public.sandbox import Sandbox

Truth = npt.NDArray[np.bool_]


def is_plain_count(query: Query, schema: Schema) -> bool:
    """Return whether a question is one count of rows that satisfy comparisons with literals, whose
    meaning is known without DuckDB.
    """
    plain = query.aggregate == "count" and not query.groups
    return plain and _codes(query.clauses, schema) is not None


def small_table(
    engine: Sandbox, columns: Sequence[str], text: Sequence[str] = (), most: int | None = None
) -> pa.Table | None:
    """Return some columns of the published file, those of `text` as dictionaries; None if DuckDB
    runs, or if the file has more than `most` rows (by default, `SMALL`).
    """
    view = engine.view
    if engine.is_running or view is None or not view.is_file():
        return None
    import pyarrow.parquet as pq

    # A file, not its path, which Arrow might take for the address of another file system.
    with pa.OSFile(str(view)) as source, pq.ParquetFile(source, read_dictionary=text) as file:
        if file.metadata.num_rows > (most or SMALL) or not {*columns} <= {*file.schema_arrow.names}:
            return None
        return file.read(columns=list(columns), use_threads=False)


def small_counts(
    engine: Sandbox, schema: Schema, filters: Sequence[Expression], hits: Sequence[Expression]
) -> tuple[int, int] | None:
    """Return the number of rows that satisfy `filters`, and of those that satisfy `hits`, too."""
    clauses = [*filters, *hits]
    codes = _codes(clauses, schema)
    names = sorted({name for clause in clauses for name in clause.attributes})
    if codes is None or not names:
        return None
    text = [name for name in names if pa.types.is_string(schema[name].arrow_type)]
    table = small_table(engine, names, text)
    if table is None:
        return None
    shown = {}
    for name in names:
        shown[name], outside = schema[name].encode(table[name])
        if outside.any():
            return None
    counted: Truth = np.ones(table.num_rows, bool)
    rows = table.num_rows
    for number, (clause, within) in enumerate(zip(clauses, codes, strict=True)):
        counted &= within[shown[clause.attributes[0]]]
        if number + 1 == len(filters):
            rows = int(counted.sum())
    return rows, int(counted.sum())


def _codes(clauses: Sequence[Expression], schema: Schema) -> list[Truth] | None:
    """Return for each clause which codes of its attribute satisfy it; None if DuckDB must tell."""
    found = []
    for clause in clauses:
        comparison = clause.comparison
        if comparison is None or clause.attributes != (comparison.column,):
            return None
        attribute = schema[comparison.column]
        intervals = satisfying_codes(comparison, attribute)
        if intervals is None:
            return None
        found.append(codes_within(intervals, attribute.size))
    return found
