"""The count with which the paper on Aroma compares it to the adaptive mechanism (AM), from rows and
from cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import erf, exp, pi, sqrt

import numpy as np
import numpy.typing as npt

from research.aroma.adaptive import Adaptive
from research.aroma.aroma_views import Floats, View
from research.aroma.experiments import Laboratory
from research.people import Codes
from scumble.model.errors import ParameterError

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
class Grid:
    """Cells of a range of ages and a value, as AM needs them, and the count as a sum of cells: a
    range that is only partly over 30 is taken as evenly spread.
    """

    count: Count
    edges: Floats  # a range has the ages from one edge up to, and without, the next

    @classmethod
    def decades(cls, count: Count) -> Grid:
        """Ranges of ten years that end at 30, as all decades do."""
        first, last = int(count.years.min() - 1) // 10, int(count.years.max() - 1) // 10
        return cls(count, 10 * np.arange(first, last + 2, dtype=np.float64) + 1)

    @classmethod
    def even(cls, count: Count) -> Grid:
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
    """The mean of the absolute value of a normal number."""
    steps = mean / deviation
    return deviation * sqrt(2 / pi) * exp(-steps * steps / 2) + mean * erf(steps / sqrt(2))
