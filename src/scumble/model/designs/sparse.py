"""Sparse: noisy counts of those cells of a large domain that a rule published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace

Rule = Literal["filter", "threshold", "priority", "filter priority"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True)
class Sparse:
    """One row a published cell: the values of its attributes, its noisy count in the column
    `count`, and in `weight` the number that stands for it in sums.

    All cells of the domain got the same noise, those without rows too. A filter published the cells
    whose noisy count is `theta` at least. Sampling published a cell of noisy count v with
    probability min(|v|/tau, 1), and its weight is v, but tau with the sign of v where |v| is less;
    a `tau` of 0 means that there were no more cells to publish. `total` is the number of rows with
    a noise of its own.
    """

    kind: ClassVar[str] = "sparse"

    rule: Rule
    noise: DiscreteLaplace
    count: str
    weight: str
    theta: int
    tau: Fraction
    total: int
    total_noise: DiscreteLaplace

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
            "total noise": self.total_noise.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sparse:
        if data["rule"] not in RULES:
            raise ValueError(f"no rule for sparse cells: {data['rule']}")
        return cls(
            data["rule"],
            _laplace(data["noise"]),
            data["count"],
            data["weight"],
            int(data["theta"]),
            Fraction(data["tau"]),
            int(data["total"]),
            _laplace(data["total noise"]),
        )


def _laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    noise = from_dict(data)
    if not isinstance(noise, DiscreteLaplace):
        raise ValueError("sparse cells have discrete Laplace noise")
    return noise
