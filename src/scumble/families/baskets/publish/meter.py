"""Private choices about baskets: how many items matter, which ones, which pairs of them; and noisy
counts of small sets of items. Every method charges the budget account first.

A person has at most `unit.rows` baskets. Adding a basket raises the count of every item, pair and
set by 0 or 1, so that counts are monotone; replacing one is a removal and an addition. So all
choices use `unit.sensitivity`, which is twice the number of baskets if people are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.families.baskets.design import (
    HubTables,
    Itemsets,
    count_touched,
    set_places,
    sets_at,
    spread,
    walsh,
)
from scumble.model.errors import PromiseError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.model.schema.lists import EncodedLists
from scumble.private.meter.grow import ChildNumbers, Threshold
from scumble.private.meter.noise import NoisySteps, check_scale, choice_epsilon
from scumble.private.sampling.top import Candidates
from scumble.private.tables.counter import summed_cells
from scumble.private.tables.list_spool import KeptLists

if TYPE_CHECKING:
    from scumble.model.schema.lists import EncodedLists
    from scumble.private.meter.table import PrivateTable


Integers = npt.NDArray[np.int64]

_GRID = 1 << 40  # the ε of a choice is rounded down to multiples of 2^-40


class PrivateBaskets:
    """The sets of the attribute `name`, of which only charged measurements are returned."""

    def __init__(self, table: PrivateTable, name: str, unit: PrivacyUnit) -> None:
        self.name, self.unit = name, unit
        self.size = table.schema[name].lists.members.size
        self._table = table
        self._noise = table._noise
        self._lasts: dict[int, int] = {}
        self._lists = KeptLists(partial(table._counter.lists, name, unit))

    def number_of_items(self, sets: int, loss: PrivacyLoss) -> int:
        """Return how many items the `sets` most frequent sets of items have, about.

        The candidates are 1 to `sets` items. The score of j is -|c_j - c|, with the count c_j of
        the j-th most frequent item and the count c of the last of the sets: the items of frequent
        sets are at least as frequent. Both counts move in the same direction by at most the
        sensitivity, and so does their difference, in either direction: the scores are not monotone.
        """
        self._charge("number of items", loss)
        falling = np.sort(self._counts)[::-1][: min(sets, self.size)]
        return 1 + self._choose_one(-np.abs(falling - self._find_last(sets)), loss)

    def number_of_hubs(self, items: Integers, sets: int, most: int, loss: PrivacyLoss) -> int:
        """Return how many of the first of `items` are needed so that no two others are together in
        one of the `sets` most frequent sets, about; `most` + 1 if more than `most` are.

        All counts that the scores compare move in the same direction by at most the sensitivity,
        and so does each difference, in either direction.
        """
        self._charge("number of hubs", loss)
        together = count_pairs(self._read_baskets, self._select_items(items))
        scores = score_hubs(together, self._find_last(sets), most)
        return self._choose_one(scores, loss)

    def choose_items(self, number: int, loss: PrivacyLoss) -> Integers:
        """Return the codes of the `number` most frequent items after noise, in rising order."""
        self._charge("items", loss)
        places = np.flatnonzero(self._counts)
        chosen = self._choose_top(places, self._counts[places], self.size, number, loss)
        return np.sort(chosen)

    def choose_clipped_items(self, number: int, most: int, loss: PrivacyLoss) -> Integers:
        """Return the codes of the `number` most frequent items of clipped baskets, the most
        frequent first, after noise on the counts of all items.

        A basket keeps at most `most` of its items, at random. So it moves the counts by at most
        `most` in all, however many items are chosen.
        """
        law = noise_of_sets(self.unit, most, loss)
        self._charge("items", self._compute_cost(law, most))
        counts = count_kept(self._read_baskets, self.size, most, self._noise.source.words)
        self._noise.add(counts, law)
        chosen = np.argsort(-counts, kind="stable")[:number]
        self._noise.decide(chosen, law)
        return chosen

    def choose_pairs(self, items: Integers, number: int, loss: PrivacyLoss) -> Integers:
        """Return the `number` most frequent pairs of these items after noise, by the places of the
        two items in `items`.
        """
        self._charge("pairs", loss)
        counts = count_pairs(self._read_baskets, self._select_items(items))
        pairs = sets_at(len(items), 2, np.arange(comb(len(items), 2)))
        together = counts[pairs[:, 0], pairs[:, 1]]
        places = np.flatnonzero(together)
        return pairs[self._choose_top(places, together[places], len(pairs), number, loss)]

    def counts(self, items: Integers, design: Itemsets) -> tuple[Integers, int]:
        """Return the noisy numbers of `design`, and the number of all baskets, which is private.

        One basket is in at most M sets, with the empty one, after it is clipped. A person changes
        the counts by at most sensitivity · M in all, and their squared length by M times that of
        one count. How a basket is clipped depends on this basket and on random words of its own.
        """
        for law in (design.noise, design.beyond):
            check_scale(law)
        touched = 1 + count_touched(min(design.most, len(items)), design.longest)
        self._charge("sets of items", self._compute_cost(design.noise, touched))
        self._charge("baskets with more items", self._compute_cost(design.beyond, 1))
        words = self._noise.source.words
        counts, clipped = count_clipped(
            self._read_baskets, self._select_items(items), design, words
        )
        rows = int(counts[0])
        beyond = np.array([clipped])
        self._noise.add(counts, design.noise)
        self._noise.add(beyond, design.beyond)
        return np.concatenate([counts, beyond]), rows

    def hub_tables(self, items: Integers, design: HubTables) -> tuple[Integers, int]:
        """Return the noisy numbers of `design`, and the number of all baskets, which is private.

        One basket is in one cell of the table of all baskets and of at most `most` others, and in
        one number of clipped baskets.
        """
        for law in (design.noise, design.whole, design.beyond):
            check_scale(law)
        per_table = spread(design.hubs, design.by_cells)
        self._charge("tables of all baskets", self._compute_cost(design.whole, per_table))
        self._charge("tables of items", self._compute_cost(design.noise, design.most * per_table))
        self._charge("baskets with more items", self._compute_cost(design.beyond, 1))
        chosen, words = self._select_items(items), self._noise.source.words
        tables, beyond = count_hubs(self._read_baskets, chosen, design.hubs, design.most, words)
        rows = int(tables[0].sum())
        if not design.by_cells:
            tables = walsh(tables)
        for cell, (law, other) in enumerate(
            zip(design.laws(True), design.laws(False), strict=True)
        ):
            column = np.ascontiguousarray(tables[:, cell])
            self._noise.add(column[:1], law)
            self._noise.add(column[1:], other)
            tables[:, cell] = column
        self._noise.add(beyond, design.beyond)
        return np.concatenate([tables.reshape(-1), beyond]), rows

    def number(self, law: DiscreteLaplace | None) -> int:
        """Return the number of baskets with noise of `law`; without, if neighbouring tables have
        equally many baskets.
        """
        if law is not None:
            check_scale(law)
            self._charge("number", PrivacyLoss(self.unit.rows / law.scale))
        elif not self._table.keeps_rows(self.unit):
            raise PromiseError("The number of baskets differs between neighbouring tables.")
        numbers = np.array([sum(len(batch) for batch in self._read_baskets())])
        if law is not None:
            self._noise.add(numbers, law)
        return int(numbers[0])

    def whole(
        self, fanout: int, false_parts: float, *, steps: Fraction, counts: Fraction
    ) -> tuple[list[Integers], list[DiscreteLaplace], Integers]:
        """Return the empty basket and those that all steps down a taxonomy let pass, as codes, the
        law of the noise of each, and their noisy counts.

        A basket costs at most `steps` on its way. Its count has the ε `counts`, and what its steps
        left. All parts of one level are disjoint, and so are all whole baskets. The empty basket is
        in no part, so that its count has all of the ε.
        """
        self._charge("whole baskets", PrivacyLoss(steps + counts))
        whole, change = PaidCut(((0, self.size),), steps, fanout), self.unit.sensitivity
        whole_parts = basket_parts(self._read_baskets, self._noise, whole, change, false_parts)
        paid = [steps + counts, *(counts + part.left for part in whole_parts.parts)]
        laws = [DiscreteLaplace(change / epsilon) for epsilon in paid]
        empty = sum(int(np.count_nonzero(batch.lengths == 0)) for batch in self._read_baskets())
        numbers = np.insert(whole_parts.numbers, 0, empty)
        for law in dict.fromkeys(laws):
            own = np.flatnonzero([other == law for other in laws])
            noisy = numbers[own]
            self._noise.add(noisy, law)
            numbers[own] = noisy
        codes = [np.array([item for item, _ in part.cut], np.int64) for part in whole_parts.parts]
        return [np.empty(0, np.int64), *codes], laws, numbers

    def _find_last(self, sets: int) -> int:
        """Return the count of the last of the `sets` most frequent sets of items."""
        if sets not in self._lasts:
            self._lasts[sets] = count_frequent(self._read_baskets, self._counts, sets)
        return self._lasts[sets]

    def _choose_one(self, scores: Integers, loss: PrivacyLoss) -> int:
        """Return the place of a large score; the scores are not monotone."""
        change = self.unit.sensitivity
        if loss.pure:
            return self._noise.one_of(scores, loss.epsilon / (2 * change))
        epsilon = choice_epsilon(1, loss.rho)
        chosen = self._noise.picks(
            Candidates.listed(scores), 1, sensitivity=change, epsilon=epsilon, monotone=False
        )
        return int(chosen[0])

    def _compute_cost(self, law: NoiseLaw, touched: int | Fraction) -> PrivacyLoss:
        if isinstance(law, DiscreteLaplace):
            return PrivacyLoss(self.unit.sensitivity * touched / law.scale)
        square = self.unit.squared_sensitivity(nonnegative_gram=True)
        return PrivacyLoss(rho=square * touched / (2 * law.parameter))

    def _choose_top(
        self, places: npt.NDArray[np.intp], scores: Integers, size: int, k: int, loss: PrivacyLoss
    ) -> Integers:
        candidates = Candidates(places.astype(np.uint64), scores, size)
        change = self.unit.sensitivity
        if loss.pure:
            chosen = self._noise.top(candidates, k, sensitivity=change, epsilon=loss.epsilon)
        else:
            epsilon = choice_epsilon(k, loss.rho)
            chosen = self._noise.picks(candidates, k, sensitivity=change, epsilon=epsilon)
        return chosen.astype(np.int64)

    def _charge(self, what: str, loss: PrivacyLoss) -> None:
        self._table._account.charge(f"{what} of {self.name}", loss)

    def _read_baskets(self) -> Iterator[EncodedLists]:
        return iter(self._lists)

    def _select_items(self, items: Integers) -> SelectedItems:
        return SelectedItems(items, self.size)

    @cached_property
    def _counts(self) -> Integers:
        return count_items(self._read_baskets, self.size)[0]


def score_hubs(together: Integers, last: int, most: int) -> Integers:
    """Return the scores of 0 to `most` hubs and of more, given the counts of all pairs of items.

    Let p_h be the count of the most frequent pair of items after the first h, and c = `last`. The
    score of h is -max(p_h - c, c - p_(h-1), 0): it is 0 where p falls from above c to below. The
    first has no p_(h-1), and the last no p_h.

    >>> score_hubs(np.array([[9, 8, 7], [8, 9, 2], [7, 2, 9]]), 5, 1)
    array([-3,  0, -3])
    """
    pairs = np.triu(together, 1)
    largest = np.array([pairs[h:, h:].max(initial=0) for h in range(most + 1)], np.int64)
    above = (largest - last).clip(0)
    below = (last - largest).clip(0)
    scores: Integers = -np.maximum(np.append(above, 0), np.insert(below, 0, 0))
    return scores


def noise_of_sets(unit: PrivacyUnit, touched: int | Fraction, loss: PrivacyLoss) -> NoiseLaw:
    """Return the noise of counts of which one basket changes `touched`, for this loss."""
    if loss.pure:
        return DiscreteLaplace(unit.sensitivity * touched / loss.epsilon)
    square = unit.squared_sensitivity(nonnegative_gram=True)
    return DiscreteGaussian(square * touched / (2 * loss.rho))


# --- itemsets -------------------------------------------------------------------------------------
#
# Exact counts of items, pairs and sets of items in baskets; only this folder uses them.
#
# Baskets pass batch by batch, several times. Memory does not depend on their number: bits that are
# kept between two passes are limited, and beyond the limit they are made again.

Bits = npt.NDArray[np.uint16]
Pass = Callable[[], Iterator[EncodedLists]]

_ROWS = 1 << 15  # baskets of a block of bits
_KEPT = 1 << 27  # bytes of blocks that are kept for the next pass
_TOGETHER = 1 << 24  # bytes of bits of sets that are counted together
_DENSER = 64  # times as fast are products of full matrices, for each product of two numbers
_FEW = 4  # a sum over few numbers takes as long as over so many sums


def count_items(baskets: Pass, size: int) -> tuple[Integers, int]:
    """Return the number of baskets with each of `size` items, and the number of all baskets."""
    counts, rows = np.zeros(size, np.int64), 0
    for batch in baskets():
        rows += len(batch)
        if len(batch.codes):
            batch_counts = np.bincount(batch.codes.astype(np.int64))
            counts[: len(batch_counts)] += batch_counts
    return counts, rows


@dataclass(frozen=True, eq=False)
class SelectedItems:
    """Some items, numbered from 0 in the order of `items`, among `size` items."""

    items: Integers
    size: int

    def __len__(self) -> int:
        return len(self.items)

    def places(self, batch: EncodedLists) -> tuple[Integers, Integers]:
        """Return the baskets and the numbers of the chosen items in them, in order."""
        number = np.full(self.size, -1, np.int64)
        number[self.items] = np.arange(len(self.items))
        numbers = number[batch.codes]
        own = np.flatnonzero(numbers >= 0)
        return batch.owners[own], numbers[own]


def count_pairs(baskets: Pass, chosen: SelectedItems) -> Integers:
    """Return the number of baskets with both items, for all pairs of the chosen items."""
    counts = np.zeros((len(chosen), len(chosen)), np.int64)
    for batch in baskets():
        owners, places = chosen.places(batch)
        lengths = np.bincount(owners, minlength=len(batch))
        if lengths @ lengths * _DENSER < len(batch) * len(chosen) ** 2:
            counts += _count_sparse_pairs(owners, places, counts.shape[0], len(batch))
        else:
            for table in _make_tables(owners, places, len(chosen), len(batch)):
                ones = table.astype(np.float32)  # sums are whole numbers of at most 2^15
                counts += (ones @ ones.T).astype(np.int64)
    return counts


def _count_sparse_pairs(owners: Integers, places: Integers, size: int, rows: int) -> Integers:
    from scipy.sparse import csr_matrix

    ones = np.ones(len(owners), np.int64)
    table = csr_matrix((ones, (owners, places)), shape=(rows, size))
    counts: Integers = (table.T @ table).toarray()
    return counts


def _make_tables(
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


def count_frequent(baskets: Pass, counts: Integers, k: int) -> int:
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
    chosen = SelectedItems(items, len(counts))
    if len(items) < 2:
        return best.least
    together = count_pairs(baskets, chosen)
    level = np.argwhere(np.triu(together, 1) > 0)
    level = best.add(level, together[level[:, 0], level[:, 1]])
    blocks = BitBlocks(baskets, chosen)
    while len(level):
        larger = _join_sets(level)
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


def _join_sets(level: Integers) -> Integers:
    """Return the sets with one item more all of whose subsets are in `level`, its rows ascending
    and in lexicographic order.
    """
    known = set(map(tuple, level.tolist()))
    starts = np.flatnonzero(np.r_[True, (level[1:, :-1] != level[:-1, :-1]).any(axis=1)])
    sets = []
    for begin, end in zip(starts, [*starts[1:], len(level)], strict=True):
        head = tuple(level[begin, :-1].tolist())
        for pair in combinations(level[begin:end, -1].tolist(), 2):
            larger = (*head, *pair)
            if all(larger[:at] + larger[at + 1 :] in known for at in range(len(head))):
                sets.append(larger)
    return np.array(sets, np.int64).reshape(len(sets), level.shape[1] + 1)


class BitBlocks:
    """The baskets as bits: one row for each chosen item, one bit for each basket of a block."""

    def __init__(self, baskets: Pass, chosen: SelectedItems) -> None:
        self._baskets, self._chosen = baskets, chosen
        self._kept: list[Bits] | None = None

    def counts(self, sets: Integers) -> Integers:
        """Return the number of baskets with all items of a set, for each row of `sets`."""
        counts = np.zeros(len(sets), np.int64)
        for block in self._read_blocks():
            step = max(1, _TOGETHER // (2 * block.shape[1] + 1))
            for begin in range(0, len(sets), step):
                part = sets[begin : begin + step]
                both = block[part[:, 0]]
                for column in part.T[1:]:
                    both &= block[column]
                counts[begin : begin + step] += _count_ones()[both].sum(axis=1, dtype=np.int64)
        return counts

    def _read_blocks(self) -> Iterator[Bits]:
        if self._kept is not None:
            yield from self._kept
            return
        blocks: list[Bits] | None = []
        for block in self._read():
            if blocks is not None:
                blocks.append(block)
                blocks = (
                    blocks if sum(kept_block.nbytes for kept_block in blocks) <= _KEPT else None
                )
            yield block
        self._kept = blocks

    def _read(self) -> Iterator[Bits]:
        for batch in self._baskets():
            owners, places = self._chosen.places(batch)
            for table in _make_tables(owners, places, len(self._chosen), len(batch)):
                yield np.packbits(table, axis=1).view(np.uint16)


@lru_cache(maxsize=1)
def _count_ones() -> npt.NDArray[np.uint8]:
    """Return the number of ones among 16 bits, for all of them."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    ones: npt.NDArray[np.uint8] = np.unpackbits(numbers, axis=1).sum(axis=1).astype(np.uint8)
    return ones


