"""Bases: small groups of items that hold all chosen pairs, so that a table of each group tells the
counts of many sets of items. They follow from the chosen items and pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

LARGEST = 12  # items of a basis: its table has 2^12 cells
_MOST_CLIQUES = 2_000  # beyond this number, pairs are the cliques

Basis = frozenset[int]
Floats = npt.NDArray[np.float64]


def bases_of(items: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return groups of the items 0 to `items - 1`, each of at most 12, such that every item is in
    one and both items of every pair are together in one.

    They start as the maximal cliques of the graph of pairs. Then two of them are joined as long as
    that lowers the total variance of the counts of single items, pairs and triangles of pairs. With
    w tables, each has noise of variance proportional to w², and the count of a set X is a sum of
    2^(l-|X|) cells of a table of l items; several tables with X are averaged.
    """
    if items <= LARGEST:
        return [tuple(range(items))]
    linked: list[set[int]] = [set() for _ in range(items)]
    for one, other in pairs:
        linked[one].add(other)
        linked[other].add(one)
    asked = [frozenset(each) for each in _asked(items, linked)]
    groups = [part for clique in _cliques(linked) for part in _parts(clique)]
    return sorted(tuple(sorted(each)) for each in _merged(groups, asked, items))


def _asked(items: int, linked: list[set[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the sets whose variance matters: items, pairs and triangles."""
    for one in range(items):
        yield (one,)
        for other in linked[one]:
            if other > one:
                yield one, other
                for third in linked[one] & linked[other]:
                    if third > other:
                        yield one, other, third


def _cliques(linked: list[set[int]]) -> list[Basis]:
    """Return the maximal cliques (Bron and Kerbosch with a pivot), or all pairs if these are too
    many; items without a pair are cliques of one.
    """
    found: list[Basis] = []

    def extend(clique: Basis, left: set[int], done: set[int]) -> None:
        if len(found) > _MOST_CLIQUES:
            return
        if not left and not done:
            found.append(clique)
            return
        pivot = max(left | done, key=lambda each: len(linked[each] & left))
        for each in sorted(left - linked[pivot]):
            extend(clique | {each}, left & linked[each], done & linked[each])
            left.remove(each)
            done.add(each)

    extend(frozenset(), set(range(len(linked))), set())
    if len(found) <= _MOST_CLIQUES:
        return found
    alone = [frozenset([item]) for item, others in enumerate(linked) if not others]
    pairs = [frozenset((a, b)) for a, others in enumerate(linked) for b in others if a < b]
    return alone + pairs


def _parts(clique: Basis) -> list[Basis]:
    """Return groups of at most 12 items in which every pair of the clique is together."""
    if len(clique) <= LARGEST:
        return [clique]
    items = sorted(clique)
    halves = [items[at : at + LARGEST // 2] for at in range(0, len(items), LARGEST // 2)]
    return [frozenset(one + other) for one, other in combinations(halves, 2)]


def _merged(groups: list[Basis], asked: list[Basis], items: int) -> list[Basis]:
    """Join the two groups that lower the total variance most, until none does."""
    groups = [each for each in dict.fromkeys(groups) if not any(each < other for other in groups)]
    wanted = _members(asked, items)
    sizes = 2.0 ** wanted.sum(axis=1)
    while len(groups) > 1:
        held = _members(groups, items)
        shares = _shares(held, wanted)
        whole = shares.sum(axis=0)
        one, other = np.triu_indices(len(groups), 1)
        union = np.maximum(held[one], held[other])
        small = union.sum(axis=1) <= LARGEST
        if not small.any():
            break
        one, other, union = one[small], other[small], union[small]
        rest = whole - shares[one] - shares[other] + _shares(union, wanted)
        totals = _total(rest, sizes, len(groups) - 1)
        best = int(totals.argmin())
        if totals[best] >= _total(whole, sizes, len(groups)):
            break
        group = groups[one[best]] | groups[other[best]]
        groups = [*(each for each in groups if not each <= group), group]
    return groups


def _members(groups: Sequence[Basis], items: int) -> Floats:
    """Return whether each group (row) holds each item, as 0 or 1."""
    found = np.zeros((len(groups), items))
    for row, group in enumerate(groups):
        found[row, sorted(group)] = 1
    return found


def _shares(held: Floats, wanted: Floats) -> Floats:
    """Return 2^-l for each group (row) of l items and each wanted set that it holds, else 0."""
    holds = (1 - held) @ wanted.T == 0
    found: Floats = holds * 0.5 ** held.sum(axis=1, keepdims=True)
    return found


def _total(shares: Floats, sizes: Floats, tables: int) -> Floats:
    """Return the total variance: w² / Σ 2^(|X|-l) over the tables that hold X, for each X."""
    found: Floats = tables**2 * (1 / (shares * sizes)).sum(axis=-1)
    return found
