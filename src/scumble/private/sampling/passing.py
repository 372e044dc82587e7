"""The noise of an empty cell that a rule lets pass: how often it does, and what it is then.

With a = e^(-1/scale) the noise is v with probability (1 - a)/(1 + a) · a^|v|.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.exponential import Enclosure, exponential, quotient
from scumble.private.sampling.integers import integers
from scumble.private.sampling.noise import geometric
from scumble.private.sampling.source import Source
from scumble.private.sampling.sparse import Sieve

_INT64 = 1 << 63


class Passing(Sieve, Protocol):
    """A rule, as it treats empty cells; their chance is irrational because e^(-1/scale) is
    transcendental.
    """

    def draw(self, source: Source, size: int) -> NDArray[Any]:
        """Independent noises of cells that pass."""
        ...


@dataclass(frozen=True)
class Filtered:
    """Noise of at least `theta`, which is 1 or more; with `both` signs, at most -theta too.

    It passes with probability a^theta/(1 + a), or twice that; beyond theta it is geometric.
    """

    scale: Fraction
    theta: int
    both: bool = False

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        times = 2 if self.both else 1
        low, high = exponential(self.theta / self.scale, precision)
        below = exponential(1 / self.scale, precision)
        return quotient((times * low, times * high), (one + below[0], one + below[1]), precision)

    def draw(self, source: Source, size: int) -> NDArray[Any]:
        values = geometric(source, self.scale, size) + self.theta
        return _signed(source, values) if self.both else values


@dataclass(frozen=True)
class Sampled:
    """Noise v that is kept with probability min(|v|/tau, 1).

    That is min(|v|, tau) out of tau numbered lots, and so the number |v| of a kept noise, together
    with the lot that kept it, has a probability proportional to a^|v| for every lot of at most
    |v|. The lot alone, from 1 to tau, is then geometric but cut off, which is the remainder of a
    geometric number by tau; and |v| - lot is geometric. The probability to be kept is
    2a(1 - a^tau) / (tau (1 - a²)).
    """

    scale: Fraction
    tau: int

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        ratio = exponential(1 / self.scale, precision)
        square = exponential(2 / self.scale, precision)
        last = exponential((self.tau + 1) / self.scale, precision)
        above = (2 * (ratio[0] - last[1]), 2 * (ratio[1] - last[0]))
        below = (self.tau * (one - square[1]), self.tau * (one - square[0]))
        return quotient(above, below, precision)

    def draw(self, source: Source, size: int) -> NDArray[Any]:
        return self.lots(source, size)[0]

    def lots(self, source: Source, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The same, and the lots that kept them, counted from 0."""
        lots = geometric(source, self.scale, size)
        if self.tau < _INT64 or lots.dtype == object:
            lots = lots % self.tau
        values = geometric(source, self.scale, size) + lots + 1
        return _signed(source, values), lots


def _signed(source: Source, values: NDArray[Any]) -> NDArray[Any]:
    return np.where(integers(source, 2, len(values)) == 1, values, -values)
