"""Rearranging: groups in orders in which neighbours have values in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

Order = tuple[int, ...]


def best_order(
    groups: Sequence[Mapping[int, int]], cost: Callable[[Order], float], most: int
) -> Order:
    """The order of lowest cost among the reverse Cuthill–McKee orders from every start, or from the
    `most` least connected ones.

    Groups that have no value in common, not even through others, are components of their own, the
    one with the least connected group first. Where there are several, the start of each is chosen
    in turn, those of the others being what they are.
    """
    near = _neighbours(groups)
    walks = [_walk(near, start) for start in _starts(near)]
    best = _reversed(walks)
    lowest = cost(best)
    for place, walk in enumerate(walks):
        for start in sorted(walk, key=lambda start: (len(near[start]), start))[:most]:
            tried = [*walks[:place], _walk(near, start), *walks[place + 1 :]]
            found = cost(_reversed(tried))
            if found < lowest:
                walks, best, lowest = tried, _reversed(tried), found
    return best


def _neighbours(groups: Sequence[Mapping[int, int]]) -> list[set[int]]:
    """For each group those that share a value with it: where A·Aᵀ is not zero."""
    holders = defaultdict(list)
    for place, group in enumerate(groups):
        for value in group:
            holders[value].append(place)
    near: list[set[int]] = [set() for _ in groups]
    for places in holders.values():
        if len(places) > 1:
            for place in places:
                near[place].update(places)
    return [found - {place} for place, found in enumerate(near)]


def _starts(near: Sequence[set[int]]) -> list[int]:
    """One start in each component: a group with the fewest neighbours."""
    starts, seen = [], set[int]()
    for place in sorted(range(len(near)), key=lambda place: len(near[place])):
        if place not in seen:
            starts.append(place)
            seen.update(_walk(near, place))
    return starts


def _walk(near: Sequence[set[int]], start: int) -> list[int]:
    """Cuthill–McKee: breadth first, those with fewer neighbours first."""
    walk, seen = [start], {start}
    for place in walk:  # grows as it is gone through
        found = sorted(near[place] - seen, key=lambda other: (len(near[other]), other))
        walk += found
        seen.update(found)
    return walk


def _reversed(walks: Sequence[Sequence[int]]) -> Order:
    return tuple(place for walk in walks for place in walk)[::-1]
