"""Reader of counts that were chosen in rounds (Mwem): measured counts, and the model for others.

A count is read from its first measurement, and never together with others. The noise of the first
measurement was drawn after the count was chosen, so that its law is known whatever was chosen. That
another count was measured too depends on this noise: a sum of two would not have the law of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.families.synthesis.design import (
    CELLS,
    NOISY,
    ChosenTables,
    Integers,
    QueryRounds,
    by_class,
    fit_model,
)
from scumble.model.designs.residuals import MarginalTable, Residuals, ResidualSolver
from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED
from scumble.public.estimate import Estimate, Exact, Law, Scaled, Unknown
from scumble.public.estimation.measurements.answer import MeasuredQuestion
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.matrix import MergedWeights
from scumble.public.estimation.measurements.readings import (
    LinearReading,
    Reader,
    Weights,
    WeightTensor,
    joined,
)
from scumble.public.estimation.measurements.weighed import WeighedQuestion
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.noisy_tables import NoisyTable, estimated_total
from scumble.public.synthesis.release_rows import ReleaseRows
from scumble.public.synthesis.row_model import Classes, RowModel

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]

MEASURED = "measured count; interval from the law of its noise"
_FITTED = "model: fitted to the counts that were measured"
NO_ERROR = "how far the model is from the table is not known"
_EQUAL = 1e-11


class RoundsReader:
    """The measured counts of one release, and the model fitted to them."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design = cast(QueryRounds, evidence.design)
        self._schema, self._rows = schema, evidence.rows
        self._by_cell = MergedWeights(schema, design.merged)
        table = engine.rows(f"SELECT {NOISY}, {CELLS} FROM view")
        numbers = [float(noisy) for noisy in table[NOISY].to_pylist()]
        sets = [np.array(members, np.int64) for members in table[CELLS].to_pylist()]
        cells = design.merged.cells
        if any(len(s) and not 0 <= s.min() <= s.max() < cells for s in sets):
            raise ReleaseError("The release is damaged: its counts name cells that it has not.")
        self._total: tuple[float, Law] = (float(evidence.rows or 0), Exact())
        if design.row_noise is not None:
            self._total = numbers.pop(0), design.row_noise
            sets.pop(0)
        self._noise = design.noise
        self._measured: dict[bytes, float] = {}
        for places, number in zip(sets, numbers, strict=True):
            self._measured.setdefault(self._make_mask(places, cells).tobytes(), number)
        self._model = fit_model(self._by_cell.sizes, self._total[0], sets, numbers)

    @staticmethod
    def _make_mask(places: npt.NDArray[np.int64], cells: int) -> npt.NDArray[np.bool_]:
        mask = np.zeros(cells, bool)
        mask[places] = True
        return mask

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group of the answer with its estimate."""
        question = WeighedQuestion(self._schema, query, engine)
        for key, condition, summed in question.weights_by_group():
            if query.aggregate == "mean":
                yield key, self._average(query, condition, summed)
            else:
                yield key, self._sum(query, summed)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return all answers by place in `queries`."""
        answers = {}
        for index, query in enumerate(queries):
            engine.check(query)
            answers[index] = list(self.answer(query, engine))
        return answers

    def _sum(self, query: Query, weights: Weights) -> Estimate:
        """Return a count or a sum: as it was measured, or by the model."""
        if not weights.largest():
            return Estimate(0.0, Exact(), "no cell satisfies the condition", query.notes)
        means, equal = self._by_cell.means(weights)
        known = self._find_known(means) if equal else None
        if known is not None:
            value, law = known
            return Estimate(value, law, MEASURED, query.notes)
        return self._make_estimate(query, float(means @ self._model))

    def _find_known(self, weights: Floats) -> tuple[float, Law] | None:
        """Return the estimate of a multiple of one measured count, if it is one."""
        factor = float(weights[np.argmax(np.abs(weights))])
        inside = np.abs(weights - factor) <= _EQUAL * abs(factor)
        if not (inside | (np.abs(weights) <= _EQUAL * abs(factor))).all():
            return None
        if inside.all():
            value, law = self._total
            return factor * value, law if isinstance(law, Exact) else Scaled(law, factor)
        number = self._measured.get(inside.tobytes())
        if number is None and self._rows is not None:  # then the others are known with it
            others = self._measured.get((~inside).tobytes())
            number = None if others is None else self._rows - others
        return None if number is None else (factor * number, Scaled(self._noise, factor))

    def _average(self, query: Query, condition: Weights, summed: Weights) -> Estimate:
        count = float(self._by_cell.means(condition)[0] @ self._model)
        if count <= 0:
            return Estimate(math.nan, Unknown(), "average of no rows", query.notes)
        return self._make_estimate(
            query, float(self._by_cell.means(summed)[0] @ self._model) / count
        )

    def _make_estimate(self, query: Query, value: float) -> Estimate:
        return Estimate(value, Unknown(), _FITTED, (*query.notes, NO_ERROR))


