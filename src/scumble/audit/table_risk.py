"""K-anonymity, l-diversity, t-closeness of a table.

What a table shows as it is: anonymity, diversity, closeness and the risk to be found in it.

These measures compare rows with rows; they say nothing about what an attacker knows besides.
References: k-anonymity (Sweeney 2002), l-diversity and its entropy and recursive forms
(Machanavajjhala et al. 2007), t-closeness (Li et al. 2007), beta-likeness (Cao and Karras 2012),
delta-disclosure (Brickell and Shmatikov 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import SchemaError
from scumble.private.tables.rows import Rows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Anonymity:
    """How far people can be told apart by the quasi-identifiers alone."""

    rows: int
    classes: int
    k: int  # the size of the smallest class
    alone: int  # rows that are the only ones of their class
    few: int  # rows in classes of fewer than five
    largest_risk: float  # to pick the right row of a target who is known to be in the table
    average_risk: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Diversity:
    """What the class of a target tells about the sensitive value, at worst."""

    l: int  # noqa: E741  # the letter that everybody uses for it
    entropy_l: float
    recursive_c: float  # with this l: the most frequent value against all but the l - 1 first
    alpha: float  # the largest share of one value in a class
    t: float  # the largest distance of a class from the whole table
    beta: float  # the largest relative gain of one value
    delta: float  # the largest change of a log share

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def anonymity(found: Classes) -> Anonymity:
    """How far people can be told apart."""
    sizes, rows = found.sizes, found.rows
    return Anonymity(
        rows=rows,
        classes=len(sizes),
        k=int(sizes.min()),
        alone=int((sizes == 1).sum()),
        few=int(sizes[sizes < 5].sum()),
        largest_risk=1 / int(sizes.min()),
        average_risk=len(sizes) / rows,
    )


def diversity(found: Classes, *, ordered: bool) -> Diversity:
    """What classes tell at worst; `ordered`: closeness counts how far values are apart."""
    share = found.count / np.repeat(found.sizes, _distinct(found))
    whole = np.bincount(found.value, found.count, found.values) / found.rows
    overall = whole[found.value]
    distinct = _distinct(found)
    entropy = -np.add.reduceat(share * np.log(share), found.first)
    everywhere = distinct == np.count_nonzero(whole)  # no class lacks a value that others have
    delta = float(np.abs(np.log(share / overall)).max()) if everywhere.all() else np.inf
    return Diversity(
        l=int(distinct.min()),
        entropy_l=float(np.exp(max(entropy.min(), 0.0))),
        recursive_c=_recursive(found, share, int(distinct.min())),
        alpha=float(share.max()),
        t=float(distances(found, share, whole, ordered=ordered).max()),
        beta=float((share / overall - 1).max()),
        delta=delta,
    )


def distances(found: Classes, share: Floats, whole: Floats, *, ordered: bool) -> Floats:
    """The earth mover's distance of each class from the whole table, between 0 and 1."""
    if not ordered:
        gains = np.maximum(share - whole[found.value], 0.0)
        return np.add.reduceat(gains, found.first)
    return _ordered(found, share, whole) / max(found.values - 1, 1)


def _distinct(found: Classes) -> npt.NDArray[np.int64]:
    """How many different values each class has."""
    return np.diff(found.first, append=len(found.of))


def _recursive(found: Classes, share: Floats, least: int) -> float:
    """The smallest c for which every class has r1 ≤ c (r_l + ... + r_m), shares r falling."""
    order = np.lexsort((-share, found.of))
    falling = share[order]
    place = np.arange(len(falling)) - np.repeat(found.first, _distinct(found))
    tails = np.add.reduceat(np.where(place >= least - 1, falling, 0.0), found.first)
    return float((falling[found.first] / tails).max())


def _ordered(found: Classes, share: Floats, whole: Floats) -> Floats:
    """Σ |F_class - F_whole| over the values in their order.

    F of a class is constant from one of its values to the next, and F of the whole only rises: so
    on each such stretch the difference changes its sign at most once, at a place that bisection
    finds, and both sides are sums of a running total.
    """
    below = np.cumsum(whole)
    total = np.concatenate([[0.0], np.cumsum(below)])
    level = np.cumsum(share) - np.repeat(np.arange(len(found.first)), _distinct(found))
    begin = found.value
    end = np.append(begin[1:], 0)
    end[np.append(found.first[1:], len(begin)) - 1] = found.values
    cross = np.clip(np.searchsorted(below, level), begin, end)
    under = level * (cross - begin) - (total[cross] - total[begin])
    over = (total[end] - total[cross]) - level * (end - cross)
    lead = total[begin[found.first]]  # before its first value F of a class is 0
    moved: Floats = np.add.reduceat(under + over, found.first) + lead
    return moved


# Equivalence classes: the rows of a table that agree in what an attacker may know.

Integers = npt.NDArray[np.int64]
_LARGEST = 1 << 62


@dataclass(frozen=True, eq=False)
class Classes:
    """How many rows every class has, and how often each sensitive value is in it.

    Class `of[i]` has `count[i]` rows with the value of code `value[i]`, sorted by class and value;
    values that a class does not have are not listed.
    """

    of: Integers
    value: Integers
    count: Integers
    values: int

    @cached_property
    def first(self) -> Integers:
        """Where the entries of each class begin."""
        found: Integers = np.flatnonzero(np.diff(self.of, prepend=-1))
        return found

    @cached_property
    def sizes(self) -> Integers:
        """The number of rows of each class."""
        found: Integers = np.add.reduceat(self.count, self.first)
        return found

    @property
    def rows(self) -> int:
        return int(self.count.sum())


def classes(rows: Rows, quasi: Sequence[str], sensitive: str | None) -> Classes:
    """Group the rows of a table by what an attacker may know; without a sensitive attribute all
    rows have the same value.
    """
    if not quasi:
        raise SchemaError(
            "No attribute has the role quasi: name what an attacker may know in the schema."
        )
    names = [*quasi, *([sensitive] if sensitive else [])]
    parts = [[column.astype(np.int64) for column in batch] for batch in rows.batches(names)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not columns or not len(columns[0]):
        raise SchemaError("The table has no rows to look at.")
    sizes = [rows.schema[name].size for name in quasi]
    key, _ = _packed(columns[: len(quasi)], sizes)
    values = rows.schema[sensitive].size if sensitive else 1
    secret = columns[-1] if sensitive else np.zeros(len(key), np.int64)
    _, group = np.unique(key, return_inverse=True)
    pairs, count = np.unique(group.astype(np.int64) * values + secret, return_counts=True)
    return Classes(pairs // values, pairs % values, count.astype(np.int64), values)


def _packed(columns: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, int]:
    """One number for every combination of codes; renumbered when the product grows too large."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size > _LARGEST:
            found, key = np.unique(key, return_inverse=True)
            key, span = key.astype(np.int64), len(found)
        key, span = key * size + column, span * size
    return key, span
