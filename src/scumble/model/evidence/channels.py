"""Channels: the conditional distribution of a published value given the true one.

`UniformChannel` is k-ary randomised response, `PartitionChannel` the same within each part of the
table, and `MultisetChannel` publishes a multiset of values in place of one. The laws of multisets
are those of the subset mechanism (`SubsetLaw`) and of Aroma (`PoolLaw`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema

Tensor = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UniformChannel:
    """The value is kept with probability `keep`, and else drawn uniformly from the whole domain.

    With several attributes the channel acts on their product as one value. Its marginal on some of
    these attributes is again a uniform channel with the same `keep`, so that tensors need axes only
    for the attributes that a question names.
    """

    kind: ClassVar[str] = "uniform"
    added: ClassVar[tuple[Attribute, ...]] = ()
    main_promise: ClassVar[str] = "ε-LDP"
    left_to_audit: ClassVar[frozenset[str]] = frozenset()

    attributes: tuple[str, ...]
    keep: Fraction

    def apply(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the mean of `tensor` at the published value, as a function of the true value."""
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return keep * tensor + (1 - keep) * mean

    def invert(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the function of the published value whose mean, given the true value, is
        `tensor`.
        """
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return (tensor - (1 - keep) * mean) / keep

    def amplification(self, schema: Schema) -> Fraction | None:
        """Return the largest P(shown | one value) / P(shown | another); None if unbounded."""
        return _largest_ratio(_uniform_matrix(self.keep, schema.size(self.attributes)))

    def success(self, schema: Schema) -> Fraction | None:
        """Return the success of the best guess of a value."""
        return self.keep + (1 - self.keep) / schema.size(self.attributes)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "attributes": list(self.attributes), "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UniformChannel:
        return cls(stored.items(stored.text, data["attributes"]), stored.share(data["keep"]))


@dataclass(frozen=True)
class PartitionChannel:
    """A uniform channel in each part of the table, each on its own domain.

    `column` has the part of every row, from 0 on. `domains` lists, for each part, the values that
    its rows may have and show: cells of the product of `attributes` in row-major order, ascending.
    `keeps` has the probability of keeping a value in each part, `rows` the number of its rows.
    """

    kind: ClassVar[str] = "split"
    left_to_audit: ClassVar[frozenset[str]] = frozenset({"restricted (ρ1, ρ2)-privacy"})

    attributes: tuple[str, ...]
    column: str
    domains: tuple[tuple[int, ...], ...]
    keeps: tuple[Fraction, ...]
    rows: tuple[int, ...] = ()

    @property
    def main_promise(self) -> str:
        """The statement of a promise that a release must make; another if nothing is perturbed."""
        whole = 1 in self.keeps
        return "restricted (ρ1, ρ2)-privacy" if whole else "γ-amplification within a sub-table"

    @property
    def added(self) -> tuple[Attribute, ...]:
        """The column with the part of each row, which questions may use like any other."""
        numbers = IntegerRange(0, len(self.domains) - 1)
        return (Attribute(self.column, "insensitive", numbers),)

    def amplification(self, schema: Schema) -> Fraction | None:
        """Return the largest ratio within a part; None if it is unbounded in one."""
        pairs = zip(self.keeps, self.domains, strict=True)
        ratios = [
            _largest_ratio(_uniform_matrix(keep, len(domain))) if len(domain) > 1 else Fraction(1)
            for keep, domain in pairs
        ]
        known = [ratio for ratio in ratios if ratio is not None]
        return max(known) if len(known) == len(ratios) else None

    def success(self, schema: Schema) -> None:
        """Return None: it depends on the private table."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "column": self.column,
            "domains": [list(domain) for domain in self.domains],
            "keeps": [str(keep) for keep in self.keeps],
            "rows": list(self.rows),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PartitionChannel:
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.text(data["column"]),
            tuple(stored.items(stored.whole, domain) for domain in data["domains"]),
            stored.items(stored.share, data["keeps"]),
            stored.items(stored.whole, data["rows"]),
        )


@dataclass(frozen=True)
class MultisetChannel:
    """Every row shows a multiset of values in place of one; `law` is its distribution.

    In the file, layout "counts" has one column for each cell of the product of `attributes`
    (row-major) with its multiplicity; layout "codes" has one column for each member of the multiset
    with its cell, in ascending order.
    """

    kind: ClassVar[str] = "bag"
    added: ClassVar[tuple[Attribute, ...]] = ()
    left_to_audit: ClassVar[frozenset[str]] = frozenset()

    attributes: tuple[str, ...]
    layout: Literal["counts", "codes"]
    columns: tuple[str, ...]
    law: MultisetLaw

    @property
    def main_promise(self) -> str:
        """The statement of a promise that a release must make."""
        return self.law.main_promise

    def amplification(self, schema: Schema) -> Fraction | None:
        """Return the largest ratio of its law; None if it is unbounded."""
        return self.law.amplification

    def success(self, schema: Schema) -> Fraction | None:
        """Return the success of the best guess of a value; None where that takes long."""
        return self.law.success

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "layout": self.layout,
            "columns": list(self.columns),
            "law": self.law.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MultisetChannel:
        if data["layout"] not in ("counts", "codes"):
            raise ValueError("unknown layout of multisets")
        columns = stored.items(stored.text, data["columns"])
        attributes = stored.items(stored.text, data["attributes"])
        law = multiset_law_from_dict(data["law"])
        if len(columns) != (law.values if data["layout"] == "counts" else law.size):
            raise ValueError("multisets have one column for each value, or for each member")
        return cls(attributes, data["layout"], columns, law)


