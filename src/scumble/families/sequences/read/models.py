"""Models of sequences from noisy trees of strings: known counts, and probabilities of symbols.

`known` is the number of occurrences of a string that was measured, unbiased, with the number of
noises in it. `probabilities` of the next symbol use the longest known context; they are
projections and have no error law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.sequences.design import (
    COUNT,
    PARENT,
    SYMBOL,
    Strings,
    StringTree,
    leaves_of,
)
from scumble.model.laws.distributions import DiscreteLaplace

Codes = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_RELIABLE = 2.0  # times √symbols noise scales: what a context must hold to be used


@dataclass(frozen=True)
class NoisyCounts:
    """A measured number: the sum of `noises` noisy numbers, in units of the design."""

    number: int
    noises: int
    law: DiscreteLaplace


class StringModel(Protocol):
    """What a tree of strings tells about sequences."""

    @property
    def design(self) -> Strings: ...

    def known(self, string: Codes) -> NoisyCounts | None:
        """Return the number of occurrences of a string, None if it was not measured."""
        ...

    def count_measured(self, lengths: range) -> int:
        """Return how many strings of these lengths, without ends, were measured: a fact of the tree
        alone, on which the noise of the numbers has no influence.
        """
        ...

    def following(self, context: Codes) -> Floats:
        """Return the numbers of the context with each next symbol; NaN where not measured."""
        ...

    def probabilities(self, context: Codes) -> tuple[Floats, Codes]:
        """Return the probability of every next symbol after `context`, the last that of the end,
        and the part of the context that was used.
        """
        ...


def model_of(design: Strings, table: pa.Table) -> StringModel:
    """Return the model of a release, given the rows of its file; ValueError if they are no tree."""
    columns = (table[name].to_numpy().astype(np.int64) for name in (PARENT, SYMBOL, COUNT))
    parents, symbols, counts = columns
    fanout = design.alphabet + 1
    if design.model != "suffix":
        tree = StringTree(parents, symbols, fanout).check()
        if len(tree.levels) > len(design.laws) + 1:
            raise ValueError("strings are longer than those that were measured")
        return RunModel(design, tree, counts)
    size = design.contexts
    inner = StringTree(parents[:size], symbols[:size], fanout)
    if size:
        inner.check()
    leaves = leaves_of(inner)
    if len(counts) - size != len(leaves) * fanout:
        raise ValueError("every leaf has a number for each symbol")
    return ContextModel(design, inner, leaves, counts[size:].reshape(len(leaves), fanout))


def onto_simplex(numbers: Floats) -> Floats:
    """Return the nearest numbers of at least 0 with the same sum, for each row, divided by that
    sum; equal numbers where the sum is not above 0.

    >>> onto_simplex(np.array([[6.0, 3.0, -1.0], [0.0, -1.0, 0.0]])).round(3).tolist()
    [[0.688, 0.312, 0.0], [0.333, 0.333, 0.333]]
    """
    totals = numbers.sum(axis=1)
    width = numbers.shape[1]
    falling = -np.sort(-numbers, axis=1)
    excess = (np.cumsum(falling, axis=1) - totals[:, None]) / np.arange(1, width + 1)
    positive = np.maximum((falling > excess).sum(axis=1), 1)
    shift = excess[np.arange(len(numbers)), positive - 1]
    projected = np.maximum(numbers - shift[:, None], 0)
    some = totals > 0
    shares: Floats = projected / np.where(some, totals, 1)[:, None]
    shares[~some] = 1 / width
    return shares


@dataclass(frozen=True, eq=False)
class ContextModel:
    """A prediction suffix tree: noisy numbers of the next symbol for every leaf context."""

    design: Strings
    inner: StringTree
    leaves: Integers
    cells: Integers

    @cached_property
    def _inner_cells(self) -> Integers:
        """The numbers of every split context: the sums of those of the leaves below it."""
        sums = np.zeros((len(self.inner), self.inner.fanout), np.int64)
        if len(self.inner):
            np.add.at(sums, self.leaves // self.inner.fanout, self.cells)
            for begin, end in reversed(self.inner.levels[1:]):
                np.add.at(sums, self.inner.parents[begin:end], sums[begin:end])
        return sums

    @cached_property
    def _leaves_below(self) -> Integers:
        """The number of leaves below every split context."""
        if not len(self.inner):
            return np.zeros(0, np.int64)
        number = np.bincount(self.leaves // self.inner.fanout, minlength=len(self.inner))
        for begin, end in reversed(self.inner.levels[1:]):
            np.add.at(number, self.inner.parents[begin:end], number[begin:end])
        return number

    def find(self, context: Codes, *, start: bool = False) -> tuple[int, int, int]:
        """Return the longest known context at the end of `context`: its split node, its leaf, and
        how many codes it has. One of node and leaf is -1. With `start`, a sequence begins with the
        context.
        """
        if not len(self.inner):
            return -1, 0, 0
        fanout = self.inner.fanout
        node = used = 0
        for code in (*reversed(context), *((fanout - 1,) if start else ())):
            child = int(self.inner.child(np.array([node]), np.array([code]))[0])
            if child < 0:
                leaf = int(np.searchsorted(self.leaves, node * fanout + code))
                return -1, leaf, used + 1
            node, used = child, used + 1
        return node, -1, used

    def known(self, string: Codes) -> NoisyCounts | None:
        *context, last = string
        node, leaf, used = self.find(tuple(context))
        if used < len(context):
            return None
        [law] = self.design.laws
        if leaf >= 0:
            return NoisyCounts(int(self.cells[leaf, last]), 1, law)
        return NoisyCounts(int(self._inner_cells[node, last]), int(self._leaves_below[node]), law)

    def count_measured(self, lengths: range) -> int:
        end, depths = self.inner.fanout - 1, [0]  # of the contexts that do not begin a sequence
        if len(self.inner):
            open_ = self.leaves % self.inner.fanout != end
            below = self.inner.depths[self.leaves[open_] // self.inner.fanout] + 1
            depths = [*self.inner.depths.tolist(), *below.tolist()]
        return self.design.alphabet * sum(depth + 1 in lengths for depth in depths)

    def following(self, context: Codes) -> Floats:
        node, leaf, used = self.find(context)
        if used < len(context):
            return np.full(self.design.alphabet + 1, np.nan)
        cells = self.cells[leaf] if leaf >= 0 else self._inner_cells[node]
        numbers: Floats = cells.astype(np.float64)
        return numbers

    @cached_property
    def reliable(self) -> npt.NDArray[np.bool_]:
        """Which leaves hold enough to be used: twice √symbols noise scales."""
        least = _RELIABLE * math.sqrt(self.inner.fanout) * float(self.design.laws[0].scale)
        reliable: npt.NDArray[np.bool_] = self.cells.sum(axis=1) >= least
        return reliable

    @cached_property
    def leaf_probabilities(self) -> Floats:
        """The probabilities of the next symbol of every leaf; of its parent if that is better."""
        chances = onto_simplex(self.cells.astype(float))
        if len(self.inner):
            weak = ~self.reliable
            chances[weak] = self.inner_probabilities[self.leaves[weak] // self.inner.fanout]
        return chances

    @cached_property
    def inner_probabilities(self) -> Floats:
        """The probabilities of the next symbol of every split context."""
        return onto_simplex(self._inner_cells.astype(float))

    def probabilities(self, context: Codes, *, start: bool = False) -> tuple[Floats, Codes]:
        node, leaf, used = self.find(context, start=start)
        used = min(used, len(context))
        if leaf < 0:
            return self.inner_probabilities[node], context[len(context) - used :]
        if not self.reliable[leaf] and len(self.inner):
            used = max(used - 1, 0)
        return self.leaf_probabilities[leaf], context[len(context) - used :]


@dataclass(frozen=True, eq=False)
class RunModel:
    """Noisy counts of prefixes, or of runs of symbols, of up to as many symbols as laws."""

    design: Strings
    tree: StringTree
    counts: Integers

    def node(self, string: Codes) -> int:
        """Return the node of a string, -1 if it was not measured."""
        node = 0
        for code in string:
            node = int(self.tree.child(np.array([node]), np.array([code]))[0])
            if node < 0:
                return -1
        return node

    def known(self, string: Codes) -> NoisyCounts | None:
        node = self.node(string)
        if node <= 0:
            return None
        return NoisyCounts(int(self.counts[node]), 1, self.design.laws[len(string) - 1])

    def count_measured(self, lengths: range) -> int:
        values = self.tree.symbols < self.design.alphabet
        return sum(depth in lengths for depth in self.tree.depths[values].tolist())

    def following(self, context: Codes) -> Floats:
        numbers = np.full(self.tree.fanout, np.nan)
        node = self.node(context)
        if node >= 0:
            children = np.flatnonzero(self.tree.parents == node)
            numbers[self.tree.symbols[children]] = self.counts[children]
        return numbers

    def probabilities(self, context: Codes) -> tuple[Floats, Codes]:
        longest = len(self.design.laws) - 1
        context = context[len(context) - min(longest, len(context)) :]
        while context and not self._has_children(context):
            context = context[1:]
        return self._estimate_next(context), context

    def _has_children(self, context: Codes) -> bool:
        node = self.node(context)
        return node >= 0 and bool(np.isin(node, self.tree.parents))

    @lru_cache(maxsize=4096)  # noqa: B019 (a model lives as long as its release)
    def _estimate_next(self, context: Codes) -> Floats:
        """Return probabilities from the counts of the strings that extend the context. What is left
        for symbols that were not measured is shared as after the context without its first symbol.
        """
        fanout = self.tree.fanout
        node = self.node(context)
        if node < 0 or not self._has_children(context):
            return self._estimate_next(context[1:]) if context else np.full(fanout, 1 / fanout)
        children = np.flatnonzero(self.tree.parents == node)
        counts = np.zeros(fanout)
        counts[self.tree.symbols[children]] = np.maximum(self.counts[children], 0)
        others = np.ones(fanout, bool)
        others[self.tree.symbols[children]] = False
        rest = max(float(self.counts[node]) - counts.sum(), 0.0) if context else 0.0
        if rest and others.any():
            shares = self._estimate_next(context[1:]) * others
            shares = shares if shares.sum() > 0 else others.astype(float)
            counts += rest * shares / shares.sum()
        total = counts.sum()
        if total <= 0:
            return np.full(fanout, 1 / fanout)
        chances: Floats = counts / total
        return chances
