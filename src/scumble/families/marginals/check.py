"""What the audit knows of tables of which only residuals are published."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from scumble.audit.runs import Counts, ExactLoss
from scumble.families.marginals.publish import TableSummary
from scumble.model.designs.residuals import differences
from scumble.model.laws.distributions import DiscreteGaussian
from scumble.model.schema.schema import Schema
from scumble.private.tables.counter import TensorCounter

Floats = npt.NDArray[np.float64]


def _publishes_residuals(mechanism: TableSummary, schema: Schema) -> bool:
    """Return whether only residuals of the noisy counts are published, with Gaussian noise.

    Residuals with Laplace noise are charged as if all noisy counts were published, and are audited
    in the same way.
    """
    return any(
        table.form == "residual" and isinstance(table.law, DiscreteGaussian)
        for table in mechanism.tables(schema)
    )


def find_published(mechanism: TableSummary, schema: Schema) -> Floats | None:
    """Return the linear map from noisy counts to published residuals; None if all is published."""
    if not _publishes_residuals(mechanism, schema):
        return None
    blocks = []
    for table in mechanism.tables(schema):
        shape = [schema[mechanism.attributes[index]].size for index in table.places]
        cells = int(np.prod(shape)) if table.form != "contrast" else 1
        unit = np.eye(cells)
        if table.form == "residual":
            residuals = [
                differences(row.reshape(shape)).reshape(-1) for row in unit.astype(np.int64)
            ]
            blocks.append(np.array(residuals, np.float64).T)
        else:
            blocks.append(unit)
    return _join_blocks(blocks)


def _join_blocks(blocks: Sequence[Floats]) -> Floats:
    rows, columns = ([block.shape[axis] for block in blocks] for axis in (0, 1))
    whole = np.zeros((sum(rows), sum(columns)))
    ends = zip(accumulate(rows), accumulate(columns), strict=True)
    for block, (bottom, right) in zip(blocks, ends, strict=True):
        whole[bottom - block.shape[0] : bottom, right - block.shape[1] : right] = block
    return whole


def find_loss(mechanism: TableSummary, schema: Schema, change: Counts) -> ExactLoss | None:
    """Return ρ of tables of which only the differences along every axis are published; None if all
    noisy counts are.

    It is half of the squared length, in units of the noise, of the change of the counts less its
    means along each axis.
    """
    if not _publishes_residuals(mechanism, schema):
        return None
    counter = TensorCounter(schema, mechanism.attributes, change)
    total = 0.0
    for table in mechanism.tables(schema):
        if not isinstance(table.law, DiscreteGaussian):
            raise TypeError("residuals are published with Gaussian noise throughout")
        names = [mechanism.attributes[index] for index in table.places]
        shape = [schema[name].size for name in names]
        left = counter.counts([names], mechanism.unit)[0].reshape(shape).astype(np.float64)
        if table.form == "contrast":
            left = differences(left.astype(np.int64)).astype(np.float64)
        for axis in range(left.ndim if table.form == "residual" else 0):
            left = left - left.mean(axis=axis, keepdims=True)
        total += float((left**2).sum()) / (2 * float(table.law.parameter))
    return ExactLoss(Fraction(0), Fraction(total))
