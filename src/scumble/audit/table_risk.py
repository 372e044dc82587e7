"""k-anonymity, l-diversity, t-closeness and (n, t)-closeness of a table that is published as it is,
and the risk of re-identification.

These measures compare rows with rows; they say nothing about an attacker with other knowledge.
References: k-anonymity (Sweeney 2002), l-diversity and its entropy and recursive forms
(Machanavajjhala et al. 2007), t-closeness (Li et al. 2007), (n, t)-closeness (Li, Li and
Venkatasubramanian 2010), beta-likeness (Cao and Karras 2012),
delta-disclosure (Brickell and Shmatikov 2008).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.audit.report import Finding, Verdict
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.privacy.guarantee import percent_at_least, percent_at_most
from scumble.private.tables.rows import Rows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Anonymity:
    """How well the quasi-identifiers alone identify people."""

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
    """What an equivalence class tells about the sensitive value, at worst."""

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
    """Return how well people are identified by the attributes of the classes."""
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
    """Return what the classes tell at worst; if `ordered`, t is the distance of ordered values."""
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
    """Return the earth mover's distance of each class from the whole table, from 0 to 1."""
    if not ordered:
        gains = np.maximum(share - whole[found.value], 0.0)
        return np.add.reduceat(gains, found.first)
    return _ordered(found, share, whole) / max(found.values - 1, 1)


def _distinct(found: Classes) -> npt.NDArray[np.int64]:
    """Return how many different values each class has."""
    return np.diff(found.first, append=len(found.of))


def _recursive(found: Classes, share: Floats, least: int) -> float:
    """Return the smallest c such that every class has r1 ≤ c (r_l + ... + r_m), for the shares r in
    descending order.
    """
    order = np.lexsort((-share, found.of))
    falling = share[order]
    place = np.arange(len(falling)) - np.repeat(found.first, _distinct(found))
    tails = np.add.reduceat(np.where(place >= least - 1, falling, 0.0), found.first)
    return float((falling[found.first] / tails).max())


