"""Private choices about baskets: how many items matter, which ones, which pairs of them; and noisy
counts of small sets of items. Every method charges the budget account first.

A person has at most `unit.rows` baskets. Adding a basket raises the count of every item, pair and
set by 0 or 1, so that counts are monotone; replacing one is a removal and an addition. So all
choices use `unit.sensitivity`, which is twice the number of baskets if people are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property, partial
from math import comb, isqrt
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.hub_tables import HubTables, spread, walsh
from scumble.model.designs.lists.itemsets import Itemsets, sets_at, touched_sets
from scumble.model.errors import ParameterError, PromiseError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale
from scumble.private.tables.lists.kept import KeptLists

if TYPE_CHECKING:
    from scumble.model.schema.lists import EncodedLists
    from scumble.private.meter.itemsets import Chosen
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
        return 1 + self._one_of(-np.abs(falling - self._last(sets)), loss)

    def number_of_hubs(self, items: Integers, sets: int, most: int, loss: PrivacyLoss) -> int:
        """Return how many of the first of `items` are needed so that no two others are together in
        one of the `sets` most frequent sets, about; `most` + 1 if more than `most` are.

        All counts that the scores compare move in the same direction by at most the sensitivity,
        and so does each difference, in either direction.
        """
        self._charge("number of hubs", loss)
        from scumble.private.meter.itemsets import pair_counts

        together = pair_counts(self._baskets, self._chosen(items))
        scores = hub_scores(together, self._last(sets), most)
        return self._one_of(scores, loss)

    def top_items(self, number: int, loss: PrivacyLoss) -> Integers:
        """Return the codes of the `number` most frequent items after noise, in rising order."""
        self._charge("items", loss)
        places = np.flatnonzero(self._counts)
        found = self._top(places, self._counts[places], self.size, number, loss)
        return np.sort(found)

    def clipped_items(self, number: int, most: int, loss: PrivacyLoss) -> Integers:
        """Return the codes of the `number` most frequent items of clipped baskets, the most
        frequent first, after noise on the counts of all items.

        A basket keeps at most `most` of its items, at random. So it moves the counts by at most
        `most` in all, however many items are chosen.
        """
        law = noise_of_sets(self.unit, most, loss)
        self._charge("items", self._cost(law, most))
        from scumble.private.meter.itemsets import kept_counts

        counts = kept_counts(self._baskets, self.size, most, self._noise.source.words)
        self._noise.add(counts, law)
        return np.argsort(-counts, kind="stable")[:number]

    def top_pairs(self, items: Integers, number: int, loss: PrivacyLoss) -> Integers:
        """Return the `number` most frequent pairs of these items after noise, by the places of the
        two items in `items`.
        """
        self._charge("pairs", loss)
        from scumble.private.meter.itemsets import pair_counts

        counts = pair_counts(self._baskets, self._chosen(items))
        pairs = sets_at(len(items), 2, np.arange(comb(len(items), 2)))
        together = counts[pairs[:, 0], pairs[:, 1]]
        places = np.flatnonzero(together)
        return pairs[self._top(places, together[places], len(pairs), number, loss)]

    def counts(self, items: Integers, design: Itemsets) -> tuple[Integers, int]:
        """Return the noisy numbers of `design`, and the number of all baskets, which is private.

        One basket is in at most M sets, with the empty one, after it is clipped. A person changes
        the counts by at most sensitivity · M in all, and their squared length by M times that of
        one count. How a basket is clipped depends on this basket and on random words of its own.
        """
        for law in (design.noise, design.beyond):
            check_scale(law)
        touched = 1 + touched_sets(min(design.most, len(items)), design.longest)
        self._charge("sets of items", self._cost(design.noise, touched))
        self._charge("baskets with more items", self._cost(design.beyond, 1))
        from scumble.private.meter.itemsets import clipped_counts

        words = self._noise.source.words
        counts, clipped = clipped_counts(self._baskets, self._chosen(items), design, words)
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
        each = spread(design.hubs, design.by_cells)
        self._charge("tables of all baskets", self._cost(design.whole, each))
        self._charge("tables of items", self._cost(design.noise, design.most * each))
        self._charge("baskets with more items", self._cost(design.beyond, 1))
        from scumble.private.meter.itemsets import hub_counts

        chosen, words = self._chosen(items), self._noise.source.words
        tables, beyond = hub_counts(self._baskets, chosen, design.hubs, design.most, words)
        rows = int(tables[0].sum())
        if not design.by_cells:
            tables = walsh(tables)
        for place, (law, other) in enumerate(
            zip(design.laws(True), design.laws(False), strict=True)
        ):
            column = np.ascontiguousarray(tables[:, place])
            self._noise.add(column[:1], law)
            self._noise.add(column[1:], other)
            tables[:, place] = column
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
        numbers = np.array([sum(len(batch) for batch in self._baskets())])
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
        from scumble.private.meter.partitions import Part, basket_parts

        whole, change = Part(((0, self.size),), steps, fanout), self.unit.sensitivity
        found = basket_parts(self._baskets, self._noise, whole, change, false_parts)
        paid = [steps + counts, *(counts + part.left for part in found.parts)]
        laws = [DiscreteLaplace(change / each) for each in paid]
        empty = sum(int(np.count_nonzero(batch.lengths == 0)) for batch in self._baskets())
        numbers = np.insert(found.numbers, 0, empty)
        for law in dict.fromkeys(laws):
            own = np.flatnonzero([each == law for each in laws])
            noisy = numbers[own]
            self._noise.add(noisy, law)
            numbers[own] = noisy
        codes = [np.array([item for item, _ in part.cut], np.int64) for part in found.parts]
        return [np.empty(0, np.int64), *codes], laws, numbers

    def _last(self, sets: int) -> int:
        """Return the count of the last of the `sets` most frequent sets of items."""
        from scumble.private.meter.itemsets import frequent_count

        if sets not in self._lasts:
            self._lasts[sets] = frequent_count(self._baskets, self._counts, sets)
        return self._lasts[sets]

    def _one_of(self, scores: Integers, loss: PrivacyLoss) -> int:
        """Return the place of a large score; the scores are not monotone."""
        change = self.unit.sensitivity
        if loss.pure:
            return self._noise.one_of(scores, loss.epsilon / (2 * change))
        from scumble.private.sampling.top import Candidates

        epsilon = choice_epsilon(1, loss.rho)
        chosen = self._noise.picks(
            Candidates.listed(scores), 1, sensitivity=change, epsilon=epsilon, monotone=False
        )
        return int(chosen[0])

    def _cost(self, law: NoiseLaw, touched: int | Fraction) -> PrivacyLoss:
        if isinstance(law, DiscreteLaplace):
            return PrivacyLoss(self.unit.sensitivity * touched / law.scale)
        square = self.unit.squared_sensitivity(nonnegative_gram=True)
        return PrivacyLoss(rho=square * touched / (2 * law.parameter))

    def _top(
        self, places: npt.NDArray[np.intp], scores: Integers, size: int, k: int, loss: PrivacyLoss
    ) -> Integers:
        from scumble.private.sampling.top import Candidates

        candidates = Candidates(places.astype(np.uint64), scores, size)
        change = self.unit.sensitivity
        if loss.pure:
            found = self._noise.top(candidates, k, sensitivity=change, epsilon=loss.epsilon)
        else:
            epsilon = choice_epsilon(k, loss.rho)
            found = self._noise.picks(candidates, k, sensitivity=change, epsilon=epsilon)
        return found.astype(np.int64)

    def _charge(self, what: str, loss: PrivacyLoss) -> None:
        self._table._account.charge(f"{what} of {self.name}", loss)

    def _baskets(self) -> Iterator[EncodedLists]:
        return iter(self._lists)

    def _chosen(self, items: Integers) -> Chosen:
        from scumble.private.meter.itemsets import Chosen

        return Chosen(items, self.size)

    @cached_property
    def _counts(self) -> Integers:
        from scumble.private.meter.itemsets import item_counts

        return item_counts(self._baskets, self.size)[0]


def hub_scores(together: Integers, last: int, most: int) -> Integers:
    """Return the scores of 0 to `most` hubs and of more, given the counts of all pairs of items.

    Let p_h be the count of the most frequent pair of items after the first h, and c = `last`. The
    score of h is -max(p_h - c, c - p_(h-1), 0): it is 0 where p falls from above c to below. The
    first has no p_(h-1), and the last no p_h.

    >>> hub_scores(np.array([[9, 8, 7], [8, 9, 2], [7, 2, 9]]), 5, 1)
    array([-3,  0, -3])
    """
    pairs = np.triu(together, 1)
    found = np.array([pairs[h:, h:].max(initial=0) for h in range(most + 1)], np.int64)
    above = (found - last).clip(0)
    below = (last - found).clip(0)
    scores: Integers = -np.maximum(np.append(above, 0), np.insert(below, 0, 0))
    return scores


def choice_epsilon(k: int, rho: Fraction) -> Fraction:
    """Return the ε of each of k choices by the exponential mechanism that cost ρ together: the
    largest multiple of 2^-40 with k · ε²/8 <= ρ.
    """
    square = 8 * rho / k * _GRID**2
    found = Fraction(isqrt(square.numerator // square.denominator), _GRID)
    if not found:
        raise ParameterError("The epsilon is too small for so many choices; allow a larger one.")
    return found


def noise_of_sets(unit: PrivacyUnit, touched: int | Fraction, loss: PrivacyLoss) -> NoiseLaw:
    """Return the noise of counts of which one basket changes `touched`, for this loss."""
    if loss.pure:
        return DiscreteLaplace(unit.sensitivity * touched / loss.epsilon)
    square = unit.squared_sensitivity(nonnegative_gram=True)
    return DiscreteGaussian(square * touched / (2 * loss.rho))
