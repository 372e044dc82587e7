"""Balancing: rows cut into groups of few values each, in which no rare value is much more frequent
than in the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# How often each value occurs.
Counts = dict[int, int]

# Real tables need about 20 groups; the orders that are tried and their merges grow with the square.
MOST_GROUPS = 200


def balanced(rare: Mapping[int, int], frequent: Mapping[int, int]) -> list[Counts]:
    """Groups of values with their numbers of rows: the rare values balanced, the others spread."""
    groups = _balance(rare)
    _spread(frequent, groups)
    return groups


def balance_level(counts: Mapping[int, int]) -> int:
    """θ: the largest whole number such that no value has more than 1/θ of the rows."""
    return sum(counts.values()) // max(counts.values())


def _balance(rare: Mapping[int, int]) -> list[Counts]:
    """Rounds that take the same number of rows of each of the θ most frequent values.

    The number is the largest that leaves the rest θ-balanced, so that every group is, and so that
    θ values are left as long as any row is. Of equally frequent values the smaller goes first.
    """
    theta = balance_level(rare)
    rest = sum(rare.values())
    values = np.array(sorted(rare))
    top, base = max(rare.values()), len(values)
    # One number for each value, such that they sort as described; it grows as rows are taken.
    counts = np.array([rare[value] for value in values.tolist()])
    keys = np.sort((top - counts) * base + np.arange(base))
    groups: list[Counts] = []
    while len(keys):
        most, others = keys[:theta], keys[theta:]
        left = top - keys // base
        following = int(left[theta]) if len(others) else 0
        height = _height(rest, theta, int(left[0]), int(left[theta - 1]), following)
        if height == 0 or len(groups) == MOST_GROUPS - 1:
            groups.append(dict(zip(values[keys % base].tolist(), left.tolist(), strict=True)))
            break
        groups.append(dict.fromkeys(values[most % base].tolist(), height))
        rest -= theta * height
        again = most[left[:theta] > height] + height * base
        keys = np.sort(np.concatenate([again, others]), kind="stable")  # two runs: quickly merged
    return groups


def _height(rest: int, theta: int, first: int, last: int, following: int) -> int:
    """How many rows of each of the θ most frequent values leave the rest θ-balanced, at most.

    σ(μθ) ≥ μθ, both sides times θ; otherwise the next value is what limits.
    """
    if rest - theta * max(first - last, following) >= theta * last:
        return last
    return rest // theta - following


def _spread(frequent: Mapping[int, int], groups: list[Counts]) -> None:
    """Add the other rows to the groups in proportion to their sizes, the residue to the last.

    The most frequent value goes first, and as far as it reaches, so that a group gets few values.
    """
    sizes = [sum(group.values()) for group in groups]
    balanced_rows, spread_rows = sum(sizes), sum(frequent.values())
    room = [size * spread_rows // balanced_rows for size in sizes]
    place = 0
    for value, count in sorted(frequent.items(), key=lambda item: (-item[1], item[0])):
        while count:
            while room[place] == 0 and place < len(groups) - 1:
                place += 1
            taken = count if place == len(groups) - 1 else min(count, room[place])
            groups[place][value] = groups[place].get(value, 0) + taken
            room[place] -= taken
            count -= taken
