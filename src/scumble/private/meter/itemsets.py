"""Exact counts of items, pairs and sets of items in baskets; only this folder uses them.

Baskets pass batch by batch, several times. Memory does not depend on their number: bits that are
kept between two passes are limited, and beyond the limit they are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.itemsets import Itemsets, set_places
from scumble.model.schema.lists import EncodedLists

Integers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint16]
Pass = Callable[[], Iterator[EncodedLists]]

_ROWS = 1 << 15  # baskets of a block of bits
_KEPT = 1 << 27  # bytes of blocks that are kept for the next pass
_TOGETHER = 1 << 24  # bytes of bits of sets that are counted together
_DENSER = 64  # times as fast are products of full matrices, for each product of two numbers
_FEW = 4  # a sum over few numbers takes as long as over so many sums


def item_counts(baskets: Pass, size: int) -> tuple[Integers, int]:
    """Return the number of baskets with each of `size` items, and the number of all baskets."""
    counts, rows = np.zeros(size, np.int64), 0
    for batch in baskets():
        rows += len(batch)
        if len(batch.codes):
            found = np.bincount(batch.codes.astype(np.int64))
            counts[: len(found)] += found
    return counts, rows


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some items, numbered from 0 in the order of `items`, among `size` items."""

    items: Integers
    size: int

    def __len__(self) -> int:
        return len(self.items)

    def places(self, batch: EncodedLists) -> tuple[Integers, Integers]:
        """Return the baskets and the numbers of the chosen items in them, in order."""
        number = np.full(self.size, -1, np.int64)
        number[self.items] = np.arange(len(self.items))
        found = number[batch.codes]
        own = np.flatnonzero(found >= 0)
        return batch.owners[own], found[own]


def pair_counts(baskets: Pass, chosen: Chosen) -> Integers:
    """Return the number of baskets with both items, for all pairs of the chosen items."""
    counts = np.zeros((len(chosen), len(chosen)), np.int64)
    for batch in baskets():
        owners, places = chosen.places(batch)
        lengths = np.bincount(owners, minlength=len(batch))
        if lengths @ lengths * _DENSER < len(batch) * len(chosen) ** 2:
            counts += _sparse_pairs(owners, places, counts.shape[0], len(batch))
        else:
            for table in _tables(owners, places, len(chosen), len(batch)):
                ones = table.astype(np.float32)  # sums are whole numbers of at most 2^15
                counts += (ones @ ones.T).astype(np.int64)
    return counts


def _sparse_pairs(owners: Integers, places: Integers, size: int, rows: int) -> Integers:
    from scipy.sparse import csr_matrix

    ones = np.ones(len(owners), np.int64)
    table = csr_matrix((ones, (owners, places)), shape=(rows, size))
    found: Integers = (table.T @ table).toarray()
    return found