def _ordered(found: Classes, share: Floats, whole: Floats) -> Floats:
    """Return Σ |F_class - F_whole| over the ordered values, F being cumulative distributions.

    F of a class is constant from one of its values to the next, and F of the whole table rises. So
    the difference changes its sign at most once on each such interval, at a place found by
    bisection, and both sides are differences of a cumulative sum.
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


# (n, t)-closeness: every class lies in a natural superset of at least n rows whose distribution of
# the sensitive value is within t of that of the class. The supersets that are searched are the rows
# that agree with the class in some of the quasi-identifiers: in all of them (the class itself), in
# all but one, and so on to none (the whole table).

MOST_QUASI = 10  # quasi-identifiers, of which every set is tried
_TOGETHER = 1 << 22  # shares of classes and values that are compared at once


def superset_distances(found: Classes, n: int, t: float | None, *, ordered: bool) -> Floats:
    """Return the distance of each class from the nearest superset of at least `n` rows.

    With `t`, the search for a class ends at a distance of at most `t`. If `ordered`, the distance
    is that of ordered values.
    """
    columns = len(found.codes)
    if columns > MOST_QUASI:
        raise ParameterError(
            f"(n, t)-closeness is searched for up to {MOST_QUASI} quasi-identifiers; the schema "
            f"has {columns}. Give the others another role, or leave out n."
        )
    if not 1 <= n <= found.rows:
        raise ParameterError("The n of (n, t)-closeness is from 1 to the number of rows.")
    enough = -1.0 if t is None else t
    least = np.full(len(found.sizes), np.inf)
    for kept in range(columns, -1, -1):
        for places in combinations(range(columns), kept):
            left = np.flatnonzero(least > max(enough, 0.0))
            if not len(left):
                return least
            group = _grouped([found.codes[place] for place in places], len(least))
            rows = np.bincount(group, found.sizes)
            left = left[rows[group[left]] >= n]
            step = max(1, _TOGETHER // found.values)
            left = left[np.argsort(group[left], kind="stable")]  # a group in few steps
            for begin in range(0, len(left), step):
                some = left[begin : begin + step]
                near = _between(found, some, group, ordered=ordered)
                least[some] = np.minimum(least[some], near)
    return least


def _grouped(columns: Sequence[Integers], classes: int) -> Integers:
    """Return the number of the group of each class: those with equal codes in `columns`."""
    if not columns:
        return np.zeros(classes, np.int64)
    key, _ = _packed(columns, [int(column.max()) + 1 for column in columns])
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _between(found: Classes, some: Integers, group: Integers, *, ordered: bool) -> Floats:
    """Return the distance of each of some classes from its group."""
    number = np.full(len(found.sizes), -1)
    number[some] = np.arange(len(some))
    groups, own = np.unique(group[some], return_inverse=True)
    place = np.full(int(group.max()) + 1, -1)
    place[groups] = np.arange(len(groups))
    shares = _shares(number[found.of], found, len(some))
    whole = _shares(place[group[found.of]], found, len(groups))
    if ordered:
        shares, whole = shares.cumsum(axis=1), whole.cumsum(axis=1)
    moved: Floats = np.abs(shares - whole[own]).sum(axis=1)
    return moved / (max(found.values - 1, 1) if ordered else 2)


def _shares(lines: npt.NDArray[Any], found: Classes, size: int) -> Floats:
    """Return the shares of all values in each line; entries with the line -1 are left out."""
    entries = lines >= 0
    places = lines[entries] * found.values + found.value[entries]
    counts = np.bincount(places, found.count[entries].astype(float), size * found.values)
    table = counts.reshape(size, found.values)
    shares: Floats = table / table.sum(axis=1, keepdims=True)
    return shares


# Equivalence classes: the rows of a table that agree in all quasi-identifiers.

Integers = npt.NDArray[np.int64]
_LARGEST = 1 << 62


@dataclass(frozen=True, eq=False)
class Classes:
    """The equivalence classes of a table and the sensitive values in each.

    Class `of[i]` has `count[i]` rows with the value of code `value[i]`, sorted by class and value;
    values that a class does not have are not listed. The attribute has `values` values. `codes` has
    an array for each quasi-identifier: the code that all rows of a class have.
    """

    of: Integers
    value: Integers
    count: Integers
    values: int
    codes: tuple[Integers, ...] = ()

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
    """Group the rows of a table by the attributes `quasi`.

    Without a sensitive attribute all rows have the same value.
    """
    if not quasi:
        raise SchemaError(
            "No attribute with one value per row has the role quasi: name what an attacker may "
            "know in the schema; of a list, a column derived from it, such as length(x)."
        )
    names = [*quasi, *([sensitive] if sensitive else [])]
    parts = [[column.astype(np.int64) for column in batch] for batch in rows.batches(names)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not columns or not len(columns[0]):
        raise SchemaError("The table has no rows.")
    sizes = [rows.schema[name].size for name in quasi]
    key, _ = _packed(columns[: len(quasi)], sizes)
    values = rows.schema[sensitive].size if sensitive else 1
    secret = columns[-1] if sensitive else np.zeros(len(key), np.int64)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    pairs, count = np.unique(group.astype(np.int64) * values + secret, return_counts=True)
    codes = tuple(column[first] for column in columns[: len(quasi)])
    return Classes(pairs // values, pairs % values, count.astype(np.int64), values, codes)


def _packed(columns: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, int]:
    """Return a number for every combination of codes, and how many numbers are possible.

    Combinations are renumbered when the product of the sizes grows too large.
    """
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size > _LARGEST:
            found, key = np.unique(key, return_inverse=True)
            key, span = key.astype(np.int64), len(found)
        key, span = key * size + column, span * size
    return key, span


# What the figures mean, in sentences.


def anonymity_finding(found: Anonymity, k: int | None, most_rows: int = 1) -> Finding:
    """Return how anonymous a table is; "refuted" if `k` is claimed and not reached. Of a group in
    which a person may have `most_rows` rows, only the least number of people is known.
    """
    people = -(-found.k // most_rows)
    alone, few = found.alone / found.rows, found.few / found.rows
    sentence = (
        f"The smallest group of {'people who' if most_rows == 1 else 'rows that'} agree in all "
        f"quasi-identifiers has {found.k}; "
        f"{percent_at_least(alone)} of the rows are alone in theirs, {percent_at_least(few)} share "
        "it with fewer than four others. The row of a person who is known to be in the table is "
        f"found with probability {found.average_risk:.3g} on average, {found.largest_risk:.3g} at "
        "worst."
    )
    if most_rows > 1:
        sentence += (
            f" A person may have {most_rows} rows: the group may be of {people} people only."
        )
    claim = "k-anonymity" if k is None else f"k-anonymity with k = {k}"
    return _measured("k-anonymity", claim, sentence, found.to_dict(), k is None or people >= k, k)


def diversity_findings(
    name: str,
    found: Diversity,
    l: int | None,  # noqa: E741  # the letter that everybody uses for it
    t: float | None,
) -> Iterator[Finding]:
    """Yield the diversity and the closeness of a sensitive attribute, as claimed or as found."""
    values = "one value" if found.l == 1 else f"{found.l} different values"
    sentence = (
        f"At worst a group has {values} of {name} (entropy l = {found.entropy_l:.3g}); the most "
        f"frequent one has a share of {percent_at_most(round(found.alpha, 12))}."
    )
    numbers = found.to_dict()
    claim = f"l-diversity of {name}" + ("" if l is None else f" with l = {l}")
    yield _measured("l-diversity", claim, sentence, numbers, l is None or found.l >= l, l)
    sentence = (
        f"The distribution of {name} in a group is at most {found.t:.3g} away from the whole "
        "table's (earth mover's distance, 0 to 1)."
    )
    claim = f"t-closeness of {name}" + ("" if t is None else f" with t = {t:g}")
    yield _measured("t-closeness", claim, sentence, numbers, t is None or found.t <= t, t)


def closeness_finding(name: str, found: Floats, n: int, t: float | None) -> Finding:
    """Return the (n, t)-closeness of a sensitive attribute from the distances of its classes."""
    far = float(found.max())
    sentence = (
        f"Every group lies among at least {n} rows that agree with it in some of the "
        f"quasi-identifiers, or in none, and whose distribution of {name} is at most {far:.3g} "
        "away from its own (earth mover's distance, 0 to 1). Other larger groups were not searched."
    )
    claim = f"(n, t)-closeness of {name} with n = {n}" + ("" if t is None else f", t = {t:g}")
    kept = t is None or far <= t
    return _measured("(n, t)-closeness", claim, sentence, {"n": n, "t": far}, kept, t)


def _measured(
    check: str, claim: str, sentence: str, numbers: dict[str, Any], kept: bool, asked: object
) -> Finding:
    verdict: Verdict = "refuted" if not kept else "noted" if asked is None else "exact"
    return Finding(check, claim, verdict, sentence, numbers)
