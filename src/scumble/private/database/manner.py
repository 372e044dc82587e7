"""The manner in which an analyst wants to be answered when the promise is used up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scumble.model.errors import ParameterError

Relax = Literal["regression", "compound", "refuse"]
Prefer = Literal["near", "exact"]


@dataclass(frozen=True)
class Manner:
    """By which means, by a near box or the box itself with a larger error, how far at most, and
    how much each attribute counts for that.
    """

    relax: Relax = "regression"
    prefer: Prefer = "near"
    most_error: float = math.inf
    weights: tuple[float, ...] | None = None

    @classmethod
    def read(
        cls,
        relax: Relax,
        prefer: Prefer,
        error: float,
        weights: Mapping[str, float] | None,
        names: Sequence[str],
    ) -> Manner:
        """Out of what a person wrote; refused with one sentence where it makes no sense."""
        if relax not in get_args(Relax):
            raise ParameterError.of(
                "answer", "relax", f"one of {', '.join(get_args(Relax))}", relax
            )
        if prefer not in get_args(Prefer):
            raise ParameterError.of(
                "answer", "prefer", f"one of {', '.join(get_args(Prefer))}", prefer
            )
        if not isinstance(error, (int, float)) or not error >= 0:
            raise ParameterError.of("answer", "max_relaxation_error", "a number from 0 on", error)
        return cls(relax, prefer, float(error), None if weights is None else _read(weights, names))

    @property
    def name(self) -> str:
        """What decides which relaxed answer a box gets."""
        weights = () if self.weights is None else self.weights
        return " ".join([self.relax, self.prefer, *map(repr, weights)])


def _read(weights: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    for name, weight in weights.items():
        if name not in names:
            raise ParameterError.of("answer", "weights", f"by names of {', '.join(names)}", name)
        if not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
            raise ParameterError.of("answer", "weights", "numbers from 0 on", weight)
    return tuple(float(weights.get(name, 1.0)) for name in names)
