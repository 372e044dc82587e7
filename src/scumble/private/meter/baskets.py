"""Private choices about baskets: how many items matter, which ones, which pairs of them; and noisy
counts of small sets of items. Every method charges the budget account first.

A person has at most `unit.rows` baskets. Adding a basket raises the count of every item, pair and
set by 0 or 1, so that counts are monotone; replacing one is a removal and an addition. So all
choices use `unit.sensitivity`, which is twice the number of baskets if people are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import comb, isqrt
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.itemsets import Itemsets, sets_at, touched_sets
from scumble.model.errors import ParameterError, PromiseError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale

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

    def number_of_items(self, sets: int, loss: PrivacyLoss) -> int:
        """Return how many items the `sets` most frequent sets of items have, about.

        The candidates are 1 to `sets` items. The score of j is -|c_j - c|, with the count c_j of
        the j-th most frequent item and the count c of the last of the sets: the items of frequent
        sets are at least as frequent. Both counts move in the same direction by at most the
        sensitivity, and so does their difference, in either direction: the scores are not monotone.
        """
        self._charge("number of items", loss)
        from scumble.private.meter.itemsets import frequent_count

        most = min(sets, self.size)
        last = frequent_count(self._baskets, self._counts, sets)
        falling = np.sort(self._counts)[::-1][:most]
        scores = -np.abs(falling - last)
        change = self.unit.sensitivity
        if loss.pure:
            return 1 + self._noise.one_of(scores, loss.epsilon / (2 * change))
        from scumble.private.sampling.top import Candidates

        epsilon = choice_epsilon(1, loss.rho)
        chosen = self._noise.picks(
            Candidates.listed(scores), 1, sensitivity=change, epsilon=epsilon, monotone=False
        )
        return 1 + int(chosen[0])

    def top_items(self, number: int, loss: PrivacyLoss) -> Integers:
        """Return the codes of the `number` most frequent items after noise, in rising order."""
        self._charge("items", loss)
        places = np.flatnonzero(self._counts)
        found = self._top(places, self._counts[places], self.size, number, loss)
        return np.sort(found)

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
        """Return the baskets that all steps down a taxonomy let pass, as codes, the law of the
        noise of each, and their noisy counts.

        A basket costs at most `steps` on its way. Its count has the ε `counts`, and what its steps
        left. All parts of one level are disjoint, and so are all whole baskets.
        """
        self._charge("whole baskets", PrivacyLoss(steps + counts))
        from scumble.private.meter.partitions import Part, basket_parts

        whole, change = Part(((0, self.size),), steps, fanout), self.unit.sensitivity
        found = basket_parts(self._baskets, self._noise, whole, change, false_parts)
        laws = [DiscreteLaplace(change / (counts + part.left)) for part in found.parts]
        numbers = found.numbers
        for law in dict.fromkeys(laws):
            own = np.flatnonzero([each == law for each in laws])
            noisy = numbers[own]
            self._noise.add(noisy, law)
            numbers[own] = noisy
        return [np.array([item for item, _ in part.cut]) for part in found.parts], laws, numbers

    def _cost(self, law: NoiseLaw, touched: int) -> PrivacyLoss:
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
        return self._table._counter.lists(self.name, self.unit)

    def _chosen(self, items: Integers) -> Chosen:
        from scumble.private.meter.itemsets import Chosen

        return Chosen(items, self.size)

    @cached_property
    def _counts(self) -> Integers:
        from scumble.private.meter.itemsets import item_counts

        return item_counts(self._baskets, self.size)[0]


def choice_epsilon(k: int, rho: Fraction) -> Fraction:
    """Return the ε of each of k choices by the exponential mechanism that cost ρ together: the
    largest multiple of 2^-40 with k · ε²/8 <= ρ.
    """
    square = 8 * rho / k * _GRID**2
    found = Fraction(isqrt(square.numerator // square.denominator), _GRID)
    if not found:
        raise ParameterError("The epsilon is too small for so many choices; allow a larger one.")
    return found


def noise_of_sets(unit: PrivacyUnit, touched: int, loss: PrivacyLoss) -> NoiseLaw:
    """Return the noise of counts of which one basket changes `touched`, for this loss."""
    if loss.pure:
        return DiscreteLaplace(unit.sensitivity * touched / loss.epsilon)
    square = unit.squared_sensitivity(nonnegative_gram=True)
    return DiscreteGaussian(square * touched / (2 * loss.rho))
