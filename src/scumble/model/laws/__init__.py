"""The laws of errors: how far an estimate may be from the truth. Pure arithmetic, nothing is drawn
here.

Every law is symmetric around 0 and belongs to the error of an estimate, estimate = truth + error;
so an interval for the truth is the estimate plus and minus the smallest half-width that covers
enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from scumble.model.errors import ParameterError
from scumble.model.laws.base import DiscreteLaw, ErrorLaw, Normal
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscreteLaw",
    "ErrorLaw",
    "NoiseSum",
    "Normal",
    "law_from_dict",
]


def law_from_dict(data: Mapping[str, Any]) -> ErrorLaw:
    """The law that `to_dict` described."""
    kind = data.get("kind")
    if kind == "normal":
        return Normal(float(data["variance"]))
    if kind == "discrete laplace":
        return DiscreteLaplace(Fraction(data["scale"]))
    if kind == "discrete gaussian":
        return DiscreteGaussian(Fraction(data["parameter"]))
    if kind == "noise sum":
        base = law_from_dict(data["base"])
        if isinstance(base, DiscreteLaplace | DiscreteGaussian):
            return NoiseSum(base, {_weight(weight): count for weight, count in data["terms"]})
    raise ParameterError.of("law_from_dict", "kind", "the name of an error law", kind)


def _weight(value: Any) -> int | float:
    return value if isinstance(value, int) else float(value)