Channel = UniformChannel | PartitionChannel | MultisetChannel
_KINDS: Mapping[str, Any] = {
    kind.kind: kind for kind in (UniformChannel, PartitionChannel, MultisetChannel)
}


def channel_from_dict(data: Mapping[str, Any]) -> Channel:
    """Return the channel that a manifest holds as `data`."""
    found: Channel = _KINDS[data["kind"]].from_dict(data)
    return found


Matrix = list[list[Fraction]]


def _uniform_matrix(keep: Fraction, values: int) -> Matrix:
    """Return P(shown | true) of two values; all others are like the second."""
    other = (1 - keep) / values
    return [[keep + other, other], [other, keep + other]]


def _largest_ratio(matrix: Matrix) -> Fraction | None:
    pairs = [
        (one, other)
        for column in zip(*matrix, strict=True)
        for one, other in product(column, column)
    ]
    if any(other == 0 and one > 0 for one, other in pairs):
        return None
    return max((one / other for one, other in pairs if other), default=Fraction(1))


# --- laws of multisets ---------------------------------------------------------------------------
#
# A law has, for every true value x, the mean and the covariance of the multiplicities c_v of all
# values v. An estimator needs no more; the publisher computes the exact probabilities of multisets.

Floats = npt.NDArray[np.float64]


class MultisetLaw(Protocol):
    """Moments of the multiplicities c_v in the multiset of a row whose true value is x."""

    @property
    def values(self) -> int:
        """The number of values."""

    @property
    def size(self) -> int:
        """The number of members of a multiset, the same for all rows."""

    @property
    def amplification(self) -> Fraction | None:
        """The largest P(multiset | one value) / P(multiset | another); None if unbounded."""

    @property
    def success(self) -> Fraction | None:
        """The success of the best guess of a value; None where `design` of the family has it."""

    @property
    def main_promise(self) -> str:
        """The statement of a promise that a release must make."""

    def means(self) -> Floats:
        """Return E[c_v | x] in row x and column v."""

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Return Cov[one · c, other · c | x] for every x, along the last axis of both arrays of
        weights.
        """

    def to_dict(self) -> dict[str, Any]: ...

    def __hash__(self) -> int: ...


def multiset_law_from_dict(data: Mapping[str, Any]) -> MultisetLaw:
    """Return the law that a manifest holds as `data`."""
    kinds: Mapping[str, Any] = {kind.kind: kind for kind in (PoolLaw, SubsetLaw)}
    law: MultisetLaw = kinds[data["kind"]].from_dict(data)
    return law


@dataclass(frozen=True)
class SubsetLaw:
    """The subset mechanism: a set of `size` out of `values` values holds the true value with
    probability `inclusion`; its other members are a uniform choice among the other values.
    """

    kind: ClassVar[str] = "subset"
    main_promise: ClassVar[str] = "ε-LDP"

    values: int
    size: int
    inclusion: Fraction

    @property
    def chance(self) -> Fraction:
        """The probability that the set holds a given value that is not the true one."""
        return (self.size - self.inclusion) / (self.values - 1)

    @property
    def amplification(self) -> Fraction | None:
        """Of two values, a set can hold the one or the other."""
        inside = self.inclusion / math.comb(self.values - 1, self.size - 1)
        outside = (1 - self.inclusion) / math.comb(self.values - 1, self.size)
        return _largest_ratio([[inside, outside], [outside, inside]])

    @property
    def success(self) -> Fraction:
        """That of a value of the set, or of one outside it if that is likelier."""
        inside = self.inclusion / self.size
        return max(inside, (1 - self.inclusion) / (self.values - self.size))

    def means(self) -> Floats:
        away, home = float(self.chance), float(self.inclusion)
        return away + (home - away) * np.eye(self.values)

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Return Cov[one · c, other · c | x] for every x, along the last axis.

        Given whether the set holds x, its other members are drawn without replacement. Holding x
        changes the sum by the weight of x less the mean weight of the other values.
        """
        others = self.values - 1
        # All sets have one size, so a constant added to the weights changes only the rounding.
        one, other = (each - each.mean(axis=-1, keepdims=True) for each in (one, other))
        gaps = [each + each / others for each in (one, other)]  # the others add up to -each
        products = (one * other).sum(axis=-1, keepdims=True) - one * other - one * other / others
        held = float(self.inclusion)
        drawn = held * self._drawn(self.size - 1) + (1 - held) * self._drawn(self.size)
        found: Floats = drawn * products + held * (1 - held) * gaps[0] * gaps[1]
        return found

    def _drawn(self, number: int) -> float:
        """Return the factor of the covariance of a sample of `number` of the other values, drawn
        without replacement.
        """
        others = self.values - 1
        return number * (others - number) / (others * (others - 1)) if others > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        inclusion = str(self.inclusion)
        return {"kind": self.kind, "values": self.values, "size": self.size, "inclusion": inclusion}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubsetLaw:
        values, size = stored.whole(data["values"], 1), stored.whole(data["size"], 1)
        return cls(values, size, stored.share(data["inclusion"]))


