"""What a table shows as it is: anonymity, diversity, closeness and the risk to be found in it.

These measures compare rows with rows; they say nothing about what an attacker knows besides.
References: k-anonymity (Sweeney 2002), l-diversity and its entropy and recursive forms
(Machanavajjhala et al. 2007), t-closeness (Li et al. 2007), beta-likeness (Cao and Karras 2012),
delta-disclosure (Brickell and Shmatikov 2008).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.audit.classes import Classes

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