# --- chosen model ---------------------------------------------------------------------------------
#
# The row model of privately chosen tables.


def chosen_model(
    design: ChosenTables, tables: Sequence[npt.NDArray[Any]], rows: int | None
) -> RowModel:
    """Return the model of the noisy `tables` of a design; `rows` is their number, if known."""
    number = len(design.attributes)
    noisy = [
        NoisyTable(chosen.places, np.asarray(counts, np.float64), chosen.law.variance)
        for chosen, counts in zip(design.tables, tables, strict=True)
    ]
    single = noisy[:number]
    total = float(rows) if rows is not None else estimated_total(single)
    coarse, classes = [], []
    for index, table in enumerate(single):
        own = design.classes(index)
        coarse.append(NoisyTable(table.places, by_class(table.counts, [own]), table.variance))
        classes.append(Classes(own, table.counts) if design.merged[index] else None)
    return RowModel(design.class_sizes, [*coarse, *noisy[number:]], max(total, 1.0), classes)


# --- chosen reader --------------------------------------------------------------------------------
#
# ChosenReader: answers from tables that were chosen privately, and from synthetic rows where no
# table holds the question.
#
# A question about one attribute is read from the tables of single attributes, all of which are
# always measured. One about several is read from the first measured table that holds them, alone.
# Whether a table is the first to hold some attributes is known before its noise is drawn, so that
# the noise is independent of it. A later table could be chosen because the noise of an earlier one
# misled the model; least squares over both, or reading the last one, would be biased.

Tensor = npt.NDArray[np.float64]

