"""Summaries whose plan does not depend on the data: what they lose at worst, exactly, and a million
runs of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import cast

import numpy as np
import numpy.typing as npt

from scumble.audit.neighbours import Counts, Pair, backgrounds, changes
from scumble.audit.recorder import Spent, measured, outputs, spent
from scumble.model.designs.residual_axis import differences
from scumble.model.laws.law_gaussian import DiscreteGaussian
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.sampling.hidden import Hidden
from scumble.private.sampling.source import Source
from scumble.private.summaries.marginals import TableSummary
from scumble.private.tables.counter import TensorCounter

Floats = npt.NDArray[np.float64]
Record = list[Hidden]


@dataclass(frozen=True, eq=False)
class Worst:
    """The neighbours between which a summary loses most, what it measures of both, and what it
    publishes of that: a linear map, where it is not all of it.
    """

    pair: Pair
    loss: Spent
    records: tuple[Record, Record]
    published: Floats | None

    @property
    def independent(self) -> bool:
        """Whether each published number has noise of its own."""
        return self.published is None

    def runs(self, number: int, noise: Source) -> tuple[Floats, Floats]:
        """So many outputs for each of both tables."""
        one, other = (outputs(record, number, noise) for record in self.records)
        if self.published is None:
            return one, other
        return one @ self.published.T, other @ self.published.T


def worst(mechanism: Summary, schema: Schema, relation: str, rows: int) -> Worst | None:
    """The worst of all neighbours of several tables; None if the plan depends on the data, or if
    nothing is measured in the way that can be recorded.
    """
    names = mechanism.parameters["attributes"]
    cells = schema.size(names)
    published = _published(mechanism, schema)
    found: Worst | None = None
    for words, counts in backgrounds(cells).items():
        records: dict[bytes, Record] = {}
        for one, other in changes(counts, range(cells), relation, rows):
            for table in (one, other):
                if table.tobytes() not in records:
                    records[table.tobytes()] = measured(mechanism, schema, names, table)
            pair = records[one.tobytes()], records[other.tobytes()]
            loss = lost(mechanism, schema, one - other, pair)
            if loss is None:
                return None
            if found is None or _size(loss) > _size(found.loss):
                found = Worst(Pair(words, one, other), loss, pair, published)
    return found


def lost(
    mechanism: Summary, schema: Schema, change: Counts, records: tuple[Record, Record]
) -> Spent | None:
    """What is lost between two tables that differ by `change`, of which these records were made;
    None as for `worst`.
    """
    loss = spent(*records) if records[0] else None
    if loss is None or not _residual(mechanism, schema):
        return loss
    return Spent(Fraction(0), Fraction(_projected(cast(TableSummary, mechanism), schema, change)))


def _size(loss: Spent) -> Fraction:
    return loss.epsilon + loss.rho


def _residual(mechanism: Summary, schema: Schema) -> bool:
    """Whether less is published than is blurred: residuals with Gaussian noise. With Laplace noise
    they are paid for as if all was published, and are looked at so.
    """
    return isinstance(mechanism, TableSummary) and any(
        table.form == "residual" and isinstance(table.law, DiscreteGaussian)
        for table in mechanism.tables(schema)
    )


def _published(mechanism: Summary, schema: Schema) -> Floats | None:
    """What tables of residuals keep of the noisy counts they are made of."""
    if not isinstance(mechanism, TableSummary) or not _residual(mechanism, schema):
        return None
    blocks = []
    for table in mechanism.tables(schema):
        shape = [schema[mechanism.attributes[place]].size for place in table.places]
        cells = int(np.prod(shape)) if table.form != "contrast" else 1
        unit = np.eye(cells)
        if table.form == "residual":
            kept = [differences(row.reshape(shape)).reshape(-1) for row in unit.astype(np.int64)]
            blocks.append(np.array(kept, np.float64).T)
        else:
            blocks.append(unit)
    return _diagonal(blocks)


def _diagonal(blocks: Sequence[Floats]) -> Floats:
    rows, columns = ([block.shape[axis] for block in blocks] for axis in (0, 1))
    whole = np.zeros((sum(rows), sum(columns)))
    ends = zip(accumulate(rows), accumulate(columns), strict=True)
    for block, (bottom, right) in zip(blocks, ends, strict=True):
        whole[bottom - block.shape[0] : bottom, right - block.shape[1] : right] = block
    return whole


def _projected(mechanism: TableSummary, schema: Schema, change: Counts) -> float:
    """ρ of tables of which only the differences along every axis are published: what the change
    of the counts has beyond its means along each axis, in units of the noise.
    """
    counter = TensorCounter(schema, mechanism.attributes, change)
    total = 0.0
    for table in mechanism.tables(schema):
        if not isinstance(table.law, DiscreteGaussian):
            raise TypeError("residuals are published with Gaussian noise throughout")
        names = [mechanism.attributes[place] for place in table.places]
        shape = [schema[name].size for name in names]
        left = counter.counts([names], mechanism.person)[0].reshape(shape).astype(np.float64)
        if table.form == "contrast":
            left = differences(left.astype(np.int64)).astype(np.float64)
        for axis in range(left.ndim if table.form == "residual" else 0):
            left = left - left.mean(axis=axis, keepdims=True)
        total += float((left**2).sum()) / (2 * float(table.law.parameter))
    return total
