"""The design of sparse releases: noisy counts of the cells of a large domain that a rule publishes,
and the moments of the noise that the rule lets pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from scumble.model import stored
from scumble.model.designs.design import Design
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, counts_loss, number_loss

Rule = Literal["filter", "threshold", "priority", "filter priority"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True)
class Sparse(Design):
    """The file has one row for each published cell: the values of its attributes, its noisy count
    in the column `count`, and in the column `weight` the number that represents it in sums.

    All cells of the domain got the same noise, including those without rows. A filter publishes the
    cells whose noisy count is at least `theta`. Sampling publishes a cell of noisy count v with
    probability min(|v|/tau, 1); its weight is v, or tau with the sign of v if |v| is less than tau.
    A cell that no row can be in, by the schema, is not in the file. A `tau` of 0 means that all
    others were published. `total` is the number of rows plus noise of
    its own, or the exact number if `total_noise` is None.
    """

    kind: ClassVar[str] = "sparse"

    @property
    def exact_zeros(self) -> bool:
        return True

    rule: Rule
    noise: DiscreteLaplace
    count: str
    weight: str
    theta: int
    tau: Fraction
    total: int
    total_noise: DiscreteLaplace | None

    def total_reach(self, level: float) -> float:
        """Return how far `total` is from the number of rows with probability `level`, at most."""
        return 0.0 if self.total_noise is None else self.total_noise.half_width(level)

    @property
    def known_rows(self) -> int | None:
        """The number of rows, if `total` has no noise."""
        return self.total if self.total_noise is None else None

    def check_rows(self, rows: int | None) -> None:
        if rows not in (None, self.known_rows):
            raise ValueError("the number of rows is not the total of the sparse cells")

    @property
    def filtered(self) -> bool:
        """Whether small counts were left out."""
        return self.theta > 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "rule": self.rule,
            "noise": self.noise.to_dict(),
            "count": self.count,
            "weight": self.weight,
            "theta": self.theta,
            "tau": str(self.tau),
            "total": self.total,
            "total noise": None if self.total_noise is None else self.total_noise.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sparse:
        if data["rule"] not in RULES:
            raise ValueError(f"no rule for sparse cells: {data['rule']}")
        return cls(
            data["rule"],
            _read_laplace(data["noise"]),
            stored.text(data["count"]),
            stored.text(data["weight"]),
            int(data["theta"]),
            stored.fraction(data["tau"]),
            int(data["total"]),
            None if data["total noise"] is None else _read_laplace(data["total noise"]),
        )

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return counts_loss(self.noise, unit) + number_loss(self.total_noise, unit)


def _read_laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    noise = law_from_dict(data)
    if not isinstance(noise, DiscreteLaplace):
        raise ValueError("sparse cells have discrete Laplace noise")
    return noise


# --- moments of published noise, in closed form --------------------------------------------------
#
# With a = e^(-1/scale), the noise z is k with probability (1 - a)/(1 + a) · a^|k|. All sums are
# geometric series; `mean` below is a/(1 - a), the mean of a geometric variable.


@dataclass(frozen=True)
class NoiseTails:
    """Moments of discrete Laplace noise z above an integer `start` >= 1."""

    noise: DiscreteLaplace

    @cached_property
    def _rate(self) -> float:
        return float(1 / self.noise.scale)

    @cached_property
    def mean(self) -> float:
        """a/(1 - a): the mean excess over t of a noise that is at least t."""
        return 1 / math.expm1(self._rate) if self._rate < 700 else 0.0

    def chance(self, start: float) -> float:
        """P(z ≥ start)."""
        return math.exp(-start * self._rate) / (1 + math.exp(-self._rate))

    def first(self, start: float) -> float:
        """E[z; z ≥ start]."""
        return self.chance(start) * (start + self.mean)

    def second(self, start: float) -> float:
        """E[z²; z ≥ start]."""
        rest = self.mean * (1 + 2 * self.mean)  # the second moment of a geometric variable
        return self.chance(start) * (start * start + 2 * start * self.mean + rest)

    def sampling_variance(self, tau: float, start: float = 1.0) -> float:
        """E[z(tau - z); start ≤ z ≤ tau]: the variance that sampling adds to a positive noise."""
        end = math.floor(tau) + 1.0
        if end <= start:
            return 0.0
        first = self.first(start) - self.first(end)
        second = self.second(start) - self.second(end)
        return max(tau * first - second, 0.0)

    def keep_chance(self, tau: float) -> float:
        """Return the probability that threshold sampling with an integer tau keeps an empty
        cell.
        """
        fallen = -math.expm1(-tau * self._rate)
        return 2 * self.chance(1) * fallen / (tau * -math.expm1(-self._rate))

    @property
    def least_theta(self) -> int:
        """The smallest theta for which no count is overestimated in the mean.

        Let a published cell be represented by its noisy count and any other by -f/(1 - p), where f
        and p are E[z; z ≥ theta] and P(z ≥ theta), so that an empty cell is represented by 0 in the
        mean. A count c ≥ theta is represented by at most c - P(z > c - theta) (theta - 1 - mean) in
        the mean. A count c < theta is represented by
        P(z ≥ theta - c) (theta + mean + f/(1 - p)) - f/(1 - p), which is convex in c, 0 at c = 0,
        and at c = theta - 1 at most c if theta ≥ 1 + mean. So from theta = 1 + mean on no count is
        overestimated in the mean.
        """
        return 1 + math.ceil(self.mean)

    def excess(self, theta: float) -> float:
        """Return a bound, per row, on the variance that the noise of a cell of c < theta rows adds
        beyond σ² · P(published): the largest P(z ≥ t) (t² + 2t·mean) / (theta - t), t = theta - c.
        """
        most = min(theta - 1, 12 * (1 + self.mean))
        if most < 1:
            return 0.0
        steps = np.unique(np.round(np.linspace(1, most, 512)))
        chances = np.exp(-steps * self._rate) / (1 + math.exp(-self._rate))
        bounds = chances * (steps**2 + 2 * steps * self.mean) / (theta - steps)
        return 1.05 * float(bounds.max())


@dataclass(frozen=True)
class EmptyCell:
    """Moments of the contribution of a cell without rows to a sum, in which an unpublished cell is
    represented by -shift. Its mean is 0; `sampling` is the part of `variance` due to sampling.
    """

    chance: float  # the probability that the cell is published
    shift: float
    variance: float
    sampling: float


def filtered_empty_cell(tails: NoiseTails, theta: int, tau: float = 0.0) -> EmptyCell:
    """Return the moments of an empty cell if noise of at least `theta` is published, and, with
    `tau`, only a sample of it.
    """
    chance, first = tails.chance(theta), tails.first(theta)
    shift = first / (1 - chance)
    second = tails.second(theta) + 2 * shift * first + shift * shift * chance
    sampling = tails.sampling_variance(tau, theta) * (1 + shift / theta) ** 2
    return EmptyCell(chance, shift, second - shift * shift + sampling, sampling)


def sampled_empty_cell(tails: NoiseTails, tau: float) -> EmptyCell:
    """Return the moments of an empty cell under threshold sampling with `tau`; with a `tau` of 0
    all nonzero noise is published.
    """
    sampling = 2 * tails.sampling_variance(tau)
    chance = tails.keep_chance(tau) if tau >= 1 else 2 * tails.chance(1)
    return EmptyCell(chance, 0.0, tails.noise.variance + sampling, sampling)


@dataclass(frozen=True)
class Cells(Design):
    """A noisy count for every cell of the product of some attributes: one row for each cell, with
    its noisy count in the column `count`. The noise of the cells is independent.

    A cell that no row can be in, by the schema, has the number 0 and no noise.
    """

    kind: ClassVar[str] = "cells"

    count: str
    noise: DiscreteLaplace

    @property
    def exact_zeros(self) -> bool:
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cells:
        noise = law_from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace):
            raise ValueError("cells have discrete Laplace noise")
        return cls(stored.text(data["count"]), noise)

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return counts_loss(self.noise, unit)
