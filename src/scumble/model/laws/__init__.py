"""Laws of errors: the distributions of estimate - truth. Nothing random is drawn here.

Every law but the geometric one is symmetric around 0. An interval for the truth is the estimate
plus and minus the smallest half-width that covers at the given level.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from scumble.model import stored
from scumble.model.errors import ParameterError
from scumble.model.laws.base import DiscreteLaw, ErrorLaw, Normal
from scumble.model.laws.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    RoundedNormal,
)
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
    "RoundedNormal",
    "law_from_dict",
    "noise_law_from_dict",
]


_LARGEST = 1 << 62  # scale of a noise


def law_from_dict(data: Mapping[str, Any]) -> ErrorLaw:
    """Return the law that `to_dict` described as `data`."""
    kind = data.get("kind")
    if kind == "normal":
        return Normal(float(data["variance"]))
    if kind == "discrete laplace":
        return DiscreteLaplace(_noise(data["scale"], _LARGEST))
    if kind == "discrete gaussian":
        return DiscreteGaussian(_noise(data["parameter"], _LARGEST**2))
    if kind == "rounded normal":
        return RoundedNormal(_noise(data["parameter"], _LARGEST**2))
    if kind == "key noise":
        return KeyNoise(_noise(data["scale"], _LARGEST), stored.fraction(data["delta"]))
    if kind == "noise sum":
        base = noise_law_from_dict(data["base"])
        return NoiseSum(base, {_weight(weight): count for weight, count in data["terms"]})
    raise ParameterError.of("law_from_dict", "kind", "the name of an error law", kind)


def noise_law_from_dict(data: Mapping[str, Any]) -> NoiseLaw:
    """Return the law of noise on single numbers that `to_dict` described as `data`."""
    law = law_from_dict(data)
    if not isinstance(law, NoiseLaw):
        raise ValueError("noise is discrete Laplace, discrete Gaussian or rounded normal")
    return law


def _noise(value: Any, most: int) -> Fraction:
    """Return the size of a noise, which numbers of 64 bits can hold."""
    found = stored.fraction(value)
    if found > most:
        raise ValueError("the noise is larger than any count")
    return found


def _weight(value: Any) -> int | float:
    return value if isinstance(value, int) else float(value)
