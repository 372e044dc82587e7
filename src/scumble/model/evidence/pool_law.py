"""The law of Aroma's bags: the true value, and draws from a public pool beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class PoolLaw:
    """The true value and `size - 1` draws from a pool, in which value v has weight `weights[v]`;
    all draws are made again while some value v is in the bag more often than `caps[v]`.
    """

    kind: ClassVar[str] = "pool"

    weights: tuple[int, ...]
    size: int
    caps: tuple[int, ...] | None = None  # None: nothing is ever drawn again

    @property
    def values(self) -> int:
        return len(self.weights)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each value in one draw."""
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def means(self) -> Floats:
        """E[c_v | x] in row x and column v."""
        if self._capped is not None:
            return self._capped.means()
        drawn = np.array([float((self.size - 1) * share) for share in self.shares])
        return drawn + np.eye(self.values)

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Cov[one · c, other · c | x] for every x; along the last axis of two arrays of weights."""
        shares = np.array([float(share) for share in self.shares])
        # Bags have one size, so a constant beside the weights changes nothing but the rounding.
        one, other = (weights - (weights @ shares)[..., None] for weights in (one, other))
        if self._capped is not None:
            return self._capped.covariances(one, other)
        same: Floats = (self.size - 1) * ((one * other) @ shares)
        return np.repeat(same[..., None], self.values, axis=-1)

    @cached_property
    def _capped(self) -> _CappedBags | None:
        if self.caps is None:
            return None
        return _CappedBags([float(share) for share in self.shares], self.size, self.caps)

    def to_dict(self) -> dict[str, Any]:
        caps = None if self.caps is None else list(self.caps)
        return {"kind": self.kind, "weights": list(self.weights), "size": self.size, "caps": caps}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PoolLaw:
        caps = None if data["caps"] is None else tuple(map(int, data["caps"]))
        return cls(tuple(map(int, data["weights"])), int(data["size"]), caps)


class _CappedBags:
    """Moments of bags that keep to their caps.

    P(c | x) is proportional to c_x times the multinomial probability of the whole bag c, because x
    may be any of the c_x equal members. So E[g(c) | x] = E[c_x g(c)] / E[c_x] over multinomial bags
    within their caps: coefficients of z^size in the product of f_v(z) = Σ_{j ≤ cap} (λ_v z)^j / j!
    and of its derivatives. They are read off by a Fourier sum over a circle, whose radius makes
    `size` the mean, so that the coefficient is not small beside the terms that it is summed from.
    """

    def __init__(self, shares: list[float], size: int, caps: tuple[int, ...]) -> None:
        rates = np.array(shares) * _radius(np.array(shares), size, np.array(caps))
        points = _points(size, sum(caps))
        angles = 2 * np.pi * np.arange(points // 2 + 1) / points
        powers = rates * np.exp(1j * angles)[:, None]
        whole, first, second, third = _jets(powers, np.array(caps))
        # θ = z d/dz brings down the count: θf/f, θ²f/f and θ³f/f on the circle, by value.
        self._first, self._second, self._third = first / whole, second / whole, third / whole
        scale = np.abs(whole[0])  # at angle 0 all is positive: the largest that each factor can be
        # The other half of the circle is the mirror image, and only real parts are summed.
        mirrored = np.where(angles == 0, 1.0, 2.0)
        self._all: Complexes = mirrored * np.exp(-1j * angles * size) * (whole / scale).prod(axis=1)
        self._once: Floats = (self._all @ self._first).real

    def means(self) -> Floats:
        twice: Floats = (self._first.T * self._all @ self._first).real
        np.fill_diagonal(twice, (self._all @ self._second).real)
        twice /= self._once[:, None]
        return twice

    def covariances(self, one: Floats, other: Floats) -> Floats:
        means = self.means()
        product = self._mixed(one, other) / self._once
        found: Floats = product - (one @ means.T) * (other @ means.T)
        return found

    def _mixed(self, one: Floats, other: Floats) -> Floats:
        """E[c_x (one · c)(other · c)] for every x, not normalised: point by point of the circle."""
        total = np.zeros(np.broadcast_shapes(one.shape, other.shape))
        both = one * other
        jets = zip(self._all, self._first, self._second, self._third, strict=True)
        for factor, first, second, third in jets:
            lone, lother = one * first, other * first
            rest_one = lone.sum(axis=-1, keepdims=True) - lone
            rest_other = lother.sum(axis=-1, keepdims=True) - lother
            spread = both * (second - first**2)
            rest = rest_one * rest_other + spread.sum(axis=-1, keepdims=True) - spread
            with_x = second * (one * rest_other + other * rest_one) + third * both
            total += (factor * (first * rest + with_x)).real
        return total


def _jets(powers: Complexes, caps: npt.NDArray[np.int64]) -> tuple[Complexes, ...]:
    """Σ_{j ≤ cap} j^d w^j / j! for d from 0 to 3, at every point (rows) and value (columns)."""
    sums = [np.zeros_like(powers) for _ in range(4)]
    term = np.ones_like(powers)
    largest, bound = float(np.abs(powers).max()), 1.0
    for count in range(int(caps.max()) + 1):
        bound *= largest / count if count else 1.0
        if count > largest and bound < 1e-30:  # beyond all digits, and falling
            break
        term = term * powers / count if count else term
        inside = np.where(count <= caps, term, 0)
        for order, total in enumerate(sums):
            total += inside * count**order
    return tuple(sums)


def _radius(shares: Floats, size: int, caps: npt.NDArray[np.int64]) -> float:
    """The factor of the shares that makes `size` the mean of Poisson counts within their caps."""

    def mean(radius: float) -> float:
        whole, first, *_ = _jets((shares * radius).astype(complex)[None, :], caps)
        return float((first / whole).real.sum())

    low, high = float(size), float(size)
    while mean(high) < size and high < 1e6 * size:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < size else (low, middle)
    return high


def _points(size: int, most: int) -> int:
    """Points on the circle, an odd number, so many that no coefficient is mistaken for another.

    The whole polynomial has degree `most`. Sums of capped Poisson counts with mean `size` have no
    heavier tails than a Poisson count, so coefficients beyond its tail of 1e-20 need no room.
    """
    reach = size + 1
    while reach * math.log(reach / size) - reach + size < 46:
        reach += 1
    return min(most, size + reach) + 1 | 1
