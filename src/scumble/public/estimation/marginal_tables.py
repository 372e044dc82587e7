"""The tables of marginals that `Release.marginal` gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from scumble.model.errors import QueryError, large
from scumble.model.evidence.evidence import Evidence
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.marginals import (
    MOST_CELLS,
    Fit,
    ResidualReader,
    rounded,
)
from scumble.public.estimation.measurements.readers import reader_with
from scumble.public.estimation.measurements.readings import Tensor
from scumble.public.sandbox import Sandbox


def marginal_table(
    evidence: Evidence,
    schema: Schema,
    engine: Sandbox,
    names: Sequence[str],
    *,
    nonnegative: bool = False,
    integers: bool = False,
) -> pa.Table:
    """Return the estimates of all cells of the marginal of `names`.

    The table has one row for each cell, its values in the columns `names` and the estimate in
    `count`: 0 for a cell that no row can be in, by the schema. With `nonnegative`, tables are
    fitted without negative cells. With `integers`, they are rounded.
    """
    reader: ResidualReader = reader_with(evidence, schema, engine, "marginal")
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in evidence.columns:
            known = ", ".join(evidence.columns)
            raise QueryError(f"The release has no column {name!r}. It has {known}.")
    if len(set(chosen)) < len(chosen):
        raise QueryError("The attributes of a marginal must differ; one of them is there twice.")
    if (cells := schema.size(chosen)) > MOST_CELLS:
        raise QueryError(
            f"The marginal of {', '.join(chosen)} has {large(cells)} cells; a table has at most "
            f"{large(MOST_CELLS)}. Name fewer attributes."
        )
    counts = _counts(reader, engine, chosen, nonnegative)
    if (never := schema.impossible_cells(chosen)) is not None:
        counts = np.where(never, 0.0, counts)
    return _table(schema, chosen, counts, integers)


def _counts(
    reader: ResidualReader, engine: Sandbox, names: Sequence[str], nonnegative: bool
) -> Tensor:
    places = reader.places(names)
    if nonnegative:
        if "fit" not in engine.derived:
            engine.derived["fit"] = Fit(reader.solver)
        found = engine.derived["fit"].table(places)
    else:
        found = reader.marginal(places)
    order = [places.index(reader.places([name])[0]) for name in names]
    counts: Tensor = found.transpose(order)
    return counts


def _table(schema: Schema, names: Sequence[str], counts: Tensor, integers: bool) -> pa.Table:
    codes = np.indices(counts.shape).reshape(len(names), counts.size)
    columns = {
        name: schema[name].decode(code.astype(schema[name].code_type))
        for name, code in zip(names, codes, strict=True)
    }
    count = "count"
    while count in columns:
        count += "_"
    numbers = rounded(counts).astype(np.int64) if integers else counts
    return pa.table({**columns, count: numbers.reshape(-1)})
