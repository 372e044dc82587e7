"""The sequences of a private table as strings, of which only charged measurements are returned.

A sequence is read as its first `length` symbols, where its end counts as a symbol; so a sequence
that is cut has no end. What is counted are the occurrences of symbols. An occurrence in a sequence
of k symbols weighs unit // k; where `unit` is 1, all weigh 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.families.sequences.design import StringTree, leaves_of
from scumble.model.compiled import kernel
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.grow import (
    ChildNumbers,
    Threshold,
    split_tree,
    threshold_tree,
)
from scumble.private.meter.noise import check_scale
from scumble.private.meter.splits import SplitRule
from scumble.private.tables.counter import CellCounter, summed_cells
from scumble.private.tables.list_spool import KeptLists

if TYPE_CHECKING:
    from scumble.model.schema.lists import EncodedLists
    from scumble.private.meter.table import PrivateTable


Integers = npt.NDArray[np.int64]

Selected = tuple[Integers, Integers]  # keys of some symbols, and the places of these symbols

LONGEST = UNIT = 1 << 16  # the weight of a sequence, and its most symbols
MOST_NUMBERS = 1 << 25  # cells of the leaves of a tree of contexts
_TOGETHER = 1 << 16  # symbols that are looked at together
_CELLS = 1 << 23  # weights of symbols after contexts that are summed in one pass


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of some sequences, one after the other, the end mark among them.

    `position` counts the symbols of the sequence before each one. `weight` is what an occurrence
    counts.
    """

    codes: Integers
    position: Integers
    sizes: Integers  # of the sequences
    weight: Integers

    @classmethod
    def of(cls, lists: EncodedLists, *, alphabet: int, length: int, unit: int) -> Symbols:
        """Return the first `length` symbols of each list; the end mark has the code `alphabet`."""
        codes, offsets = lists.codes, lists.offsets
        lengths, stops = np.diff(offsets), offsets[1:]
        if lengths.max(initial=0) > length:
            before = np.arange(len(codes)) - np.repeat(offsets[:-1], lengths)
            codes = codes[before < length]
            stops = np.cumsum(np.minimum(lengths, length))
        ended = lengths < length
        sizes = np.minimum(lengths + 1, length)
        read = np.insert(codes.astype(np.int64), stops[ended], alphabet)
        before = np.arange(len(read)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        weight = np.ones_like(read) if unit == 1 else np.repeat(unit // sizes, sizes)
        return cls(read, before, sizes, weight)

    @property
    def left(self) -> Integers:
        """The number of symbols of the sequence after each."""
        left: Integers = np.repeat(self.sizes, self.sizes) - self.position - 1
        return left


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
        most = length + 1  # do more symbols follow?
        self._lists = KeptLists(partial(_clip_lists, table._counter, name, person, most))

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
        self._charge("splits", PrivacyLoss(rule.loss(weigh_unit(self.person, self.mass))))
        none = StringTree(np.empty(0, np.int64), np.empty(0, np.int64), self.fanout)
        following = self._following(none, np.zeros(self.fanout, np.int64), 1)
        return split_tree(
            _Contexts(self),
            self._table._noise,
            self.fanout,
            rule,
            theta,
            root=int(following.sum() - following.max()),
            depth=depth,
            most=MOST_NUMBERS // self.fanout**2,
        )

    def cells(self, inner: StringTree, law: DiscreteLaplace) -> Integers:
        """Return, for every leaf of a tree of split contexts, the noisy weights of the symbols that
        follow it; the last symbol is the end. Every occurrence is in one cell.
        """
        check_scale(law)
        changed = weigh_unit(self.person, self.mass).sensitivity
        self._charge("cells", PrivacyLoss(changed / law.scale))
        leaves = leaves_of(inner)

        slots = np.zeros(max(len(inner), 1) * self.fanout, np.int64)
        slots[leaves] = np.arange(len(leaves))
        numbers = self._following(inner, slots, len(leaves)).reshape(-1)
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
            changed = weigh_unit(self.person, mass).sensitivity
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
            changed = weigh_unit(self.person, mass).sensitivity
            self._charge("counts of strings", PrivacyLoss(changed / law.scale))
        runs, numbers = _Runs(self, first), np.zeros(len(tree), np.int64)
        for length, (begin, end) in enumerate(tree.levels[1:], 1):
            sums = self._sum_weights(partial(runs.select_counted, tree, length), len(tree))
            numbers[sums.keys] = sums.numbers
            self._table._noise.add(numbers[begin:end], laws[length - 1])
        return numbers

    def _charge(self, what: str, loss: PrivacyLoss) -> None:
        self._table._account.charge(f"{what} of {self.name}", loss)

    def _following(self, inner: StringTree, slots: Integers, size: int) -> Integers:
        """Return the weights of the symbols that follow `size` contexts, a row for each; `slots`
        has the row of each context (see `context_sums`).
        """
        sums = np.zeros((size, self.fanout), np.int64)
        children = _select_children(inner, slots) if len(inner) else np.full(self.fanout, -1)
        given = (self.length, self.unit, children, slots, self.alphabet, sums.reshape(-1))
        for lists in self._read_portions():
            context_sums(lists.codes, lists.offsets, *given)
        return sums

    def _sum_weights(self, keys: Callable[[Symbols], Selected], size: int) -> ChildNumbers:
        """Return the weights of occurrences by key; `keys` selects symbols and gives their keys."""

        def pieces() -> Iterator[tuple[Integers, Integers]]:
            for lists in self._read_portions():
                symbols = Symbols.of(
                    lists, alphabet=self.alphabet, length=self.length, unit=self.unit
                )
                selected, at = keys(symbols)
                yield selected, symbols.weight[at]

        return ChildNumbers(*summed_cells(pieces(), size))

    def _read_portions(self) -> Iterator[EncodedLists]:
        """Yield all sequences in portions of about `_TOGETHER` symbols."""
        return chain.from_iterable(lists.portions(_TOGETHER) for lists in self._lists)


def _clip_lists(
    counter: CellCounter, name: str, person: PrivacyUnit, most: int
) -> Iterator[EncodedLists]:
    return (lists.clipped(most) for lists in counter.lists(name, person))


def _select_children(tree: StringTree, slots: Integers) -> Integers:
    """Return the children of `tree` that lead to a context with a slot, -1 for all others: what
    follows one of these is in no sum, so that it need not be found.
    """
    wanted = slots.reshape(-1, tree.fanout).max(axis=1) >= 0
    for begin, end in reversed(tree.levels[1:]):
        wanted[tree.parents[begin:end][wanted[begin:end]]] = True
    children = tree.children.copy()
    children[tree.keys[~wanted[1:]]] = -1
    return children


def weigh_unit(person: PrivacyUnit, mass: int) -> PrivacyUnit:
    """Return the privacy unit in units of weight, where a sequence weighs at most `mass`."""
    return replace(person, rows=person.rows * mass, column=None)


@dataclass(frozen=True)
class _Contexts:
    """The symbols of sequences as records of the contexts before them."""

    strings: PrivateStrings

    def children(self, tree: StringTree) -> ChildNumbers:
        """Return the numbers of the open children: those that do not begin with a sequence."""
        begin, end = tree.levels[-1]
        fanout, step = tree.fanout, max(_CELLS // tree.fanout, 1)
        owners, numbers = [], []
        for low in range(begin * fanout, end * fanout, step):
            high = min(low + step, end * fanout)
            slots = np.full(len(tree) * fanout, -1)
            slots[low:high] = np.arange(high - low)
            slots[fanout - 1 :: fanout] = -1
            following = self.strings._following(tree, slots, high - low)
            total = following.sum(axis=1)
            occupied = np.flatnonzero(total)
            owners.append(occupied + (low - begin * fanout))
            numbers.append(total[occupied] - following.max(axis=1)[occupied])
        return ChildNumbers(np.concatenate(owners), np.concatenate(numbers))


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

        return self.strings._sum_weights(keys, (end - begin) * tree.fanout)

    def select_counted(self, tree: StringTree, length: int, symbols: Symbols) -> Selected:
        """Return the nodes of the strings of `length` symbols that are in the tree."""
        nodes = self.nodes(tree, length, symbols)
        at = np.flatnonzero(nodes >= 0)
        return nodes[at], at

    def nodes(self, tree: StringTree, length: int, symbols: Symbols) -> Integers:
        """Return the node of the `length` symbols from each on, -1 where there is none."""
        left = symbols.left
        begins = symbols.position == 0 if self.first else np.ones(len(left), bool)
        nodes = np.where(begins, 0, -1)
        at = np.flatnonzero(begins)
        for step in range(length):
            on = left[at] >= step
            nodes[at[~on]] = -1
            at = at[on]
            nodes[at] = tree.child(nodes[at], symbols.codes[at + step])
            at = at[nodes[at] > 0]
        return nodes


# --- kernels --------------------------------------------------------------------------------------
#
# The inner loop of trees of contexts: what follows the longest context before each symbol.

Array = Any


@kernel
def context_sums(
    codes: Array,
    offsets: Array,
    length: int,
    unit: int,
    children: Array,
    slots: Array,
    end: int,
    sums: Array,
) -> None:
    """Add the weights of the symbols of sequences to the sums of their contexts.

    Sequence i has the symbols `codes[offsets[i] : offsets[i + 1]]`. Its first `length` are read,
    and its end, the code `end`, if it is among these. A symbol weighs `unit` divided by the number
    of symbols that are read, or 1 if `unit` is 1. `children` has the child of each split context by
    the code before it, -1 where there is none; the context 0 is the empty one. A context is the
    longest split one before a symbol together with the code before that, `end` where the sequence
    begins. `slots` has the place of each context among the sums, -1 for those without one; each has
    a sum for every symbol.
    """
    fanout = end + 1
    for sequence in range(len(offsets) - 1):
        begin = offsets[sequence]
        known = offsets[sequence + 1] - begin
        size = min(known + 1, length)
        weight = unit // size if unit > 1 else 1
        for index in range(size):
            node, back = 0, 1
            while True:
                code = int(codes[begin + index - back]) if index >= back else end
                child = children[node * fanout + code]
                if child < 0:
                    break
                node = child
                back += 1
            slot = slots[node * fanout + code]
            if slot >= 0:
                symbol = int(codes[begin + index]) if index < known else end
                sums[slot * fanout + symbol] += weight
