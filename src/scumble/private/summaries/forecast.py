"""Forecast: how wrong the answers to a workload will be, known before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_LISTED = 8


@dataclass(frozen=True, eq=False)
class Forecast:
    """The standard error of every count of a workload. It depends on no data."""

    strategy: str
    sums: int  # that are measured
    cells: int  # that the questions tell apart
    questions: tuple[str, ...]  # with their groups
    stderrs: npt.NDArray[np.float64]
    tried: Mapping[str, float]  # root mean squared errors
    bound: float  # no strategy of this kind of noise goes below

    @property
    def rmse(self) -> float:
        """The root of the mean squared error of all counts."""
        return math.sqrt(float(np.mean(self.stderrs**2)))

    @property
    def total(self) -> float:
        """The sum of the squared errors that are expected."""
        return float(np.sum(self.stderrs**2))

    def sentences(self) -> list[str]:
        """What an owner wants to know before publishing."""
        plan = (
            f"The {len(self.questions)} counts tell {self.cells} kinds of rows apart; "
            f"{self.sums} sums of them will be measured ({self.strategy})."
        )
        errors = (
            f"Standard error of a count: {_short(self.rmse)} (root mean square), at most "
            f"{_short(float(self.stderrs.max()))}; no choice of sums can have a root mean square "
            f"below {_short(self.bound)}."
        )
        others = [f"{_short(v)} by {n}" for n, v in self.tried.items() if n != self.strategy]
        return [plan, errors, *([f"It would be {', '.join(others)}."] if others else [])]

    def to_dict(self) -> dict[str, Any]:
        """For a manifest or a program."""
        return {
            "strategy": self.strategy,
            "sums": self.sums,
            "kinds of rows": self.cells,
            "counts": len(self.questions),
            "expected error": self.rmse,
            "largest expected error": float(self.stderrs.max()),
            "lower bound": self.bound,
        }

    def __repr__(self) -> str:
        shown = [
            f"  ± {_short(stderr)}  {question}"
            for question, stderr in zip(self.questions, self.stderrs.tolist(), strict=True)
        ]
        more = [f"  ... and {len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
        return "\n".join([*self.sentences(), *shown[:_LISTED], *more])


def _short(number: float) -> str:
    return f"{number:,.4g}"
