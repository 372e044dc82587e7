"""Histogram: a noisy count for every cell of a contingency table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.arrow_compute import column
from scumble.model.designs.registry import Cells
from scumble.model.errors import ParameterError, large
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import free_name
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim, protection
from scumble.private.mechanism import Layout
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary, of_cells

MOST_CELLS = 10**8
_WRITE_CHUNK = 1 << 20


@dataclass(kw_only=True, eq=False, repr=False)
class Histogram(AttributeSummary):
    """Publishes the count of every combination of values of the chosen attributes, each with
    discrete Laplace noise. Any condition on these attributes is answered by adding cells.

    `neighbours` says who is protected: "replace" hides what one person's rows say, "add_remove"
    also hides whether the person is in the table. `contribution` is the number of rows that a
    person has at most; with `person`, an identifier of the schema, only this number of rows of each
    person is counted, without it the bound is the owner's word.

    Promises: ε-DP of the whole release. Proof: the cells are disjoint, so that one person changes
        the counts by at most Δ = contribution (add or remove) or 2·contribution (replace) in all;
        noise with P(z) ∝ exp(−|z|ε/Δ), independent by cell, changes the probability of any output
        by a factor of at most e^ε. The noise is integer and its sampler exact.
    Estimate: the sum of the noisy cells that satisfy the condition, times what each adds; unbiased.
        The error is a sum of known noises whatever the data are, and its law gives the interval.
    Reference: Dwork, McSherry, Nissim, Smith, TCC 2006; two-sided geometric noise: Ghosh,
        Roughgarden, Sundararajan, STOC 2009.
    Differs: integer noise in place of real Laplace noise, whose floating-point form leaks. Counts
        are neither cut off at zero nor made to add up: that would bias sums of many cells.
    """

    name = "histogram"
    for_ranges = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(DiscreteLaplace(Fraction(self.unit.sensitivity) / self.promise.epsilon))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cells = schema.size(self.names)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.names)} has {large(cells)} cells; Histogram "
                f"counts at most {large(MOST_CELLS)}. Choose fewer attributes, coarser bins, or "
                "the method sparse."
            )

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        law = DiscreteLaplace(Fraction(self.unit.sensitivity) / self.promise.epsilon)
        cells = schema.size(self.names)
        tenth = -(-cells // 10)
        sentence = f"To expect: the count of one cell will be within {of_cells(law, 1)} {OFTEN}"
        if tenth > 1:
            many = of_cells(law, tenth)
            sentence += f", the sum of a tenth of all {cells:,} cells within {many}"
        return (f"{sentence}.",)

    def expected_error(self, schema: Schema, rows: int) -> float:
        law = DiscreteLaplace(Fraction(self.unit.sensitivity) / self.promise.epsilon)
        return math.sqrt(-(-schema.size(self.names) // 10) * float(law.variance))

    def layout(self, schema: Schema) -> Layout:
        attributes = [schema[name] for name in self.names]
        return {"cells.parquet": (*attributes, free_name("count", self.names))}

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        counts, law = table.noisy_counts(self.names, self.unit, epsilon=self.promise.epsilon)
        count = free_name("count", self.names)
        write_cells(folder / "cells.parquet", table.schema, self.names, count, counts)
        return Measurements(
            "cells.parquet", self.names, Cells(count, law), table.public_rows(self.unit)
        )

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], **protection(neighbours)), 1)
        yield Claim(cls(["a", "b"], **protection(neighbours, contribution=3)), 1)


def write_cells(
    path: Path, schema: Schema, names: Sequence[str], count: str, counts: np.ndarray[Any, Any]
) -> None:
    """Write the counts of all cells of some attributes, in the order of their keys, as a Parquet
    table with a column for each attribute and one named `count`.
    """
    from scumble.private.tables.writer import decoded, table_writer

    attributes = [schema[name] for name in names]
    radix = schema.cell_keys(names)
    with table_writer(path, attributes, [(count, pa.int64())]) as writer:
        for begin in range(0, len(counts), _WRITE_CHUNK):
            part = counts[begin : begin + _WRITE_CHUNK]
            codes = radix.unpack(np.arange(begin, begin + len(part), dtype=np.uint64))
            writer.write_batch(decoded(attributes, codes, [(count, column(part))]))
