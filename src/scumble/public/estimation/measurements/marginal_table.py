"""A whole marginal as a table: the estimates of all its cells, or non-negative and whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from scumble.model.designs.residual_axis import Tensor
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.answer import reader
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.residual_fit import Fit, whole
from scumble.public.sandbox import Engine

MOST_CELLS = 10**7


def marginal_table(
    evidence: Evidence,
    schema: Schema,
    engine: Engine,
    names: Sequence[str],
    *,
    nonnegative: bool = False,
    integers: bool = False,
) -> pa.Table:
    """One row a cell, its values in the columns `names` and the estimate in `count`."""
    if not isinstance(evidence, Measurements) or evidence.design.kind != "residuals":
        raise QueryError(
            "Only a release by marginals, fourier or datacube has tables of marginals. Ask with "
            "GROUP BY instead."
        )
    chosen = [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in evidence.columns:
            known = ", ".join(evidence.columns)
            raise QueryError(f"The release has no column {name!r}. It has {known}.")
    if len(set(chosen)) < len(chosen):
        raise QueryError("The attributes of a marginal must differ; one of them is there twice.")
    if (cells := schema.size(chosen)) > MOST_CELLS:
        raise QueryError(
            f"The marginal of {', '.join(chosen)} has {cells:.3g} cells; a table has at most "
            f"{MOST_CELLS:.0e}. Name fewer attributes."
        )
    return _table(schema, chosen, _counts(evidence, schema, engine, chosen, nonnegative), integers)


def _counts(
    evidence: Measurements,
    schema: Schema,
    engine: Engine,
    names: Sequence[str],
    nonnegative: bool,
) -> Tensor:
    source = cast(ResidualReader, reader(evidence, schema, engine))
    places = source.places(names)
    if nonnegative:
        if "fit" not in engine.kept:
            engine.kept["fit"] = Fit(source.solver)
        found = engine.kept["fit"].table(places)
    else:
        found = source.marginal(places)
    order = [places.index(source.places([name])[0]) for name in names]
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
    numbers = whole(counts).astype(np.int64) if integers else counts
    return pa.table({**columns, count: numbers.reshape(-1)})
