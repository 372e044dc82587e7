"""Readings of several releases of one table, combined by least squares.

Releases of marginals are one design with more tables, which is fitted as a whole. Other designs
have a reading each, whose noise is independent of that of the others: with variances vᵢ, the shares
1/vᵢ, scaled to a sum of 1, give the unbiased combination of least variance. Variances follow from
the designs alone, so that the shares do not depend on the noise, and the law of the combination is
that of a weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from scumble.model.designs.residuals import MarginalTable, Residuals, ResidualSolver
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import quoted
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.readers import linear_reader
from scumble.public.estimation.measurements.readings import (
    LinearReading,
    Reader,
    Weights,
    WeightTensor,
)
from scumble.public.release_answers import ReleaseAnswers

_METHOD = "least squares over all releases that count these columns together"


@dataclass
class PartReader:
    """The reader of one of several releases, and the columns that it counts, in their order."""

    reader: Reader
    columns: tuple[str, ...]

    def read(self, weights: Weights) -> LinearReading:
        return self.reader.read(self._own(weights))

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        return self.reader.pair(self._own(first), self._own(second))

    def variance(self, weights: Weights, others: Iterable[Weights]) -> float | None:
        """Return the variance of a reading; None if the release does not determine it, or not those
        of `others`.
        """
        try:
            variance, *_ = [self.read(each).variance for each in (weights, *others)]
            return variance
        except QueryError:
            return None

    def _own(self, weights: Weights) -> Weights:
        """Return weights of the columns that are counted, in their order; QueryError if others
        matter.
        """
        parts = []
        for part in weights.parts:
            if {*part.names} <= {*self.columns}:
                names = tuple(name for name in self.columns if name in part.names)
                turned = part.values.transpose([part.names.index(name) for name in names])
                parts.append(WeightTensor(names, turned))
            elif (constant := Weights((part,)).constant) is not None:
                parts.append(WeightTensor((), np.array(constant)))
            else:
                raise QueryError(f"This release does not count {', '.join(part.names)}.")
        return Weights(tuple(parts))


@dataclass
class FixedShares:
    """A reader that adds up the readings of some releases with fixed shares."""

    parts: Sequence[PartReader]
    shares: Sequence[float]
    method: str = _METHOD

    def read(self, weights: Weights) -> LinearReading:
        return self._added([each.read(weights) for each in self.parts])

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        found = [each.pair(first, second) for each in self.parts]
        ones, others, covariances = zip(*found, strict=True)
        pairs = zip(self.shares, covariances, strict=True)
        return self._added(ones), self._added(others), sum(s**2 * each for s, each in pairs)

    def _added(self, readings: Sequence[LinearReading]) -> LinearReading:
        pairs = list(zip(self.shares, readings, strict=True))
        return LinearReading(
            sum(share * each.value for share, each in pairs),
            sum(share**2 * each.variance for share, each in pairs),
            sum(share**4 * each.fourth for share, each in pairs),
            max(share * each.largest for share, each in pairs),
        )


@dataclass
class CombinedReader:
    """A reader of several releases, with the shares that are best for what is read."""

    parts: Sequence[PartReader]
    method: str = _METHOD

    def read(self, weights: Weights) -> LinearReading:
        return self.fixed(weights).read(weights)

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        return self.fixed(first, second).pair(first, second)

    def fixed(self, weights: Weights, *others: Weights) -> Reader:
        """Return a reader with the shares that are best for these weights, of the releases that
        determine `others` too.
        """
        found = [(part, part.variance(weights, others)) for part in self.parts]
        able = [(part, variance) for part, variance in found if variance is not None]
        if not able:
            names = dict.fromkeys(name for each in (weights, *others) for name in each.names)
            raise QueryError(
                f"None of these releases determines counts by {' and '.join(names)} together. Ask "
                "about columns that one of them counts together."
            )
        if exact := [part for part, variance in able if not variance]:
            return FixedShares(exact[:1], [1.0])
        precisions = np.array([1 / variance for _, variance in able])
        return FixedShares([part for part, _ in able], (precisions / precisions.sum()).tolist())


def combined_reader(releases: Sequence[ReleaseAnswers]) -> Reader:
    """Return the reader of several releases: marginals as one design, each other by itself."""
    parts, marginals = [], []
    for each in releases:
        evidence = cast(Measurements, each.evidence)
        if isinstance(evidence.design, Residuals):
            marginals.append(each)
        else:
            reader = linear_reader(evidence, each.schema, each.sandbox)
            parts.append(PartReader(reader, each.schema.names))
    if marginals:
        joint = join_marginals(marginals)
        parts.append(PartReader(joint, joint.solver.design.attributes))
    return CombinedReader(parts)


def join_marginals(releases: Sequence[ReleaseAnswers]) -> ResidualReader:
    """Return the reader of the tables of several releases of marginals, as of one release."""
    designs = [cast(Residuals, cast(Measurements, each.evidence).design) for each in releases]
    sizes = {
        name: size
        for each in designs
        for name, size in zip(each.attributes, each.sizes, strict=True)
    }
    names = list(sizes)
    tables, numbers = [], []
    for each, design in zip(releases, designs, strict=True):
        found = each.sandbox.rows(f"SELECT {quoted(design.count)} FROM view").column(0).to_numpy()
        for table, own in zip(design.tables, design.slices(), strict=True):
            places = [names.index(design.attributes[place]) for place in table.places]
            turned = found[own].reshape(table.shape(design.sizes)).transpose(np.argsort(places))
            tables.append(MarginalTable(tuple(sorted(places)), table.form, table.law))
            numbers.append(turned.reshape(-1))
    joint = Residuals(tuple(names), tuple(sizes.values()), tuple(tables))
    rows = releases[0].evidence.rows
    return ResidualReader.of_solver(ResidualSolver(joint, np.concatenate(numbers), rows))
