"""Laws of errors: the distributions of estimate - truth. Nothing random is drawn here.

Every law but the geometric one is symmetric around 0. An interval for the truth is the estimate
plus and minus the smallest half-width that covers at the given level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scumble.model import stored
from scumble.model.errors import ParameterError
from scumble.model.laws.base import DiscreteLaw, ErrorLaw, Normal
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.laws.key_noise import KeyNoise
from scumble.model.laws.weighted_sum import NoiseSum

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscreteLaw",
    "ErrorLaw",
    "KeyNoise",
    "NoiseLaw",
    "NoiseSum",
    "Normal",
    "law_from_dict",
    "noise_law_from_dict",
]


def law_from_dict(data: Mapping[str, Any]) -> ErrorLaw:
    """Return the law that `to_dict` described as `data`."""
    kind = data.get("kind")
    if kind == "normal":
        return Normal(float(data["variance"]))
    if kind == "discrete laplace":
        return DiscreteLaplace(stored.fraction(data["scale"]))
    if kind == "discrete gaussian":
        return DiscreteGaussian(stored.fraction(data["parameter"]))
    if kind == "key noise":
        return KeyNoise(stored.fraction(data["scale"]), stored.fraction(data["delta"]))
    if kind == "noise sum":
        base = noise_law_from_dict(data["base"])
        return NoiseSum(base, {_weight(weight): count for weight, count in data["terms"]})
    raise ParameterError.of("law_from_dict", "kind", "the name of an error law", kind)


def noise_law_from_dict(data: Mapping[str, Any]) -> NoiseLaw:
    """Return the discrete Laplace or Gaussian law that `to_dict` described as `data`."""
    law = law_from_dict(data)
    if not isinstance(law, NoiseLaw):
        raise ValueError("noise is discrete Laplace or discrete Gaussian")
    return law


def _weight(value: Any) -> int | float:
    return value if isinstance(value, int) else float(value)