def _tables(
    owners: Integers, places: Integers, size: int, rows: int
) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield which baskets have each of `size` items, in blocks of `_ROWS` baskets: a row for each
    item. Their number is rounded up to whole words of 16 bits.
    """
    for begin in range(0, rows, _ROWS):
        first, last = np.searchsorted(owners, [begin, begin + _ROWS])
        width = -(-min(_ROWS, rows - begin) // 16) * 16
        table = np.zeros((size, width), bool)
        table[places[first:last], owners[first:last] - begin] = True
        yield table


# --- the count of the k-th most frequent set -----------------------------------------------------


def frequent_count(baskets: Pass, counts: Integers, k: int) -> int:
    """Return the number of baskets with the k-th most frequent set of one or more items; 0 if fewer
    than k sets are in baskets. `counts` are those of the items.

    Sets are found level by level (Agrawal and Srikant, 1994). A set raises the k-th count only if
    it is more frequent than the k-th one so far; then so are all its subsets. So fewer than k sets
    of a level are kept.
    """
    items = np.sort(np.argsort(-counts, kind="stable")[:k])
    items = items[counts[items] > 0]
    best = _Best(k, counts[items])
    items = items[counts[items] > best.least]
    chosen = Chosen(items, len(counts))
    if len(items) < 2:
        return best.least
    together = pair_counts(baskets, chosen)
    level = np.argwhere(np.triu(together, 1) > 0)
    level = best.add(level, together[level[:, 0], level[:, 1]])
    blocks = BitBlocks(baskets, chosen)
    while len(level):
        larger = _joined(level)
        level = best.add(larger, blocks.counts(larger)) if len(larger) else larger
    return best.least


class _Best:
    """The k largest counts so far."""

    def __init__(self, k: int, counts: Integers) -> None:
        self._k = k
        self._counts = np.sort(counts)[::-1][:k]

    @property
    def least(self) -> int:
        """The k-th largest count, 0 if there are fewer."""
        return int(self._counts[-1]) if len(self._counts) == self._k else 0

    def add(self, sets: Integers, counts: Integers) -> Integers:
        """Add the counts of these sets, and return those more frequent than the k-th set then."""
        self._counts = np.sort(np.concatenate([self._counts, counts]))[::-1][: self._k]
        return sets[counts > self.least]


def _joined(level: Integers) -> Integers:
    """Return the sets with one item more all of whose subsets are in `level`, its rows ascending
    and in lexicographic order.
    """
    known = set(map(tuple, level.tolist()))
    starts = np.flatnonzero(np.r_[True, (level[1:, :-1] != level[:-1, :-1]).any(axis=1)])
    found = []
    for begin, end in zip(starts, [*starts[1:], len(level)], strict=True):
        head = tuple(level[begin, :-1].tolist())
        for pair in combinations(level[begin:end, -1].tolist(), 2):
            larger = (*head, *pair)
            if all(larger[:at] + larger[at + 1 :] in known for at in range(len(head))):
                found.append(larger)
    return np.array(found, np.int64).reshape(len(found), level.shape[1] + 1)


class BitBlocks:
    """The baskets as bits: one row for each chosen item, one bit for each basket of a block."""

    def __init__(self, baskets: Pass, chosen: Chosen) -> None:
        self._baskets, self._chosen = baskets, chosen
        self._kept: list[Bits] | None = None

    def counts(self, sets: Integers) -> Integers:
        """Return the number of baskets with all items of a set, for each row of `sets`."""
        found = np.zeros(len(sets), np.int64)
        for block in self._blocks():
            step = max(1, _TOGETHER // (2 * block.shape[1] + 1))
            for begin in range(0, len(sets), step):
                part = sets[begin : begin + step]
                both = block[part[:, 0]]
                for column in part.T[1:]:
                    both &= block[column]
                found[begin : begin + step] += _ones()[both].sum(axis=1, dtype=np.int64)
        return found

    def _blocks(self) -> Iterator[Bits]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Bits] | None = []
        for block in self._read():
            if kept is not None:
                kept.append(block)
                kept = kept if sum(each.nbytes for each in kept) <= _KEPT else None
            yield block
        self._kept = kept

    def _read(self) -> Iterator[Bits]:
        for batch in self._baskets():
            owners, places = self._chosen.places(batch)
            for table in _tables(owners, places, len(self._chosen), len(batch)):
                yield np.packbits(table, axis=1).view(np.uint16)


@lru_cache(maxsize=1)
def _ones() -> npt.NDArray[np.uint8]:
    """Return the number of ones among 16 bits, for all of them."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    found: npt.NDArray[np.uint8] = np.unpackbits(numbers, axis=1).sum(axis=1).astype(np.uint8)
    return found


# --- baskets with a limited number of items ------------------------------------------------------


def clipped_counts(
    baskets: Pass,
    chosen: Chosen,
    sets: Itemsets,
    words: Callable[[int], npt.NDArray[np.uint64]],
) -> tuple[Integers, int]:
    """Return the number of baskets with each of `sets`, and the number of baskets that had more
    than `sets.most` of the chosen items.

    From such a basket as many are kept at random, by one word of `words` for each of its items. The
    words of a basket decide about this basket only.
    """
    counts, clipped = np.zeros(sets.numbers, np.int64), 0
    for batch in baskets():
        owners, places = chosen.places(batch)
        kept, lengths = _kept(owners, len(batch), sets.most, words)
        clipped += int(np.count_nonzero(lengths > sets.most))
        places, lengths = places[kept], np.minimum(lengths, sets.most)
        counts[0] += len(batch)
        _add_sets(counts, sets, lengths, places)
    return counts, clipped


