"""Summaries whose plan does not depend on the data: what they lose at worst, exactly, and a million
runs of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from scumble.audit.neighbours import Pair, backgrounds, changes
from scumble.audit.recorder import Measured, Spent, measured, outputs, spent
from scumble.designs.residual_axis import differences
from scumble.mechanism import Summary
from scumble.noise.laws import DiscreteGaussian
from scumble.noise.source import Source
from scumble.releases.tables import TableSummary
from scumble.schema import Schema

Floats = npt.NDArray[np.float64]
Record = list[Measured]


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
            loss = spent(*pair) if pair[0] else None
            if loss is None:
                return None
            if published is not None:
                loss = Spent(Fraction(0), _projected(pair, published))
            if found is None or _size(loss) > _size(found.loss):
                found = Worst(Pair(words, one, other), loss, pair, published)
    return found


def _size(loss: Spent) -> Fraction:
    return loss.epsilon + loss.rho


def _published(mechanism: Summary, schema: Schema) -> Floats | None:
    """What tables of residuals keep of the noisy counts they are made of. With Laplace noise they
    are paid for as if all was published, and are looked at so.
    """
    if not isinstance(mechanism, TableSummary):
        return None
    tables = list(mechanism.tables(schema))
    if not any(t.form == "residual" and isinstance(t.law, DiscreteGaussian) for t in tables):
        return None
    blocks = []
    for table in tables:
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


def _projected(pair: tuple[Record, Record], published: Floats) -> Fraction:
    """ρ of published numbers y = Lx with Gaussian noise in x: half the squared length of what is
    left of the change of x, in units of the noise, beyond all that L turns into nothing.
    """
    gaps, spreads = [], []
    for one, other in zip(*pair, strict=True):
        law = one.law
        if not isinstance(law, DiscreteGaussian):
            raise TypeError("residuals are published with Gaussian noise throughout")
        gap = (one.numbers - other.numbers).ravel().astype(np.float64)
        gaps.append(gap)
        spreads.append(np.full(len(gap), float(law.parameter)))
    change, variance = published @ np.concatenate(gaps), np.concatenate(spreads)
    covariance = (published * variance) @ published.T
    return Fraction(float(change @ np.linalg.solve(covariance, change)) / 2)
