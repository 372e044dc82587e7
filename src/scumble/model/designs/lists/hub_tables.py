"""The design of noisy tables over a few frequent items (hubs): one of all baskets, and one of the
baskets with each other item.

A table has a cell for every subset of the hubs: the bits of its place tell which hubs a basket has.
A basket is in one cell of the table of all baskets, and in one cell of the table of each of its
other items, of which it keeps `most` at random. So the count of a set of hubs and at most one other
item is a sum of cells of one table.

With discrete Laplace noise the cells are measured. With discrete Gaussian noise the measured
numbers are the Walsh coefficients f_T = Σ Π (2x - 1) of the cells, the product over the hubs in T,
with noise of the variance σ²·3^|T|. Then the count of every set has the same variance σ²: it is
2^-|S| Σ f_T over the subsets T of its hubs S, and Σ 3^|T| = 4^|S|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.laws import NoiseLaw, noise_law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_HUBS = 6
_GROWTH = 3  # of the variance of a coefficient, for every hub in it


@dataclass(frozen=True)
class HubTables:
    """Noisy tables over the first `hubs` of the binary attributes `attributes`: the first of all
    baskets, with noise of the law `whole`, then one for each other attribute, of the law `noise`.

    Of the other items a basket keeps at most `most`. The last `most` numbers of the file are the
    noisy numbers of baskets that had 1, 2, ... items more (the last: or still more); their noise
    has the law `beyond`.
    """

    kind: ClassVar[str] = "hub tables"

    attributes: tuple[str, ...]
    hubs: int
    most: int
    noise: NoiseLaw
    whole: NoiseLaw
    beyond: NoiseLaw
    count: str = "count"

    def __post_init__(self) -> None:
        if not 0 <= self.hubs <= min(MOST_HUBS, len(self.attributes)) or self.most < 1:
            raise ValueError("there are no tables over so many items")
        if len(set(self.attributes)) < len(self.attributes):
            raise ValueError("an item stands twice")
        if type(self.noise) is not type(self.whole):
            raise ValueError("all tables have noise of one kind")

    @property
    def cells(self) -> int:
        """The number of cells of a table."""
        return 1 << self.hubs

    @property
    def tables(self) -> int:
        """The number of tables."""
        return 1 + len(self.attributes) - self.hubs

    @property
    def by_cells(self) -> bool:
        """Whether the cells themselves were measured, not their Walsh coefficients."""
        return isinstance(self.noise, DiscreteLaplace)

    def laws(self, whole: bool) -> list[NoiseLaw]:
        """Return the laws of the noise of the numbers of a table; `whole`: that of all baskets."""
        law = self.whole if whole else self.noise
        if isinstance(law, DiscreteLaplace):
            return [law] * self.cells
        grown = [DiscreteGaussian(law.parameter * _GROWTH**order) for order in range(self.hubs + 1)]
        return [grown[place.bit_count()] for place in range(self.cells)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "hubs": self.hubs,
            "most": self.most,
            "noise": self.noise.to_dict(),
            "whole": self.whole.to_dict(),
            "beyond": self.beyond.to_dict(),
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HubTables:
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.whole(data["hubs"]),
            stored.whole(data["most"]),
            noise_law_from_dict(data["noise"]),
            noise_law_from_dict(data["whole"]),
            noise_law_from_dict(data["beyond"]),
            stored.text(data["count"]),
        )


def spread(hubs: int, pure: bool) -> Fraction:
    """Return how much one basket moves the numbers of one table: the number of cells it is in, or
    the sum Σ 3^-|T| = (4/3)^hubs of squared Walsh coefficients in units of their variances.

    Two baskets move the Walsh coefficients by vectors whose inner product in these units is a
    product of factors 1 ± 1/3, so it is not negative.
    """
    return Fraction(1) if pure else Fraction(_GROWTH + 1, _GROWTH) ** hubs


def walsh(tables: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the Walsh coefficients of tables, whose cells are the last axis.

    >>> walsh(np.array([1, 2]))
    array([3, 1])
    """
    found = np.array(tables)
    for bit in range(found.shape[-1].bit_length() - 1):
        without, having = _halves(found, bit)
        total, less = without + having, having - without
        without[...], having[...] = total, less
    return found


def cells_of(coefficients: npt.NDArray[Any]) -> Floats:
    """Return the tables that have these Walsh coefficients."""
    found = np.array(coefficients, np.float64)
    for bit in range(found.shape[-1].bit_length() - 1):
        total, less = _halves(found, bit)
        without, having = (total - less) / 2, (total + less) / 2
        total[...], less[...] = without, having
    return found


def supersets(tables: Floats) -> Floats:
    """Return the sums of the cells with all hubs of a set, for every set and table."""
    found = np.array(tables)
    for bit in range(found.shape[-1].bit_length() - 1):
        without, having = _halves(found, bit)
        without += having
    return found


def _halves(tables: npt.NDArray[Any], bit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return views of the cells without and with one hub."""
    split = tables.reshape(*tables.shape[:-1], -1, 2, 1 << bit)
    return split[..., 0, :], split[..., 1, :]