def kept_counts(
    baskets: Pass, size: int, most: int, words: Callable[[int], npt.NDArray[np.uint64]]
) -> Integers:
    """Return the number of baskets with each of `size` items, of which a basket keeps `most`."""
    counts = np.zeros(size, np.int64)
    for batch in baskets():
        kept, _ = _kept(batch.owners, len(batch), most, words)
        counts += np.bincount(batch.codes[kept].astype(np.int64), minlength=size)
    return counts


def hub_counts(
    baskets: Pass,
    chosen: Chosen,
    hubs: int,
    most: int,
    words: Callable[[int], npt.NDArray[np.uint64]],
) -> tuple[Integers, Integers]:
    """Return the tables over the first `hubs` items, of all baskets and of those with each other
    chosen item, and the numbers of baskets with 1, 2, ... items more than `most`.

    A basket keeps at most `most` of the other items. The last number counts those with `most` and
    still more items above the limit.
    """
    tables = np.zeros((1 + len(chosen) - hubs, 1 << hubs), np.int64)
    beyond = np.zeros(most, np.int64)
    for batch in baskets():
        owners, places = chosen.places(batch)
        hub = places < hubs
        cells = np.zeros(len(batch), np.int64)
        np.add.at(cells, owners[hub], 1 << places[hub])
        owners, places = owners[~hub], places[~hub]
        kept, lengths = _kept(owners, len(batch), most, words)
        more = np.minimum(lengths[lengths > most] - most, most)
        beyond += np.bincount(more - 1, minlength=most)
        tables[0] += np.bincount(cells, minlength=1 << hubs)
        numbers = (places[kept] - hubs << hubs) + cells[owners[kept]]
        found = np.bincount(numbers, minlength=tables[1:].size)
        tables[1:] += found.reshape(tables[1:].shape)
    return tables, beyond


def _kept(
    owners: Integers, rows: int, most: int, words: Callable[[int], npt.NDArray[np.uint64]]
) -> tuple[npt.NDArray[np.bool_], Integers]:
    """Return which elements are kept, at most `most` of an owner at random, and how many each owner
    had. One word decides about each element of a longer list.
    """
    lengths = np.bincount(owners, minlength=rows)
    own = (lengths > most)[owners]
    kept = np.ones(len(owners), bool)
    if own.any():
        kept[own] = smallest_words(owners[own], words(int(np.count_nonzero(own))), most)
    return kept, lengths


def smallest_words(
    owners: Integers, words: npt.NDArray[np.uint64], most: int
) -> npt.NDArray[np.bool_]:
    """Return which elements have one of the `most` smallest words of their owner. Owners ascend;
    of equal words the first are smaller.
    """
    kept = np.ones(len(owners), bool)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    lengths = np.diff(starts, append=len(owners))
    for length in np.unique(lengths[lengths > most]).tolist():
        places = starts[lengths == length][:, None] + np.arange(length)
        own = words[places]
        limit = np.partition(own, most - 1, axis=1)[:, most - 1 : most]
        chosen = own <= limit
        equal = np.flatnonzero(chosen.sum(axis=1) > most)  # about once in 2^64 baskets
        order = np.argsort(own[equal], axis=1, kind="stable")
        chosen[equal[:, None], order] = np.arange(length) < most
        kept[places] = chosen
    return kept


def _add_sets(counts: Integers, sets: Itemsets, lengths: Integers, places: Integers) -> None:
    """Add the subsets of every basket; `places` are the items of all baskets, ascending in each."""
    starts = np.cumsum(lengths) - lengths
    for length in np.unique(lengths[lengths > 0]).tolist():
        own = starts[lengths == length]
        items = np.sort(places[own[:, None] + np.arange(length)], axis=1)
        for size in range(1, min(length, sets.longest) + 1):
            for columns in combinations(range(length), size):
                numbers = set_places(sets, items[:, columns])
                if _FEW * len(numbers) < len(counts):
                    np.add.at(counts, numbers, 1)
                else:
                    counts += np.bincount(numbers, minlength=len(counts))