_COUNTED = "model: counted in synthetic rows"
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
            return self._answer_from_rows(query, engine)
        return MeasuredQuestion(self._schema, query, engine, reader=reader).answers()

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers by place; none is found more cheaply together."""
        for query in queries:
            engine.check(query)
        return {index: list(self.answer(query, engine)) for index, query in enumerate(queries)}

    @cached_property
    def row_model(self) -> RowModel:
        """The model that rows are drawn from."""
        return chosen_model(self.design, self._tables, self._rows)

    def _reader(self, names: Sequence[str]) -> Reader | None:
        """Return the reader of the table that answers questions about these attributes."""
        places = {self.design.attributes.index(name) for name in names}
        if len(places) < 2:
            return self.by_attribute
        for index, table in enumerate(self.design.tables):
            if places <= set(table.places):
                if index not in self._readers:
                    self._readers[index] = self._make_reader(index)
                return self._readers[index]
        return None

    @cached_property
    def by_attribute(self) -> Reader:
        """The reader of the tables of single attributes, together."""
        design, number = self.design, len(self.design.attributes)
        tables = [MarginalTable(table.places, "marginal", table.law) for table in design.tables]
        known = Residuals(design.attributes, design.sizes, tuple(tables[:number]))
        numbers = np.concatenate([counts.reshape(-1) for counts in self._tables[:number]])
        reader = ResidualReader.of_solver(ResidualSolver(known, numbers, self._rows))
        reader.method = "sum of noisy counts of single attributes, by least squares"
        return reader

    def _make_reader(self, index: int) -> Reader:
        places = self.design.tables[index].places
        names = tuple(self.design.attributes[attribute] for attribute in places)
        table = MarginalTable(tuple(range(len(names))), "marginal", self.design.tables[index].law)
        known = Residuals(names, self.design.shape(index), (table,))
        solver = ResidualSolver(known, self._tables[index].reshape(-1), self._rows)
        classes = {
            self.design.attributes[attribute]: self.design.classes(attribute)
            for attribute in places
            if self.design.merged[attribute]
        }
        return TableReader(self._schema, names, ResidualReader.of_solver(solver), classes)

    # Questions that no table holds.

    def _answer_from_rows(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield the groups that synthetic rows have, counted in them."""
        scale = self._add_rows(engine)
        where = " AND ".join(f"({clause.sql})" for clause in query.clauses) or "true"
        keys = ", ".join(map(quoted, query.groups))
        amount = "1" if query.argument is None else f"({query.argument.sql})"
        functions = {"count": "count(*)", "sum": f"sum({amount})", "mean": f"avg({amount})"}
        selected = f"{keys}, {functions[query.aggregate]}" if keys else functions[query.aggregate]
        grouped = f" GROUP BY {keys} ORDER BY {keys}" if keys else ""
        sql = f"SELECT {selected} FROM {quoted(_ROWS)} WHERE {where}{grouped}"
        notes = (*query.notes, _UNKNOWN, *((_NO_GROUP,) if keys else ()))
        table = engine.rows(sql)
        *labels, numbers = [column.to_pylist() for column in table.columns]
        for row, number in enumerate(numbers):
            value = math.nan if number is None else float(number)
            value = value if query.aggregate == "mean" else value * scale
            value = 0.0 if number is None and query.aggregate == "sum" else value
            yield (
                tuple(values[row] for values in labels),
                Estimate(value, Unknown(), _COUNTED, notes),
            )

    def _add_rows(self, engine: Sandbox) -> float:
        """Draw rows as a table of the engine; return how many people each stands for."""
        release_rows = ReleaseRows(self._schema, self.design.attributes, self.row_model)
        number = min(max(release_rows.expected, 1), _MOST_ROWS)
        if _ROWS not in engine.derived:
            engine.add_table(_ROWS, release_rows.decoded(release_rows.codes(number, _SEED)))
            del engine.columns[_ROWS]  # no question may name it
            engine.derived[_ROWS] = True
        return 1.0 if number < _MOST_ROWS else self.row_model.total / number


class TableReader:
    """The reader of one noisy table in which some values of attributes were counted together."""

    method = "sum of noisy counts of the first table that holds the columns"

    def __init__(
        self,
        schema: Schema,
        names: tuple[str, ...],
        cells: ResidualReader,
        classes: dict[str, Integers],
    ) -> None:
        self._schema, self._cells, self._classes = schema, cells, classes
        self._names = tuple(name for name in schema.names if name in names)

    def read(self, weights: Weights) -> LinearReading:
        low, mean, high = self._group_weights(weights)
        reading = self._cells.read(mean)
        if bool((low.parts[0].values == high.parts[0].values).all()):
            return reading
        note = _MERGED.format(", ".join(name for name in self._names if name in self._classes))
        limits = self._cells.read(low), self._cells.read(high)
        return replace(reading, notes=(note,), low=limits[0], high=limits[1])

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        means = self._group_weights(first)[1], self._group_weights(second)[1]
        return self.read(first), self.read(second), self._cells.pair(*means)[2]

    def _group_weights(self, weights: Weights) -> tuple[Weights, Weights, Weights]:
        """Return the least, the mean and the largest weight in every cell of the table."""
        ones = [WeightTensor((name,), np.ones(self._schema[name].size)) for name in self._names]
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
                shape = [-1 if other == axis else 1 for other in range(tensor.ndim)]
                mean = np.add.reduceat(mean.take(codes, axis), starts, axis) / sizes.reshape(shape)
        least, middle, most = (
            Weights((WeightTensor(self._names, values),)) for values in (low, mean, high)
        )
        return least, middle, most
