"""The design of noisy counts of small sets of items, from baskets with a limited number of items.

One number is measured for every set of up to `longest` of the items: the number of baskets that
keep all of them. A basket that had more than `most` of the items keeps `most` of them, at random.
The numbers are ordered by the size of the set (the empty set first: all baskets), and within a size
by the combinatorial number system: the set {a < b < c} has the place C(a,1) + C(b,2) + C(c,3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.laws import NoiseLaw, noise_law_from_dict

Integers = npt.NDArray[np.int64]

MOST_NUMBERS = 5 * 10**7


@dataclass(frozen=True)
class Itemsets:
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


def set_number(items: int, longest: int) -> int:
    """Return the number of sets of 0 to `longest` items."""
    return sum(comb(items, size) for size in range(longest + 1))


def touched_sets(most: int, longest: int) -> int:
    """Return the number of counted sets that one basket is in at most, without the empty one."""
    return set_number(most, longest) - 1


def set_places(design: Itemsets, sets: Integers) -> Integers:
    """Return the place of the number of each row of `sets`: different items, ascending."""
    items, size = len(design.attributes), sets.shape[1]
    found = np.full(len(sets), set_number(items, size - 1) if size else 0, np.int64)
    for place in range(size):
        table = np.array([comb(item, place + 1) for item in range(items)], np.int64)
        found += table[sets[:, place]]
    return found


def sets_at(items: int, size: int, places: Integers) -> Integers:
    """Return the sets of `size` of `items` items at these places among all of their size."""
    found = np.empty((len(places), size), np.int64)
    left = np.asarray(places, np.int64).copy()
    for place in range(size - 1, -1, -1):
        table = np.array([comb(item, place + 1) for item in range(items)], np.int64)
        found[:, place] = np.searchsorted(table, left, side="right") - 1
        left -= table[found[:, place]]
    return found
