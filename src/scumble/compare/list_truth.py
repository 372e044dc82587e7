"""The exact counts of a private table of lists or keys, which comparisons hold releases against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from scumble.model.schema.lists import EncodedLists

Bits = npt.NDArray[np.uint8]
Items = frozenset[int]
String = tuple[int, ...]

LONGEST = 5  # symbols of the strings that are counted


class BasketTruth:
    """The exact numbers of baskets with sets of items, by one bit for each basket."""

    def __init__(self, baskets: Iterable[Iterable[int]]) -> None:
        rows: dict[int, list[int]] = {}
        self.baskets = 0
        for number, basket in enumerate(baskets):
            self.baskets = number + 1
            for item in set(basket):
                rows.setdefault(item, []).append(number)
        self.bits: dict[int, Bits] = {}
        for item, where in rows.items():
            has = np.zeros(self.baskets, bool)
            has[where] = True
            self.bits[item] = np.packbits(has)

    def count(self, items: Items) -> int:
        """Return how many baskets have all of these items."""
        if not items:
            return self.baskets
        if any(item not in self.bits for item in items):
            return 0
        return _ones(np.bitwise_and.reduce([self.bits[item] for item in items]))

    def top(self, k: int) -> list[Items]:
        """Return the k most frequent sets; of equally frequent ones, shorter ones first."""
        counts = {item: _ones(bits) for item, bits in self.bits.items()}
        items = sorted(counts, key=lambda item: -counts[item])[:k]
        if not items:
            return []
        least, found = counts[items[-1]] if len(items) == k else 1, dict[Items, int]()

        def extend(chosen: Items, bits: Bits | None, left: list[int]) -> None:
            nonlocal least
            if len(found) > 4 * k:  # sets that are rarer than k others need no extension
                least = sorted(found.values(), reverse=True)[k - 1]
                for rare in [each for each, count in found.items() if count < least]:
                    del found[rare]
            for place, item in enumerate(left):
                both = self.bits[item] if bits is None else bits & self.bits[item]
                if (count := _ones(both)) >= least:
                    found[chosen | {item}] = count
                    extend(chosen | {item}, both, left[place + 1 :])

        extend(frozenset(), None, items)
        ranked = sorted(found, key=lambda each: (-found[each], len(each), sorted(each)))
        return ranked[:k]


def _ones(bits: Bits) -> int:
    return int(np.unpackbits(bits).sum())


class StringTruth:
    """The exact numbers of occurrences of strings in the first `length` symbols of sequences.

    With `weighted`, an occurrence in a sequence of n symbols, its end included, counts 1/n.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], length: int, *, weighted: bool) -> None:
        self.counts: Counter[String] = Counter()
        self.sequences = 0
        for sequence in sequences:
            self.sequences += 1
            symbols = tuple(sequence[:length])
            weight = 1 / min(len(sequence) + 1, length) if weighted else 1
            for place in range(len(symbols)):
                for end in range(place + 1, min(place + LONGEST, len(symbols)) + 1):
                    self.counts[symbols[place:end]] += weight  # type: ignore[assignment]

    def top(self, k: int) -> list[String]:
        """Return the k most frequent strings of up to five symbols."""
        return sorted(self.counts, key=lambda each: (-self.counts[each], each))[:k]

    @cached_property
    def strings(self) -> list[String]:
        """All strings that occur, in order."""
        return sorted(self.counts)


def lists_of(batches: Iterable[EncodedLists]) -> Iterator[list[int]]:
    """Yield the codes of each list."""
    for lists in batches:
        for begin, end in pairwise(lists.offsets.tolist()):
            yield lists.codes[begin:end].tolist()