# --- baskets with a limited number of items ------------------------------------------------------


def count_clipped(
    baskets: Pass,
    chosen: SelectedItems,
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
        keep, lengths = _choose_kept(owners, len(batch), sets.most, words)
        clipped += int(np.count_nonzero(lengths > sets.most))
        places, lengths = places[keep], np.minimum(lengths, sets.most)
        counts[0] += len(batch)
        _add_sets(counts, sets, lengths, places)
    return counts, clipped


def count_kept(
    baskets: Pass, size: int, most: int, words: Callable[[int], npt.NDArray[np.uint64]]
) -> Integers:
    """Return the number of baskets with each of `size` items, of which a basket keeps `most`."""
    counts = np.zeros(size, np.int64)
    for batch in baskets():
        keep, _ = _choose_kept(batch.owners, len(batch), most, words)
        counts += np.bincount(batch.codes[keep].astype(np.int64), minlength=size)
    return counts


def count_hubs(
    baskets: Pass,
    chosen: SelectedItems,
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
        keep, lengths = _choose_kept(owners, len(batch), most, words)
        more = np.minimum(lengths[lengths > most] - most, most)
        beyond += np.bincount(more - 1, minlength=most)
        tables[0] += np.bincount(cells, minlength=1 << hubs)
        numbers = (places[keep] - hubs << hubs) + cells[owners[keep]]
        other_counts = np.bincount(numbers, minlength=tables[1:].size)
        tables[1:] += other_counts.reshape(tables[1:].shape)
    return tables, beyond


def _choose_kept(
    owners: Integers, rows: int, most: int, words: Callable[[int], npt.NDArray[np.uint64]]
) -> tuple[npt.NDArray[np.bool_], Integers]:
    """Return which elements are kept, at most `most` of an owner at random, and how many each owner
    had. One word decides about each element of a longer list.
    """
    lengths = np.bincount(owners, minlength=rows)
    own = (lengths > most)[owners]
    keep = np.ones(len(owners), bool)
    if own.any():
        keep[own] = smallest_words(owners[own], words(int(np.count_nonzero(own))), most)
    return keep, lengths


def smallest_words(
    owners: Integers, words: npt.NDArray[np.uint64], most: int
) -> npt.NDArray[np.bool_]:
    """Return which elements have one of the `most` smallest words of their owner. Owners ascend;
    of equal words the first are smaller.
    """
    keep = np.ones(len(owners), bool)
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
        keep[places] = chosen
    return keep


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


# --- partitions -----------------------------------------------------------------------------------
#
# Parts of baskets that agree on some groups of items, refined down a taxonomy until a part is one
# whole basket (DiffPart). Parts without baskets are drawn lazily, as the children in `grow`.
#
# The taxonomy is public: consecutive items in groups of `fanout`, groups of such groups, and so on.
# A part is a *cut*: disjoint groups, such that its baskets have items of each of them and no
# others. A step opens the largest group of a cut; a basket goes to the subset of the smaller groups
# that it has items of.

Group = tuple[int, int]  # the first item, and the one after the last

MOST_PARTS = 1 << 18


def split_group(group: Group, fanout: int) -> list[Group]:
    """Return the groups that a group consists of, at most `fanout`; none if it is one item.

    >>> split_group((0, 10), 3)
    [(0, 9), (9, 10)]
    """
    begin, end = group
    width = 1
    while width * fanout < end - begin:
        width *= fanout
    groups = [(at, min(at + width, end)) for at in range(begin, end, width)]
    return groups if len(groups) > 1 else []


@lru_cache(maxsize=1 << 12)
def count_openings(items: int, fanout: int) -> int:
    """Return the number of groups to open in a group of so many items, down to single items.

    >>> count_openings(9, 3)
    4
    """
    inside = split_group((0, items), fanout)
    return sum(count_openings(end - begin, fanout) for begin, end in inside) + bool(inside)


@dataclass(frozen=True)
class PaidCut:
    """A cut, in order, and the ε that is `left` for steps below it."""

    cut: tuple[Group, ...]
    left: Fraction
    fanout: int

    @cached_property
    def opened(self) -> Group:
        """The largest group, the first of several."""
        return max(self.cut, key=lambda group: (group[1] - group[0], -group[0]))

    @cached_property
    def groups(self) -> list[Group]:
        """The groups that the largest one consists of."""
        return split_group(self.opened, self.fanout)

    @property
    def paid(self) -> Fraction:
        """The ε of the next step: what is left, divided by the most steps that may follow."""
        steps = sum(count_openings(end - begin, self.fanout) for begin, end in self.cut)
        return Fraction(self.left * _GRID // steps, _GRID)

    def with_groups(self, subset: int) -> PaidCut:
        """Return the part of the baskets with items of these groups, given as bits."""
        chosen = [group for bit, group in enumerate(self.groups) if subset >> bit & 1]
        others = [group for group in self.cut if group != self.opened]
        return PaidCut(tuple(sorted([*others, *chosen])), self.left - self.paid, self.fanout)


@dataclass(frozen=True, eq=False)
class WholeParts:
    """Parts that are one basket each, and the private numbers of their baskets."""

    parts: list[PaidCut]
    numbers: Integers


def basket_parts(
    baskets: Callable[[], Iterator[EncodedLists]],
    noise: NoisySteps,
    whole: PaidCut,
    sensitivity: int,
    false_parts: float,
) -> WholeParts:
    """Return the parts that are one basket and that passed all steps from `whole`, which has all
    items; the numbers of their baskets are private.

    The loss of all steps is at most `whole.left`, if a person changes `sensitivity` baskets: a
    basket is in one part of each level, which is opened with noise of scale sensitivity / paid, and
    the ε of the steps on its way add up to at most `whole.left`. Each step lets pass at most
    `false_parts` parts in the mean, if no basket is in it.
    """
    parts, places = [whole], _Places(baskets)
    whole_parts: list[PaidCut] = []
    numbers: list[int] = []
    made = 0
    while parts and made < MOST_PARTS:
        children = places.children(parts)
        passed = _draw_passed(parts, children, noise, sensitivity, false_parts)
        made += len(passed)
        width = whole.fanout
        below = [parts[key >> width].with_groups(key & ((1 << width) - 1)) for key in passed]
        single = np.array([not part.groups for part in below], bool)
        at = np.array(passed, np.int64)
        places.move(at[~single])
        counted = dict(zip(children.keys.tolist(), children.numbers.tolist(), strict=True))
        numbers += [counted.get(key, 0) for key in at[single].tolist()]
        whole_parts += [part for part, is_single in zip(below, single, strict=True) if is_single]
        parts = [part for part, is_single in zip(below, single, strict=True) if not is_single]
    return WholeParts(whole_parts, np.array(numbers, np.int64))


def _draw_passed(
    parts: list[PaidCut],
    children: ChildNumbers,
    noise: NoisySteps,
    sensitivity: int,
    false_parts: float,
) -> list[int]:
    """Return the keys of the parts that pass; steps with equal noise are drawn together."""
    width = parts[0].fanout
    together: dict[tuple[Fraction, int], list[int]] = {}
    for number, part in enumerate(parts):
        together.setdefault((part.paid, 2 ** len(part.groups) - 1), []).append(number)
    owner, subset = children.keys >> width, children.keys & ((1 << width) - 1)
    passed: list[int] = []
    for (paid, subsets), members in together.items():
        level = Threshold.for_fanout(DiscreteLaplace(sensitivity / paid), subsets, false_parts)
        check_scale(level.law)
        own = np.array(members)
        rank = np.minimum(np.searchsorted(own, owner), len(own) - 1)
        mine = own[rank] == owner
        keys = rank[mine] * subsets + subset[mine] - 1
        shift = 1 - level.theta  # number + noise ≥ θ is number - θ + 1 + noise > 0
        size = len(members) * subsets
        chosen = noise.split_children(keys, children.numbers[mine] + shift, level.law, shift, size)
        passed += ((own[chosen // subsets] << width) + chosen % subsets + 1).tolist()
    return sorted(passed)


class _Places:
    """The part of every basket: a number for each. Each step is one more pass over the baskets."""

    def __init__(self, baskets: Callable[[], Iterator[EncodedLists]]) -> None:
        self._baskets = baskets
        self._part: npt.NDArray[np.int32] | None = None  # all in part 0
        self._keys: list[Integers] = []

    def children(self, parts: list[PaidCut]) -> ChildNumbers:
        """Return the numbers of baskets by part and subset of the groups that it opens."""
        width = parts[0].fanout
        begin, end = np.array([part.opened for part in parts]).T
        size = np.array([part.groups[0][1] - part.groups[0][0] for part in parts])
        self._keys = []

        def keys() -> Iterator[tuple[Integers, Integers]]:
            first = 0
            for batch in self._baskets():
                last = first + len(batch)
                part = (
                    np.zeros(len(batch), np.int32) if self._part is None else self._part[first:last]
                )
                first = last
                own = part[batch.owners]
                code = batch.codes.astype(np.int64)
                inside = (own >= 0) & (begin[own] <= code) & (code < end[own])
                own, code = own[inside], code[inside]
                subset = np.zeros(len(batch), np.int64)
                bits = np.left_shift(1, (code - begin[own]) // size[own])
                np.bitwise_or.at(subset, batch.owners[inside], bits)
                child_keys = np.where(subset > 0, (part.astype(np.int64) << width) + subset, -1)
                self._keys.append(child_keys)
                there = child_keys[child_keys >= 0]
                yield there, np.ones(len(there), np.int64)

        return ChildNumbers(*summed_cells(keys(), len(parts) << width))

    def move(self, passed: Integers) -> None:
        """Send every basket to the part of its key among `passed`, or to none."""
        parts = [_find_among(passed, keys) for keys in self._keys]
        self._part = np.concatenate([np.empty(0, np.int32), *parts])
        self._keys = []


def _find_among(passed: Integers, keys: Integers) -> npt.NDArray[np.int32]:
    """Return the place of each key among `passed`, which are sorted; -1 for those that are not."""
    at = np.minimum(np.searchsorted(passed, keys), max(len(passed) - 1, 0))
    hit = passed[at] == keys if len(passed) else np.zeros(len(keys), bool)
    return np.where(hit, at, -1).astype(np.int32)
