"""The reader of a release of measurements: that of a shared design, or of a family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from scumble.families import design_reader, reader_class, verb_classes
from scumble.model import stored
from scumble.model.designs.residuals import Residuals, ResidualSolver
from scumble.model.designs.sides import Sides
from scumble.model.errors import ReleaseError, ScumbleError
from scumble.model.evidence.evidence import Evidence, MeasuredSum, Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.matrix import MatrixReader
from scumble.public.estimation.measurements.readings import QuestionReader, Reader
from scumble.public.estimation.measurements.sides import SideReader, SidesReader
from scumble.public.sandbox import Sandbox

_SHARED: Mapping[str, Any] = {
    "matrix": MatrixReader,
    "product": ProductReader,
    "residuals": ResidualReader,
}


def reader_kind(design: str) -> Any:
    """Return the class that reads a kind of design."""
    return _SHARED.get(design) or reader_class(design)


def reader_of(evidence: Measurements, schema: Schema, engine: Sandbox) -> Reader | QuestionReader:
    """Return the reader of a release. It is made for the first question and kept in `engine`."""
    if "reader" not in engine.derived:
        if isinstance(evidence.design, Sides):
            [measured] = evidence.sums
            engine.derived["reader"] = sides_reader(evidence, schema, engine, measured)
        else:
            make = reader_kind(evidence.design.kind)
            engine.derived["reader"] = _made(make, evidence, schema, engine)
    found: Reader | QuestionReader = engine.derived["reader"]
    return found


def linear_reader(evidence: Measurements, schema: Schema, engine: Sandbox) -> Reader:
    """Return a reader of weighted sums of cells, also of a design that answers whole questions: of
    tables that the data chose, that of the tables of single attributes.
    """
    kind = reader_kind(evidence.design.kind)
    made = _made(getattr(kind, "linear", kind), evidence, schema, engine)
    found: Reader = getattr(made, "by_attribute", made)
    return found


def sides_reader(
    evidence: Measurements, schema: Schema, engine: Sandbox, measured: MeasuredSum
) -> SidesReader:
    """Return the reader of the sides of a sum, which is kept in `engine`."""
    if (kept := f"sides of {measured.amounts.column}") not in engine.derived:
        cells = schema.select([name for name in schema.names if name in evidence.columns])
        reach = measured.amounts.reach
        steps = None if evidence.rows is None else reach * evidence.rows
        readers = []
        for side in measured.sides:
            own = engine.of_file(cells, side.file)
            known = (None, 0, None if steps is None else max(steps, 1))
            found = [linear_reader(replace(side, rows=rows), cells, own) for rows in known]
            readers.append(SideReader(*found))
        engine.derived[kept] = SidesReader(cells, tuple(readers), reach, steps)
    found_reader: SidesReader = engine.derived[kept]
    return found_reader


@dataclass(frozen=True)
class _SumOfNoises:
    """What least squares needs of the noise of a sum of sides over the steps of a row."""

    variance: float
    fourth: float


def _counted_tables(evidence: Measurements, engine: Sandbox) -> ResidualReader:
    """Return the reader of the tables of counts that the sides of a sum tell."""
    if (kept := "tables of counts") not in engine.derived:
        design, [measured] = cast(Residuals, evidence.of_cells), evidence.sums
        reach, times = measured.amounts.reach, len(measured.sides)
        sides = [engine.of_file(engine.schema, side.file) for side in measured.sides]
        asked = f"SELECT {quoted(design.count)} FROM view"
        numbers = sum(side.rows(asked).column(0).to_numpy().astype(np.float64) for side in sides)
        tables = []
        for each in design.tables:
            law = _SumOfNoises(
                times * each.law.variance / reach**2, times * each.law.fourth / reach**4
            )
            tables.append(replace(each, law=cast(Any, law)))
        counted = replace(design, tables=tuple(tables))
        solver = ResidualSolver(counted, cast(Any, numbers) / reach, evidence.rows)
        engine.derived[kept] = ResidualReader.of_solver(solver)
    found: ResidualReader = engine.derived[kept]
    return found


def is_fixed(design: str) -> bool:
    """Return whether designs of this kind are read by fixed weights of all numbers, which do not
    depend on the data.
    """
    return design in (*_SHARED, Sides.kind) or hasattr(reader_kind(design), "linear")


def _made(make: Any, evidence: Measurements, schema: Schema, engine: Sandbox) -> Any:
    try:
        return make(evidence, schema, engine)
    except stored.MALFORMED as error:
        if isinstance(error, ScumbleError):
            raise
        raise ReleaseError(stored.DAMAGED) from error


def reader_with(evidence: Evidence, schema: Schema, engine: Sandbox, verb: str) -> Any:
    """Return what has the method `verb` for a release: a class that a family has for it, or the
    reader of the release; None if there is none.
    """
    if not isinstance(evidence, Measurements):
        return None
    for kind in verb_classes(verb):
        if (own := kind.of(evidence, schema, engine)) is not None:
            return own
    has_it = hasattr(reader_kind(evidence.of_cells.kind), verb)
    if isinstance(evidence.design, Sides):
        of_tables = has_it and isinstance(evidence.of_cells, Residuals)
        return _counted_tables(evidence, engine) if of_tables else None
    return reader_of(evidence, schema, engine) if has_it else None


def read_strings(evidence: Evidence, schema: Schema, sql: str, column: str) -> Query:
    """Read a question about the sequences `column` of measurements; QueryError for any other."""
    kind = cast(Measurements, evidence).design.kind
    query: Query = design_reader(kind).read_strings(sql, schema, column)
    return query