Complexes = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class PoolLaw:
    """Aroma: the multiset holds the true value and `size - 1` draws from a public pool, in which
    value v has weight `weights[v]`. All draws are repeated while some value v has a multiplicity
    above `caps[v]`.
    """

    kind: ClassVar[str] = "pool"
    main_promise: ClassVar[str] = "(ε, δ)-LDP profile"

    weights: tuple[int, ...]
    size: int
    caps: tuple[int, ...] | None = None  # None: draws are never repeated

    amplification: ClassVar[None] = None  # the true value is inside, so an absent one is excluded
    success: ClassVar[None] = None  # a sum over multisets, in `design` of the family

    @property
    def values(self) -> int:
        return len(self.weights)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each value in one draw."""
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def means(self) -> Floats:
        """Return E[c_v | x] in row x and column v."""
        if self._capped is not None:
            return self._capped.means()
        drawn = np.array([float((self.size - 1) * share) for share in self.shares])
        return drawn + np.eye(self.values)

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Return Cov[one · c, other · c | x] for every x, along the last axis."""
        shares = np.array([float(share) for share in self.shares])
        # All multisets have one size, so a constant added to the weights changes only the rounding.
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
        weights = tuple(stored.whole(weight, 1) for weight in data["weights"])
        caps = None if data["caps"] is None else stored.items(stored.whole, data["caps"])
        if caps is not None and len(set(zip(weights, caps, strict=True))) > len(set(weights)):
            raise ValueError("values of one weight have one cap")
        return cls(weights, stored.whole(data["size"], 1), caps)


class _CappedBags:
    """Moments of multisets whose multiplicities are within their caps.

    P(c | x) is proportional to c_x times the multinomial probability of the whole multiset c,
    because x may be any of the c_x equal members. So E[g(c) | x] = E[c_x g(c)] / E[c_x] over
    multinomial multisets within their caps. These are coefficients of z^size in the product of
    f_v(z) = Σ_{j ≤ cap} (λ_v z)^j / j! and of its derivatives. They are computed by a Fourier sum
    over a circle, whose radius makes `size` the mean, so that the coefficient is not small compared
    with the terms of the sum.
    """

    def __init__(self, shares: list[float], size: int, caps: tuple[int, ...]) -> None:
        rates = np.array(shares) * _radius(np.array(shares), size, np.array(caps))
        points = _points(size, sum(caps))
        angles = 2 * np.pi * np.arange(points // 2 + 1) / points
        powers = rates * np.exp(1j * angles)[:, None]
        whole, first, second, third = _jets(powers, np.array(caps))
        # θ = z d/dz multiplies by the count: θf/f, θ²f/f and θ³f/f on the circle, by value.
        self._first, self._second, self._third = first / whole, second / whole, third / whole
        scale = np.abs(whole[0])  # at angle 0 all terms are positive: the largest absolute value
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
        """Return E[c_x (one · c)(other · c)] for every x, not normalised, summed over the
        circle.
        """
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
    """Return Σ_{j ≤ cap} j^d w^j / j! for d from 0 to 3, at every point (row) and value
    (column).
    """
    sums = [np.zeros_like(powers) for _ in range(4)]
    term = np.ones_like(powers)
    largest, bound = float(np.abs(powers).max()), 1.0
    for count in range(int(caps.max()) + 1):
        bound *= largest / count if count else 1.0
        if count > largest and bound < 1e-30:  # below the rounding error, and falling
            break
        term = term * powers / count if count else term
        inside = np.where(count <= caps, term, 0)
        for order, total in enumerate(sums):
            total += inside * count**order
    return tuple(sums)


def _radius(shares: Floats, size: int, caps: npt.NDArray[np.int64]) -> float:
    """Return the factor of the shares for which `size` is the mean of capped Poisson counts."""

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
    """Return the number of points on the circle, an odd number large enough that no other
    coefficient is aliased into the wanted one.

    The whole polynomial has degree `most`. Sums of capped Poisson counts with mean `size` have no
    heavier tails than a Poisson count, so coefficients beyond its tail of 1e-20 are neglected.
    """
    reach = size + 1
    while reach * math.log(reach / size) - reach + size < 46:
        reach += 1
    return min(most, size + reach) + 1 | 1
