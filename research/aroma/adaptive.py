"""The adaptive mechanism (AM) that the paper on Aroma compares with: the eigen-design of a batch of
counts with Gaussian noise (Li and Miklau, VLDB 2012), and what it exposes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from research.aroma.aroma_views import Floats
from scumble.model.designs.strategy import Strategy
from scumble.model.designs.strategy_eigen import eigen_design
from scumble.private.sampling.gaussian import discrete_gaussian
from scumble.private.sampling.source import Source

DELTA = 1e-4
_DRAWS = 10_000
_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Adaptive:
    """Noisy sums of cells, from which all counts of a batch are estimated by least squares."""

    strategy: Strategy

    @classmethod
    def of(cls, batch: Floats) -> Adaptive:
        """For counts that are rows of whole numbers, one for each cell."""
        return cls(eigen_design(batch.T @ batch))

    @property
    def length(self) -> float:
        """The largest length of a column: how far one row moves all sums together."""
        return sqrt(self.strategy.norms()[0][1])

    def deviation(self, epsilon: float, delta: float = DELTA) -> float:
        """Of the noise of each sum, for (ε, δ)-DP where a row is added or removed."""
        return self.length * sqrt(2 * log(2 / delta)) / epsilon

    def cells(self, counts: npt.NDArray[np.int64], deviation: float, seed: int) -> Floats:
        """The estimated counts of all cells."""
        [sums] = self.strategy.apply(counts)
        noise = discrete_gaussian(Source(seed), Fraction(deviation) ** 2, len(sums))
        return self.strategy.estimate(sums + noise)

    def error(self, question: Floats, deviation: float) -> float:
        """The standard error of one count."""
        return deviation * sqrt(float(question @ self.strategy.solve(question)))

    def products(self, cells: npt.NDArray[np.int64]) -> Floats:
        """The inner products of the columns of some cells."""
        found: Floats = self.strategy.gram[np.ix_(cells, cells)]
        return found


def success(products: Floats, deviation: float, seed: int = 1) -> float:
    """How often the best guess is right which of some equally likely means has got normal noise,
    from the inner products of the means; by simulation, all means with the same draws.
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
    """The noise with which the best guess is right that often, by bisection: it falls with it."""
    length = sqrt(float(np.diag(products).max()))
    low, high = 0.01 * length, 1000 * length
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if success(products, middle) > wanted else (low, middle)
    return high
