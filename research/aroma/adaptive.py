"""The adaptive mechanism (AM) that the paper on Aroma compares with: the eigen-design of a batch of
counts with Gaussian noise (Li and Miklau, VLDB 2012), and what it exposes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import erf, exp, log, pi, sqrt
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from research.aroma.views import (
    SECRET,
    Laboratory,
    View,
    uniform_pool,
)
from research.study import Codes, Floats, Row
from scumble.families.aroma.design import pool_exposure, profile
from scumble.families.workload.publish.strategies import eigen_design
from scumble.model.designs.matrix import Strategy
from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.private.sampling.noise import discrete_gaussian
from scumble.private.sampling.source import Keystream
from scumble.public.estimate import Estimate

DELTA = 1e-4
_DRAWS = 10_000
_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Adaptive:
    """Noisy sums of cells, from which all counts of a batch are estimated by least squares."""

    strategy: Strategy

    @classmethod
    def of(cls, batch: Floats) -> Adaptive:
        """Return the mechanism for a batch of counts: rows with a whole number for each cell."""
        return cls(eigen_design(batch.T @ batch))

    @property
    def length(self) -> float:
        """The largest L2 norm of a column: the L2 sensitivity of the sums."""
        return sqrt(self.strategy.norms()[0][1])

    def deviation(self, epsilon: float, delta: float = DELTA) -> float:
        """Return the standard deviation of the noise of each sum for (ε, δ)-DP under adding or
        removing a row.
        """
        return self.length * sqrt(2 * log(2 / delta)) / epsilon

    def cells(self, counts: npt.NDArray[np.int64], deviation: float, seed: int) -> Floats:
        """The estimated counts of all cells."""
        [sums] = self.strategy.apply(counts)
        noise = discrete_gaussian(Keystream(seed), Fraction(deviation) ** 2, len(sums))
        return self.strategy.estimate(sums + noise)

    def error(self, question: Floats, deviation: float) -> float:
        """The standard error of one count."""
        return deviation * sqrt(float(question @ self.strategy.solve(question)))

    def products(self, cells: npt.NDArray[np.int64]) -> Floats:
        """The inner products of the columns of some cells."""
        found: Floats = self.strategy.gram[np.ix_(cells, cells)]
        return found


def success(products: Floats, deviation: float, seed: int = 1) -> float:
    """Return the probability that the likeliest of some equally probable means of normal noise is
    the true one, from the inner products of the means. It is simulated, with the same draws for all
    means.
    """
    values, vectors = np.linalg.eigh(products)
    root = vectors * np.sqrt(values.clip(0))
    draws = np.random.default_rng(seed).standard_normal((_DRAWS, len(products))) @ root.T
    scores = deviation * draws - np.diag(products) / 2
    hits = [
        float(((scores + mean).argmax(axis=1) == place).mean())
        for place, mean in enumerate(products)
    ]
    return float(np.mean(hits))


def deviation_for(products: Floats, wanted: float) -> float:
    """Return the noise with which the best guess has the success `wanted`, by bisection."""
    length = sqrt(float(np.diag(products).max()))
    low, high = 0.01 * length, 1000 * length
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if success(products, middle) > wanted else (low, middle)
    return high


# Aroma against the adaptive mechanism (AM) on one count of Adult, as in the last experiment of
# its paper; and both at the same exposure.
#
# The paper does not say which batch of counts AM got. Three readings are tried, all over cells of
# a range of ages and a value: the count itself alone; every range of ages with every value; and
# that with ranges whose ends are not where the count has its own.

AGES = "ages"


def one_count(laboratory: Laboratory) -> Iterator[Row]:
    """Relative errors against ε as the paper reads it: Aroma with its k for that ε, AM with
    (ε, δ)-DP, and what really has ε-LDP.
    """
    count = Count.of(laboratory)
    grids = {"AM": CountGrid.decades(count), "AM, batch": CountGrid.decades(count)}
    grids["AM, other ends"] = CountGrid.even(count)
    mechanisms = {
        name: Adaptive.of(grid.question[None, :] if name == "AM" else grid.batch)
        for name, grid in grids.items()
    }
    for epsilon in laboratory.scale.epsilons:
        k = sc.Aroma.k_for(epsilon, 1 / laboratory.values)
        views: dict[str, tuple[Mechanism, float]] = {
            "Aroma": (sc.Aroma(k=k), profile(uniform_pool(k, laboratory.values), (epsilon,))[0]),
            "subset": (sc.Subset(epsilon=epsilon), 0.0),
            "uniform": (sc.Uniform(epsilon=epsilon), 0.0),
        }
        for name, (mechanism, delta) in views.items():
            found = laboratory.views(mechanism)
            row = _row(name, count.errors(found), count.expected(found[0]), found[0].exposure)
            yield {"ε": epsilon, "k": k} | row | {"δ": delta}
        for name, adaptive in mechanisms.items():
            laboratory.step(f"{name}, ε = {epsilon}")
            grid, deviation = grids[name], adaptive.deviation(epsilon)
            errors = grid.errors(adaptive, deviation, _seeds(laboratory))
            seen = success(grid.products(adaptive), deviation)
            row = _row(name, errors, grid.expected(adaptive, deviation), seen)
            yield {"ε": epsilon, "k": k} | row | {"δ": DELTA}
        laboratory.step(f"workload, ε = {epsilon}")
        yield {"ε": epsilon, "k": k} | released(laboratory, count, epsilon) | {"δ": DELTA}


def same_exposure(laboratory: Laboratory) -> Iterator[Row]:
    """The count by Aroma, and by AM with the noise that gives it the same exposure."""
    count = Count.of(laboratory)
    grid = CountGrid.decades(count)
    adaptive = Adaptive.of(grid.batch)
    products = grid.products(adaptive)
    for k in laboratory.scale.levels:
        laboratory.step(f"AM exposed as Aroma with k = {k}")
        views = laboratory.views(sc.Aroma(k=k))
        wanted = pool_exposure(uniform_pool(k, laboratory.values))
        deviation = deviation_for(products, wanted)
        errors = grid.errors(adaptive, deviation, _seeds(laboratory))
        seen = success(products, deviation)
        yield {"k": k} | _row("Aroma", count.errors(views), count.expected(views[0]), wanted)
        yield {"k": k} | _row("AM, batch", errors, grid.expected(adaptive, deviation), seen)


def released(laboratory: Laboratory, count: Count, epsilon: float) -> Row:
    """Return the error of the summary `workload` for the same batch, with the same ε and δ."""
    grid = CountGrid.decades(count)
    schema = Schema(
        (
            Attribute(AGES, "quasi", IntegerRange(0, grid.ranges - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, count.values - 1)),
        )
    )
    table = pa.table({AGES: grid.places, SECRET: count.secrets})
    batch = [
        f"SELECT COUNT(*) FROM t WHERE {AGES} BETWEEN {low} AND {high} GROUP BY {SECRET}"
        for low in range(grid.ranges)
        for high in range(low, grid.ranges)
    ]
    mechanism = sc.Workload(
        [AGES, SECRET], queries=batch, epsilon=epsilon, delta=DELTA, neighbours="add_remove"
    )
    first = int(np.searchsorted(grid.edges, OVER + 1))
    asked = f"SELECT COUNT(*) FROM t WHERE {AGES} >= {first} AND {SECRET} = {count.value}"
    answers = [
        cast(
            Estimate,
            sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed)).answer(
                asked
            ),
        )
        for seed in _seeds(laboratory)
    ]
    errors = [abs(each.value - count.truth) / count.truth for each in answers]
    return _row("workload", errors, sqrt(2 / pi) * answers[0].stderr / count.truth, None)


def _seeds(laboratory: Laboratory) -> range:
    return range(laboratory.seed, laboratory.seed + laboratory.scale.runs)


def _row(name: str, errors: Sequence[float], theory: float, seen: float | None) -> Row:
    return {
        "method": name,
        "error": float(np.mean(errors)),
        "deviation": float(np.std(errors)),
        "theory": theory,
        "exposure": seen,
    }


# The count of that comparison, from rows and from cells.

OVER = 30  # years
RANGES = 8  # of ages, where they are equally wide


@dataclass(frozen=True)
class Count:
    """How many people are over 30 and have the second most frequent value, which in Adult is
    craft-repair.
    """

    years: Floats
    secrets: Codes
    values: int

    @classmethod
    def of(cls, laboratory: Laboratory) -> Count:
        count = cls(laboratory.years, laboratory.secrets, laboratory.values)
        if not count.truth:
            raise ParameterError(
                f"Nobody over {OVER} has the second most frequent value of the second column, so "
                "that its count has no relative error. Choose other columns."
            )
        return count

    @cached_property
    def value(self) -> int:
        return int(np.argsort(-np.bincount(self.secrets, minlength=self.values))[1])

    @cached_property
    def over(self) -> npt.NDArray[np.bool_]:
        return self.years > OVER

    @cached_property
    def truth(self) -> int:
        return int((self.secrets[self.over] == self.value).sum())

    def errors(self, views: Sequence[View]) -> list[float]:
        """Relative, one for each view."""
        found = [view.weights[self.over, self.value].sum() for view in views]
        return [abs(float(each) - self.truth) / self.truth for each in found]

    def expected(self, view: View) -> float:
        """The mean relative error by theory."""
        home, away = (noise[self.value] for noise in view.noise)
        variance = self.truth * home + (int(self.over.sum()) - self.truth) * away
        return sqrt(2 / pi * float(variance)) / self.truth


@dataclass(frozen=True, eq=False)
class CountGrid:
    """Cells of a range of ages and a value, as AM needs them, and the count as a sum of cells: a
    range that is only partly over 30 is taken as evenly spread.
    """

    count: Count
    edges: Floats  # a range has the ages from one edge up to, and without, the next

    @classmethod
    def decades(cls, count: Count) -> CountGrid:
        """Ranges of ten years that end at 30, as all decades do."""
        first, last = int(count.years.min() - 1) // 10, int(count.years.max() - 1) // 10
        return cls(count, 10 * np.arange(first, last + 2, dtype=np.float64) + 1)

    @classmethod
    def even(cls, count: Count) -> CountGrid:
        """Eight ranges of the same width."""
        ends = float(count.years.min()), float(count.years.max() + 1)
        return cls(count, np.linspace(*ends, RANGES + 1, dtype=np.float64))

    @property
    def ranges(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def places(self) -> Codes:
        """The range that each person's age is in."""
        found: Codes = np.searchsorted(self.edges, self.count.years, side="right") - 1
        return found

    @cached_property
    def counts(self) -> Codes:
        cells = self.places * self.count.values + self.count.secrets
        return np.bincount(cells, minlength=self.ranges * self.count.values)

    @cached_property
    def question(self) -> Floats:
        widths = np.diff(self.edges)
        over = ((self.edges[1:] - (OVER + 1)) / widths).clip(0, 1)
        found = np.zeros((self.ranges, self.count.values))
        found[:, self.count.value] = over
        return found.ravel()

    @property
    def batch(self) -> Floats:
        """Every range of neighbouring ranges with every value."""
        places = np.arange(self.ranges)
        rows = [
            (places >= low) & (places <= high)
            for low in range(self.ranges)
            for high in range(low, self.ranges)
        ]
        found: Floats = np.kron(np.array(rows, float), np.eye(self.count.values))
        return found

    def products(self, adaptive: Adaptive) -> Floats:
        """Of the columns of all values in the middle range: what an adversary tells apart."""
        start = self.ranges // 2 * self.count.values
        return adaptive.products(np.arange(start, start + self.count.values))

    def errors(self, adaptive: Adaptive, deviation: float, seeds: Sequence[int]) -> list[float]:
        """Relative, one for each seed."""
        truth = self.count.truth
        found = [self.question @ adaptive.cells(self.counts, deviation, seed) for seed in seeds]
        return [abs(float(each) - truth) / truth for each in found]

    def expected(self, adaptive: Adaptive, deviation: float) -> float:
        """The mean relative error by theory, its systematic part included."""
        truth = self.count.truth
        bias = abs(float(self.question @ self.counts) - truth)
        noise = adaptive.error(self.question, deviation)
        return folded(bias, noise) / truth


def folded(mean: float, deviation: float) -> float:
    """Return the mean of the absolute value of a normal variable."""
    steps = mean / deviation
    return deviation * sqrt(2 / pi) * exp(-steps * steps / 2) + mean * erf(steps / sqrt(2))
