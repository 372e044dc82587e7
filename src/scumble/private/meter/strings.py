"""The sequences of a private table as strings, of which only charged measurements are returned.

A sequence is read as its first `length` symbols, where its end counts as a symbol; so a sequence
that is cut has no end. What is counted are the occurrences of symbols. An occurrence in a sequence
of k symbols weighs unit // k; where `unit` is 1, all weigh 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.lists.strings import StringTree, leaves_of
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.grow import ChildNumbers, Threshold, split_tree, threshold_tree
from scumble.private.meter.noise import check_scale
from scumble.private.meter.splits import SplitRule
from scumble.private.tables.counter import summed_cells

if TYPE_CHECKING:
    from scumble.model.schema.lists import EncodedLists
    from scumble.private.meter.table import PrivateTable

Integers = npt.NDArray[np.int64]

Selected = tuple[Integers, Any]  # keys of some symbols, and which symbols these are
ALL = slice(None)

LONGEST = UNIT = 1 << 16  # the weight of a sequence, and its most symbols
MOST_NUMBERS = 1 << 25  # cells of the leaves of a tree of contexts
_KEPT = 1 << 26  # bytes of sequences that are kept between passes; more are read again
_TOGETHER = 1 << 20  # symbols that are looked at together


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of some sequences, one after the other, the end mark among them.

    `place` counts the symbols of the sequence before each. `weight` is what an occurrence counts.
    """

    codes: Integers
    place: Integers
    sizes: Integers  # of the sequences
    weight: Integers

    @classmethod
    def of(cls, lists: EncodedLists, *, alphabet: int, length: int, unit: int) -> Symbols:
        """Return the first `length` symbols of each list; the end mark has the code `alphabet`."""
        cut = lists.clipped(length) if lists.lengths.max(initial=0) > length else lists
        ended = lists.lengths < length
        sizes = cut.lengths + ended
        codes = np.insert(cut.codes.astype(np.int64), cut.offsets[1:][ended], alphabet)
        place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        if unit == 1:
            return cls(codes, place, sizes, np.ones_like(codes))
        return cls(codes, place, sizes, np.repeat(unit // sizes, sizes))

    @property
    def left(self) -> Integers:
        """The number of symbols of the sequence after each."""
        found: Integers = np.repeat(self.sizes, self.sizes) - self.place - 1
        return found


class PrivateStrings:
    """The sequences of the attribute `name`; the other parameters as in the text above.

    One sequence weighs at most `mass` in all.
    """

    def __init__(
        self, table: PrivateTable, name: str, person: PrivacyUnit, *, length: int, unit: int = 1
    ) -> None:
        self.name, self.person, self.length, self.unit = name, person, length, unit
        self.alphabet = table.schema[name].lists.members.size
        self.fanout = self.alphabet + 1
        self._table = table
        self._kept: list[EncodedLists] | None = None

    @property
    def mass(self) -> int:
        """The largest weight of all occurrences in one sequence."""
        return self.unit if self.unit > 1 else self.length

    # Contexts: strings before a symbol, which grow to the left.

    def contexts(self, rule: SplitRule, theta: int, depth: int | None) -> StringTree:
        """Return the contexts that `rule` splits.

        The number of a context is the weight of the symbols that follow it, less the largest weight
        of one symbol among them: how often the best guess of the next symbol is wrong. It falls
        from a context to a longer one, and a unit of weight changes it by 0 or 1.
        """
        check_scale(DiscreteLaplace(rule.scale))
        self._charge("splits", PrivacyLoss(rule.loss(weighed(self.person, self.mass))))
        following = self._sums(lambda symbols: (symbols.codes, ALL), self.fanout)
        total, most = following.numbers.sum(), following.numbers.max(initial=0)
        return split_tree(
            _Contexts(self),
            self._table._noise,
            self.fanout,
            rule,
            theta,
            root=int(total - most),
            depth=depth,
            most=MOST_NUMBERS // self.fanout**2,
        )

    def cells(self, inner: StringTree, law: DiscreteLaplace) -> Integers:
        """Return, for every leaf of a tree of split contexts, the noisy weights of the symbols that
        follow it; the last symbol is the end. Every occurrence is in one cell.
        """
        check_scale(law)
        changed = weighed(self.person, self.mass).sensitivity
        self._charge("cells", PrivacyLoss(changed / law.scale))
        leaves = leaves_of(inner)

        numbered = np.zeros(max(len(inner), 1) * self.fanout, np.int64)
        numbered[leaves] = np.arange(len(leaves))

        def keys(symbols: Symbols) -> Selected:
            nodes, before = _contexts_of(inner, symbols)
            leaf = numbered[nodes * self.fanout + before]
            return leaf * self.fanout + symbols.codes, ALL

        numbers = np.zeros(len(leaves) * self.fanout, np.int64)
        found = self._sums(keys, len(numbers))
        numbers[found.keys] = found.numbers
        self._table._noise.add(numbers, law)
        return numbers

    # Prefixes and runs: strings that grow to the right.

    def runs(
        self, levels: Sequence[Threshold], masses: Sequence[int], *, first: bool
    ) -> StringTree:
        """Return the strings that pass `levels`: prefixes of sequences if `first`, else runs of
        symbols that begin anywhere. `masses` has the largest weight of the strings of each length
        in one sequence.
        """
        for level, mass in zip(levels, masses, strict=True):
            check_scale(level.law)
            changed = weighed(self.person, mass).sensitivity
            self._charge("strings", PrivacyLoss(changed / level.law.scale))
        return threshold_tree(_Runs(self, first), self._table._noise, self.fanout, levels)

    def counts(
        self,
        tree: StringTree,
        laws: Sequence[DiscreteLaplace],
        masses: Sequence[int],
        *,
        first: bool,
    ) -> Integers:
        """Return the noisy weight of every node of `tree`, 0 for the root; a string of k symbols
        has noise of `laws[k - 1]`.
        """
        for law, mass in zip(laws, masses, strict=True):
            check_scale(law)
            changed = weighed(self.person, mass).sensitivity
            self._charge("counts of strings", PrivacyLoss(changed / law.scale))
        runs, numbers = _Runs(self, first), np.zeros(len(tree), np.int64)
        for length, (begin, end) in enumerate(tree.levels[1:], 1):
            found = self._sums(partial(runs.counted, tree, length), len(tree))
            numbers[found.keys] = found.numbers
            self._table._noise.add(numbers[begin:end], laws[length - 1])
        return numbers

    def _charge(self, what: str, loss: PrivacyLoss) -> None:
        self._table._account.charge(f"{what} of {self.name}", loss)

    def _sums(self, keys: Callable[[Symbols], Selected], size: int) -> ChildNumbers:
        """Return the weights of occurrences by key; `keys` selects symbols and gives their keys."""

        def pieces() -> Iterator[tuple[Integers, Integers]]:
            for lists in self._passes():
                symbols = Symbols.of(
                    lists, alphabet=self.alphabet, length=self.length, unit=self.unit
                )
                found, at = keys(symbols)
                yield found, symbols.weight[at]

        return ChildNumbers(*summed_cells(pieces(), size))

    def _passes(self) -> Iterable[EncodedLists]:
        """Return all sequences in batches; they are kept in memory if there are not too many."""
        return (
            self._read() if self._kept is None else chain.from_iterable(map(_portions, self._kept))
        )

    def _read(self) -> Iterator[EncodedLists]:
        kept: list[EncodedLists] | None = []
        size = 0
        for lists in self._table._counter.lists(self.name, self.person):
            cut = lists.clipped(self.length + 1)  # whether more follow must be known
            size += cut.codes.nbytes + cut.offsets.nbytes
            if kept is not None and size <= _KEPT:
                kept.append(cut)
            else:
                kept = None
            yield from _portions(cut)
        self._kept = kept


def _portions(lists: EncodedLists) -> Iterator[EncodedLists]:
    """Yield the lists in portions of about `_TOGETHER` symbols."""
    begin = 0
    while begin < len(lists):
        reach = lists.offsets[begin] + _TOGETHER
        end = max(int(np.searchsorted(lists.offsets, reach)), begin + 1)
        end = min(end, len(lists), begin + _TOGETHER)
        yield lists[np.arange(begin, end)]
        begin = end


def weighed(person: PrivacyUnit, mass: int) -> PrivacyUnit:
    """Return the privacy unit in units of weight, where a sequence weighs at most `mass`."""
    return replace(person, rows=person.rows * mass, column=None)


@dataclass(frozen=True)
class _Contexts:
    """The symbols of sequences as records of the contexts before them."""

    strings: PrivateStrings

    def children(self, tree: StringTree) -> ChildNumbers:
        """Return the numbers of the open children: those that do not begin with a sequence."""
        begin, end = tree.levels[-1]
        fanout = tree.fanout

        def keys(symbols: Symbols) -> Selected:
            nodes, before = _contexts_of(tree, symbols)
            at = np.flatnonzero((nodes >= begin) & (before < fanout - 1))
            keys = (nodes[at] - begin) * fanout + before[at]
            return keys * fanout + symbols.codes[at], at

        found = self.strings._sums(keys, (end - begin) * fanout * fanout)
        owners = found.keys // fanout
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        if not len(starts):
            return ChildNumbers(owners, owners)
        total = np.add.reduceat(found.numbers, starts)
        return ChildNumbers(owners[starts], total - np.maximum.reduceat(found.numbers, starts))


def _contexts_of(inner: StringTree, symbols: Symbols) -> tuple[Integers, Integers]:
    """Return, for every symbol, the longest split context before it, and the code before that."""
    from scumble.private.meter import kernels

    end = inner.fanout - 1
    nodes = np.zeros(len(symbols.codes), np.int64)
    before = np.full(len(symbols.codes), end)
    if len(inner):
        kernels.longest_contexts(symbols.codes, symbols.place, inner.children, end, nodes, before)
    return nodes, before


@dataclass(frozen=True)
class _Runs:
    """The first symbols of sequences as records of prefixes, or all symbols of the runs that begin
    with them.
    """

    strings: PrivateStrings
    first: bool

    def children(self, tree: StringTree) -> ChildNumbers:
        begin, end = tree.levels[-1]
        length = len(tree.levels) - 1

        def keys(symbols: Symbols) -> Selected:
            nodes = self.nodes(tree, length, symbols)
            at = np.flatnonzero((nodes >= begin) & (symbols.left >= length))
            return (nodes[at] - begin) * tree.fanout + symbols.codes[at + length], at

        return self.strings._sums(keys, (end - begin) * tree.fanout)

    def counted(self, tree: StringTree, length: int, symbols: Symbols) -> Selected:
        """Return the nodes of the strings of `length` symbols that are in the tree."""
        nodes = self.nodes(tree, length, symbols)
        at = np.flatnonzero(nodes >= 0)
        return nodes[at], at

    def nodes(self, tree: StringTree, length: int, symbols: Symbols) -> Integers:
        """Return the node of the `length` symbols from each on, -1 where there is none."""
        left = symbols.left
        begins = symbols.place == 0 if self.first else np.ones(len(left), bool)
        nodes = np.where(begins, 0, -1)
        at = np.flatnonzero(begins)
        for step in range(length):
            on = left[at] >= step
            nodes[at[~on]] = -1
            at = at[on]
            nodes[at] = tree.child(nodes[at], symbols.codes[at + step])
            at = at[nodes[at] > 0]
        return nodes
