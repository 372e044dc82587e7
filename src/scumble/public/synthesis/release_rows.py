"""Rows of a release: which noisy tables its evidence states, and rows with the schema's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import MissingViewError, ParameterError, QueryError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.estimators import Estimator
from scumble.public.estimation.measurements.readers import reader_with
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.drawn_values import make_possible, value_within
from scumble.public.synthesis.noisy_tables import NoisyTable, Places, estimated_total
from scumble.public.synthesis.quality import Quality, quality
from scumble.public.synthesis.row_model import RowModel
from scumble.public.synthesis.tree_model import Codes
from scumble.public.views import MOST_ROWS, DrawnRows

MOST_LISTS = 10**7  # rows of lists
_MOST_CELLS = 1 << 16  # of a table that is read cell by cell
_KEPT = "row model"  # in `Sandbox.derived`


@dataclass(frozen=True, eq=False)
class ReleaseRows:
    """The row model of a release, with the attributes that its columns have."""

    schema: Schema
    names: tuple[str, ...]
    model: RowModel

    def table(self, number: int, seed: int | None) -> pa.Table:
        """Return `number` rows; of a bin, a month or a year with a value inside of it."""
        generator = np.random.default_rng(None if seed is None else [seed, 1])
        codes = dict(zip(self.names, self.codes(number, seed), strict=True))
        return pa.table(
            {name: value_within(self.schema[name], codes[name], generator) for name in self.names}
        )

    def codes(self, number: int, seed: int | None) -> list[Codes]:
        """Return the codes of `number` rows, none of which is impossible by the schema."""
        columns = self.model.rows(number, seed)
        generator = np.random.default_rng(None if seed is None else [seed, 2])
        make_possible(self.schema, self.names, columns, generator)
        return columns

    @property
    def expected(self) -> int:
        """The estimated number of rows of the private table."""
        return min(max(round(self.model.total), 0), MOST_ROWS)

    def decoded(self, columns: Sequence[Codes]) -> pa.Table:
        """Return codes as values of the schema's types."""
        pairs = zip(self.names, columns, strict=True)
        return pa.table(
            {
                name: self.schema[name].decode(codes.astype(self.schema[name].code_type))
                for name, codes in pairs
            }
        )

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far rows are from the noisy tables: see `synthesis.quality`."""
        lacking = [name for name in self.names if name not in rows.column_names]
        if lacking:
            raise ParameterError.of("quality", "rows", "a table with all columns", lacking)
        columns = []
        for name, own in zip(self.names, self.model.classes, strict=True):
            codes, outside = self.schema[name].encode(rows[name])
            if outside.any():
                raise ParameterError(f"The rows have a value of '{name}' outside its domain.")
            columns.append(codes if own is None else own.of_code[codes])
        model = self.model
        tables = [self._with_noise_of_classes(each) for each in model.tables]
        return quality(self.names, columns, model.sizes, tables, model.total)

    def _with_noise_of_classes(self, table: NoisyTable) -> NoisyTable:
        """Return the table of one attribute with the mean noise of the classes, whose counts are
        sums of noisy counts of values.
        """
        own = self.model.classes[table.places[0]]
        if own is None or len(table.places) > 1:
            return table
        mean = float(np.sqrt(np.bincount(own.of_code)).mean())
        return replace(table, variance=table.variance * mean**2)


def rows_of(evidence: Evidence, schema: Schema, engine: Sandbox) -> DrawnRows:
    """Return what draws rows of a release; ParameterError if it publishes rows or keys."""
    if evidence.rows_refused is not None:
        raise MissingViewError(evidence.rows_refused)
    if _KEPT not in engine.derived:
        engine.derived[_KEPT] = _rows_of(cast(Measurements, evidence), schema, engine)
    return cast(DrawnRows, engine.derived[_KEPT])


def _rows_of(evidence: Measurements, schema: Schema, engine: Sandbox) -> DrawnRows:
    own = reader_with(evidence, schema, engine, "drawn_rows")
    if own is not None:
        return cast(DrawnRows, own.drawn_rows())
    return ReleaseRows(schema, evidence.columns, row_model(evidence, schema, engine))


def row_model(evidence: Measurements, schema: Schema, engine: Sandbox) -> RowModel:
    """Return the model of the rows: that of the reader, or one of the noisy tables."""
    own = reader_with(evidence, schema, engine, "row_model")
    if own is not None:
        return cast(RowModel, own.row_model)
    sizes = [schema[name].size for name in evidence.columns]
    reader = reader_with(evidence, schema, engine, "noisy_tables")
    if reader is None:
        tables = _read_tables(evidence, schema, engine)
    else:
        tables = reader.noisy_tables(evidence.columns, schema)
    total = estimated_total(tables) if evidence.rows is None else float(evidence.rows)
    return RowModel.of(
        sizes, [_without_impossible(each, evidence, schema) for each in tables], total
    )


def _without_impossible(table: NoisyTable, evidence: Measurements, schema: Schema) -> NoisyTable:
    """Return a noisy table with 0 in the cells that no row can be in."""
    never = schema.impossible_cells([evidence.columns[place] for place in table.places])
    return table if never is None else replace(table, counts=np.where(never, 0.0, table.counts))


def list_table(
    name: str, values: pa.Array, codes: npt.NDArray[Any], offsets: npt.NDArray[Any]
) -> pa.Table:
    """Return lists as a column, given all codes one after the other and where each list begins."""
    flat = values.take(pa.array(codes, pa.int64()))
    return pa.table({name: pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)})


def _read_tables(evidence: Measurements, schema: Schema, engine: Sandbox) -> list[NoisyTable]:
    """Return the table of all attributes if it is small and can be read; else those of all pairs
    that can be, and of single attributes.
    """
    estimator, names = Estimator(evidence, schema, engine), evidence.columns
    if joint := list(_tables_of(estimator, names, len(names))):
        return joint
    found = [each for ways in (2, 1) for each in _tables_of(estimator, names, ways)]
    if len({place for table in found for place in table.places}) == len(names):
        return found
    raise ParameterError(
        "Synthetic rows need the counts of every attribute, and this release does not tell them: "
        "its domains are too large, or it was made for other questions."
    )


def _tables_of(estimator: Estimator, names: Sequence[str], ways: int) -> Iterator[NoisyTable]:
    for places in combinations(range(len(names)), ways):
        chosen = tuple(names[place] for place in places)
        if estimator.schema.size(chosen) <= _MOST_CELLS:
            try:
                yield _read(estimator, places, chosen)
            except QueryError:
                continue


def _read(estimator: Estimator, places: Places, names: tuple[str, ...]) -> NoisyTable:
    """Return the counts of all cells of some attributes, as the release answers them."""
    schema = estimator.schema
    codes = [
        {label: code for code, label in enumerate(schema[name].labels().to_pylist())}
        for name in names
    ]
    counts = np.zeros([schema[name].size for name in names])
    variances = []
    for key, estimate in estimator.one(Query("count", groups=names)):
        counts[tuple(own[value] for own, value in zip(codes, key, strict=True))] = estimate.value
        variances.append(estimate.stderr**2)
    known = [each for each in variances if isfinite(each)]
    variance = sum(known) / len(known) if known else 1.0
    return NoisyTable(places, counts, max(variance, 1e-12))
