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
from math import comb
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.designs.design import Design
from scumble.model.laws import NoiseLaw, law_from_dict, noise_law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, counts_loss, number_loss

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_HUBS = 6
_GROWTH = 3  # of the variance of a coefficient, for every hub in it


@dataclass(frozen=True)
class HubTables(Design):
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
        return [grown[cell.bit_count()] for cell in range(self.cells)]

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

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        per_table = spread(self.hubs, self.by_cells)
        whole, others = (
            counts_loss(law, unit, touched)
            for law, touched in ((self.whole, per_table), (self.noise, self.most * per_table))
        )
        return whole + others + counts_loss(self.beyond, unit)


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
    coefficients = np.array(tables)
    for bit in range(coefficients.shape[-1].bit_length() - 1):
        without, having = _split_halves(coefficients, bit)
        total, less = without + having, having - without
        without[...], having[...] = total, less
    return coefficients


def cells_of(coefficients: npt.NDArray[Any]) -> Floats:
    """Return the tables that have these Walsh coefficients."""
    cells = np.array(coefficients, np.float64)
    for bit in range(cells.shape[-1].bit_length() - 1):
        total, less = _split_halves(cells, bit)
        without, having = (total - less) / 2, (total + less) / 2
        total[...], less[...] = without, having
    return cells


def supersets(tables: Floats) -> Floats:
    """Return the sums of the cells with all hubs of a set, for every set and table."""
    sums = np.array(tables)
    for bit in range(sums.shape[-1].bit_length() - 1):
        without, having = _split_halves(sums, bit)
        without += having
    return sums


def _split_halves(tables: npt.NDArray[Any], bit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return views of the cells without and with one hub."""
    split = tables.reshape(*tables.shape[:-1], -1, 2, 1 << bit)
    return split[..., 0, :], split[..., 1, :]


# --- itemsets -------------------------------------------------------------------------------------
#
# The design of noisy counts of small sets of items, from baskets with a limited number of items.
#
# One number is measured for every set of up to `longest` of the items: the number of baskets that
# keep all of them. A basket that had more than `most` of the items keeps `most` of them, at random.
# The numbers are ordered by the size of the set (the empty set first: all baskets), and within a
# size by the combinatorial number system: the set {a < b < c} has the place C(a,1) + C(b,2) +
# C(c,3).

MOST_NUMBERS = 5 * 10**7


@dataclass(frozen=True)
class Itemsets(Design):
    """Noisy counts of all sets of up to `longest` of the binary attributes `attributes`, from
    baskets with at most `most` of them. `noise` is the law of every count.

    The last number of the file is the noisy number of baskets that had more items; its noise has
    the law `beyond`.
    """

    kind: ClassVar[str] = "itemsets"

    attributes: tuple[str, ...]
    longest: int
    most: int
    noise: NoiseLaw
    beyond: NoiseLaw
    count: str = "count"

    def __post_init__(self) -> None:
        if not 1 <= self.longest <= self.most or self.numbers > MOST_NUMBERS:
            raise ValueError("no sets of so many items are counted")

    @property
    def numbers(self) -> int:
        """The number of sets, the empty one among them."""
        return set_number(len(self.attributes), self.longest)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "longest": self.longest,
            "most": self.most,
            "noise": self.noise.to_dict(),
            "beyond": self.beyond.to_dict(),
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Itemsets:
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.whole(data["longest"]),
            stored.whole(data["most"]),
            noise_law_from_dict(data["noise"]),
            noise_law_from_dict(data["beyond"]),
            stored.text(data["count"]),
        )

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        touched = 1 + count_touched(min(self.most, len(self.attributes)), self.longest)
        return counts_loss(self.noise, unit, touched) + counts_loss(self.beyond, unit)


def set_number(items: int, longest: int) -> int:
    """Return the number of sets of 0 to `longest` items."""
    return sum(comb(items, size) for size in range(longest + 1))


def count_touched(most: int, longest: int) -> int:
    """Return the number of counted sets that one basket is in at most, without the empty one."""
    return set_number(most, longest) - 1


def set_places(design: Itemsets, sets: Integers) -> Integers:
    """Return the place of the number of each row of `sets`: different items, ascending."""
    items, size = len(design.attributes), sets.shape[1]
    places = np.full(len(sets), set_number(items, size - 1) if size else 0, np.int64)
    for index in range(size):
        table = np.array([comb(item, index + 1) for item in range(items)], np.int64)
        places += table[sets[:, index]]
    return places


def sets_at(items: int, size: int, places: Integers) -> Integers:
    """Return the sets of `size` of `items` items at these places among all of their size."""
    sets = np.empty((len(places), size), np.int64)
    left = np.asarray(places, np.int64).copy()
    for index in range(size - 1, -1, -1):
        table = np.array([comb(item, index + 1) for item in range(items)], np.int64)
        sets[:, index] = np.searchsorted(table, left, side="right") - 1
        left -= table[sets[:, index]]
    return sets


# --- whole baskets --------------------------------------------------------------------------------
#
# The design of noisy counts of whole baskets: how many baskets hold exactly these items.

ITEMS, LAW, COUNT = "items", "law", "count"  # the columns of the file


@dataclass(frozen=True)
class WholeBaskets(Design):
    """The file has a row for each published basket: the places of its `items` among the binary
    `attributes`, its noisy `count`, and the number of the `law` of its noise in `laws`.

    Which baskets are published depends on other noise; the empty one always is, except in
    the first releases of this format. `total` is the number of all baskets plus
    noise of its own, or the exact number if `total_noise` is None.
    """

    kind: ClassVar[str] = "whole baskets"

    attributes: tuple[str, ...]
    laws: tuple[DiscreteLaplace, ...]
    total: int
    total_noise: DiscreteLaplace | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "laws": [law.to_dict() for law in self.laws],
            "total": self.total,
            "total noise": None if self.total_noise is None else self.total_noise.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WholeBaskets:
        noise = data["total noise"]
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.items(_read_laplace, data["laws"]),
            int(data["total"]),
            None if noise is None else _read_laplace(noise),
        )

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        """Whole baskets are disjoint: a person's is in one of the counts."""
        counts = max((counts_loss(law, unit).epsilon for law in self.laws), default=0.0)
        return StatedLoss(counts) + number_loss(self.total_noise, unit)


def _read_laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    law = law_from_dict(data)
    if not isinstance(law, DiscreteLaplace):
        raise ValueError("counts of baskets have discrete Laplace noise")
    return law
