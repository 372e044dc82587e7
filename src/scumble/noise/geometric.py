"""Geometric noise: P(k) proportional to exp(-k / scale) on the whole numbers from 0 on, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.noise.laplace import discrete_laplace
from scumble.noise.source import Source


def geometric(source: Source, scale: Fraction, size: int) -> NDArray[Any]:
    """Independent geometric numbers: the discrete Laplace numbers that are not below 0.

    More than half of those are kept. They are int64 or, as in `discrete_laplace`, Python integers
    where a number needs it.
    """
    parts: list[NDArray[Any]] = [np.empty(0, np.int64)]
    missing = size
    while missing:
        drawn = discrete_laplace(source, scale, missing)
        parts.append(drawn[drawn >= 0])
        missing -= len(parts[-1])
    return np.concatenate(parts)
