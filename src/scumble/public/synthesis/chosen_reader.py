"""ChosenReader: answers from tables that were chosen privately, and from synthetic rows where no
table holds the question.

A question about one attribute is read from the tables of single attributes, all of which are always
measured. One about several is read from the first measured table that holds them, alone. Whether a
table is the first to hold some attributes is known before its noise is drawn, so that the noise is
independent of it. A later table could be chosen because the noise of an earlier one misled the
model; least squares over both, or reading the last one, would be biased.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.residuals import MarginalTable, Residuals, ResidualSolver
from scumble.model.errors import ReleaseError
from scumble.model.evidence.chosen_tables import ChosenTables, Integers
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED
from scumble.public.estimate import Estimate, Unknown
from scumble.public.estimation.measurements.answer import MeasuredQuestion
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.readings import Part, Reader, Reading, Weights, joined
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.chosen_model import chosen_model
from scumble.public.synthesis.release_rows import ReleaseRows
from scumble.public.synthesis.row_model import RowModel

Key = tuple[Any, ...]
Tensor = npt.NDArray[np.float64]

MODEL = "model: counted in synthetic rows"
_UNKNOWN = "no measured table holds these attributes together: a model, whose error is not known"
_NO_GROUP = "groups without a synthetic row are left out"
_MERGED = "rare values of {} were counted together; the interval allows for how they may be spread"
_ROWS = "scumble synthetic rows"
_MOST_ROWS = 10**6  # that answers are counted in
_SEED = 0  # of the rows that answers are counted in, so that an answer is the same every time


class ChosenReader:
    """Answers questions from the tables of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.design = cast(ChosenTables, evidence.design)
        self._schema, self._rows = schema, evidence.rows
        self._readers: dict[int, Reader] = {}
        table = engine.rows(f"SELECT {quoted(self.design.count)} FROM view")
        numbers = table.column(0).to_numpy()
        sizes = tuple(schema[name].size for name in self.design.attributes)
        if len(numbers) != self.design.numbers or sizes != self.design.sizes:
            raise ReleaseError(DAMAGED)
        self._tables = self.design.split(numbers)

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group of the answer with its estimate."""
        reader = self._reader(query.attributes)
        if reader is None:
            return self._from_rows(query, engine)
        return MeasuredQuestion(self._schema, query, engine, reader=reader).answers()

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers by place; none is found more cheaply together."""
        for query in queries:
            engine.check(query)
        return {place: list(self.answer(query, engine)) for place, query in enumerate(queries)}

    @cached_property
    def model(self) -> RowModel:
        """The model that rows are drawn from."""
        return chosen_model(self.design, self._tables, self._rows)

    def _reader(self, names: Sequence[str]) -> Reader | None:
        """Return the reader of the table that answers questions about these attributes."""
        places = {self.design.attributes.index(name) for name in names}
        if len(places) < 2:
            return self._single
        for index, table in enumerate(self.design.tables):
            if places <= set(table.places):
                if index not in self._readers:
                    self._readers[index] = self._one(index)
                return self._readers[index]
        return None

    @cached_property
    def _single(self) -> Reader:
        """The reader of the tables of single attributes, together."""
        design, number = self.design, len(self.design.attributes)
        tables = [MarginalTable(each.places, "marginal", each.law) for each in design.tables]
        known = Residuals(design.attributes, design.sizes, tuple(tables[:number]))
        numbers = np.concatenate([each.reshape(-1) for each in self._tables[:number]])
        reader = ResidualReader.of_solver(ResidualSolver(known, numbers, self._rows))
        reader.method = "sum of noisy counts of single attributes, by least squares"
        return reader

    def _one(self, index: int) -> Reader:
        places = self.design.tables[index].places
        names = tuple(self.design.attributes[place] for place in places)
        table = MarginalTable(tuple(range(len(names))), "marginal", self.design.tables[index].law)
        known = Residuals(names, self.design.shape(index), (table,))
        solver = ResidualSolver(known, self._tables[index].reshape(-1), self._rows)
        classes = {
            self.design.attributes[place]: self.design.classes(place)
            for place in places
            if self.design.merged[place]
        }
        return TableReader(self._schema, names, ResidualReader.of_solver(solver), classes)

    # Questions that no table holds.

    def _from_rows(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield the groups that synthetic rows have, counted in them."""
        scale = self._add_rows(engine)
        where = " AND ".join(f"({clause.sql})" for clause in query.clauses) or "true"
        keys = ", ".join(map(quoted, query.groups))
        amount = "1" if query.argument is None else f"({query.argument.sql})"
        told = {"count": "count(*)", "sum": f"sum({amount})", "mean": f"avg({amount})"}
        selected = f"{keys}, {told[query.aggregate]}" if keys else told[query.aggregate]
        grouped = f" GROUP BY {keys} ORDER BY {keys}" if keys else ""
        sql = f"SELECT {selected} FROM {quoted(_ROWS)} WHERE {where}{grouped}"
        notes = (*query.notes, _UNKNOWN, *((_NO_GROUP,) if keys else ()))
        table = engine.rows(sql)
        *labels, numbers = [column.to_pylist() for column in table.columns]
        for place, number in enumerate(numbers):
            value = math.nan if number is None else float(number)
            value = value if query.aggregate == "mean" else value * scale
            value = 0.0 if number is None and query.aggregate == "sum" else value
            yield tuple(each[place] for each in labels), Estimate(value, Unknown(), MODEL, notes)

    def _add_rows(self, engine: Sandbox) -> float:
        """Draw rows as a table of the engine; return how many people each stands for."""
        found = ReleaseRows(self._schema, self.design.attributes, self.model)
        number = min(max(found.expected, 1), _MOST_ROWS)
        if _ROWS not in engine.derived:
            engine.add_table(_ROWS, found.table(number, _SEED))
            del engine.columns[_ROWS]  # no question may name it
            engine.derived[_ROWS] = True
        return 1.0 if number < _MOST_ROWS else self.model.total / number


class TableReader:
    """The reader of one noisy table in which some values of attributes were counted together."""

    method = "sum of cells of the first measured table that holds the attributes"

    def __init__(
        self,
        schema: Schema,
        names: tuple[str, ...],
        cells: ResidualReader,
        classes: dict[str, Integers],
    ) -> None:
        self._schema, self._cells, self._classes = schema, cells, classes
        self._names = tuple(name for name in schema.names if name in names)

    def read(self, weights: Weights) -> Reading:
        low, mean, high = self._by_class(weights)
        found = self._cells.read(mean)
        if bool((low.parts[0].values == high.parts[0].values).all()):
            return found
        note = _MERGED.format(", ".join(name for name in self._names if name in self._classes))
        limits = self._cells.read(low), self._cells.read(high)
        return replace(found, notes=(note,), low=limits[0], high=limits[1])

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        means = self._by_class(first)[1], self._by_class(second)[1]
        return self.read(first), self.read(second), self._cells.pair(*means)[2]

    def _by_class(self, weights: Weights) -> tuple[Weights, Weights, Weights]:
        """Return the least, the mean and the largest weight in every cell of the table."""
        ones = [Part((name,), np.ones(self._schema[name].size)) for name in self._names]
        whole = joined(self._schema, [*weights.parts, *ones])
        parts = [part for part in whole.parts if part.names]
        order = [name for part in parts for name in part.names]
        tensor = reduce(np.multiply.outer, [part.values for part in parts]) * whole.factor
        tensor = tensor.transpose([order.index(name) for name in self._names])
        low = mean = high = tensor
        for axis, name in enumerate(self._names):
            if name in self._classes:
                own = self._classes[name]
                sizes = np.bincount(own)
                starts = np.cumsum(sizes) - sizes
                codes = np.argsort(own, kind="stable")
                low = np.minimum.reduceat(low.take(codes, axis), starts, axis)
                high = np.maximum.reduceat(high.take(codes, axis), starts, axis)
                shape = [-1 if each == axis else 1 for each in range(tensor.ndim)]
                mean = np.add.reduceat(mean.take(codes, axis), starts, axis) / sizes.reshape(shape)
        least, middle, most = (Weights((Part(self._names, each),)) for each in (low, mean, high))
        return least, middle, most
