"""Exact multinomial sampling: multisets of values drawn with replacement from a weighted pool."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_whole
from scumble.private.sampling.bits import chunks
from scumble.private.sampling.source import Keystream

_MOST = 1 << 12  # most outcomes in one table: with more, too many prefixes stay undecided
_STEP = 1 << 15  # words at a time, so that they are still in the cache when they are read
_LANES = 16  # values whose counts fit one byte each in two words


class Pool:
    """A pool from which value v is drawn with probability weights[v] / sum(weights).

    Several draws are made at once: all multisets of that many draws are listed with their exact
    probabilities (multinomial coefficients times powers of the weights), and 16 bits choose one.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        good = all(isinstance(w, int) and not isinstance(w, bool) and w > 0 for w in weights)
        if not good or not 1 <= len(weights) <= _MOST:
            allowed = f"1 to {_MOST} whole numbers above 0"
            raise ParameterError.of("Pool", "weights", allowed, list(weights))
        self.weights = tuple(weights)
        self.values = len(self.weights)

    def counts(self, source: Keystream, draws: int, size: int) -> NDArray[Any]:
        """Return an array of `size` rows: how often each value (column) came in `draws` draws."""
        draws = check_whole("Pool.counts", "draws", draws, least=1)
        if self.values > _LANES or draws > 255:
            out = np.zeros((size, self.values), np.min_scalar_type(draws))
            for block, times in self._blocks(draws):
                block.tally(source, times, out)
            return out
        packed = np.zeros((size, _LANES // 8), np.uint64)
        for block, times in self._blocks(draws):
            block.tally_packed(source, times, packed)
        return packed.view(np.uint8)[:, : self.values]

    def members(self, source: Keystream, draws: int, size: int) -> NDArray[Any]:
        """Return an array of `size` rows: the `draws` values drawn, in no particular order."""
        draws = check_whole("Pool.members", "draws", draws, least=1)
        parts = [
            block.members[block.outcomes.draw(source, size * times)].reshape(size, -1)
            for block, times in self._blocks(draws)
        ]
        return np.concatenate(parts, axis=1)

    def _blocks(self, draws: int) -> list[tuple[_Block, int]]:
        """Return blocks of as many draws as one table can hold, each with its number of uses, and
        a last block for the remaining draws.
        """
        joint = 1
        while joint < draws and comb(self.values + joint, joint + 1) <= _MOST:
            joint += 1
        times, rest = divmod(draws, joint)
        first = (_block(self.weights, joint), times)
        return [first, (_block(self.weights, rest), 1)] if rest else [first]


class _Block:
    """All multisets of a few draws, with their probabilities."""

    def __init__(self, weights: Sequence[int], draws: int) -> None:
        multisets = list(combinations_with_replacement(range(len(weights)), draws))
        self.members = np.array(multisets, np.min_scalar_type(len(weights) - 1))
        self.outcomes = PrefixTable(
            [_orders(each) * prod(weights[value] for value in each) for each in multisets]
        )
        # One row more than multisets: an undecided prefix adds nothing.
        lanes = np.zeros((len(multisets) + 1, _LANES), np.uint8)
        if len(weights) <= _LANES:
            np.add.at(lanes, (np.arange(len(multisets))[:, None], self.members), 1)
        self._packed = lanes.view(np.uint64)

    def tally_packed(self, source: Keystream, times: int, out: NDArray[np.uint64]) -> None:
        """Add the counts of `times` multisets to every row of `out`, one byte for each value."""
        from scumble.private.sampling import kernels

        rows = self._sweep(source, times, out, kernels.count_members_packed, self._packed)
        self._finish(source, rows, out.view(np.uint8))

    def tally(self, source: Keystream, times: int, out: NDArray[Any]) -> None:
        """Add the counts of `times` multisets to every row of `out`, one number for each value."""
        from scumble.private.sampling import kernels

        self._finish(
            source, self._sweep(source, times, out, kernels.count_members, self.members), out
        )

    def _sweep(
        self, source: Keystream, times: int, out: NDArray[Any], kernel: Any, added: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Run `kernel` over fresh words and return the rows of its undecided prefixes."""
        table, open_ = self.outcomes.table, self.outcomes.open
        each = -(-times // 4)
        step = max(1, _STEP // each)
        words, rows = np.empty(step * each, np.uint64), np.empty(step * times, np.int64)
        left = [np.empty(0, np.int64)]
        for part in chunks(len(out), step):
            target = out[part]
            drawn = words[: len(target) * each]
            source.fill(drawn)
            count = kernel(drawn, times, table, added, open_, target, rows)
            left.append(rows[:count] + part.start)
        return np.concatenate(left)

    def _finish(self, source: Keystream, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        from scumble.private.sampling import kernels

        if len(rows):
            found = self.outcomes.rest.draw(source, len(rows))
            kernels.count_members_in_rows(found, self.members, rows, out)


def _orders(multiset: Sequence[int]) -> int:
    """Return the number of orders in which the members can be drawn (multinomial coefficient)."""
    repeats = prod(factorial(multiset.count(value)) for value in set(multiset))
    return factorial(len(multiset)) // repeats


@lru_cache(maxsize=16)
def _block(weights: tuple[int, ...], draws: int) -> _Block:
    return _Block(weights, draws)


_BITS = 16


class PrefixTable:
    """A finite distribution: outcome k has probability weights[k] / sum(weights), exactly.

    Every outcome owns as many of the 65536 prefixes of 16 bits as fit into its share. The other
    prefixes stand for a further draw from a table of the remaining shares. An outcome lacks half a
    prefix on average, so that few draws need a second table, and hardly any a third.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        total = sum(weights)
        parts = [divmod(weight << _BITS, total) for weight in weights]
        self.open = len(parts)  # the entry of an undecided prefix
        owned = [whole for whole, _ in parts]
        prefixes = [*owned, (1 << _BITS) - sum(owned)]
        self.table: NDArray[np.uint16] = np.repeat(np.arange(self.open + 1, dtype="u2"), prefixes)
        self._lacking = [rest for _, rest in parts]

    @cached_property
    def rest(self) -> PrefixTable:
        """The distribution of a draw whose first prefix is undecided."""
        return PrefixTable(self._lacking)

    def draw(self, source: Keystream, size: int) -> NDArray[np.uint16]:
        """Return `size` independent outcomes."""
        outcomes: NDArray[np.uint16] = self.table[source.halves(size)]
        rows = np.flatnonzero(outcomes == self.open)
        if len(rows):
            outcomes[rows] = self.rest.draw(source, len(rows))
        return outcomes
