"""Parts of baskets that agree on some groups of items, refined down a taxonomy until a part is one
whole basket (DiffPart). Parts without baskets are drawn lazily, as the children in `grow`.

The taxonomy is public: consecutive items in groups of `fanout`, groups of such groups, and so on. A
part is a *cut*: disjoint groups, such that its baskets have items of each of them and no others. A
step opens the largest group of a cut; a basket goes to the subset of the smaller groups that it has
items of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.schema.lists import EncodedLists
from scumble.private.meter.grow import ChildNumbers, Threshold
from scumble.private.meter.noise import NoisySteps, check_scale
from scumble.private.tables.counter import summed_cells

Integers = npt.NDArray[np.int64]
Group = tuple[int, int]  # the first item, and the one after the last

MOST_PARTS = 1 << 18
_GRID = 1 << 40  # the ε of a step is rounded down to multiples of 2^-40


def smaller_groups(group: Group, fanout: int) -> list[Group]:
    """Return the groups that a group consists of, at most `fanout`; none if it is one item.

    >>> smaller_groups((0, 10), 3)
    [(0, 9), (9, 10)]
    """
    begin, end = group
    width = 1
    while width * fanout < end - begin:
        width *= fanout
    found = [(at, min(at + width, end)) for at in range(begin, end, width)]
    return found if len(found) > 1 else []


@lru_cache(maxsize=1 << 12)
def opened_groups(items: int, fanout: int) -> int:
    """Return the number of groups to open in a group of so many items, down to single items.

    >>> opened_groups(9, 3)
    4
    """
    inside = smaller_groups((0, items), fanout)
    return sum(opened_groups(end - begin, fanout) for begin, end in inside) + bool(inside)


@dataclass(frozen=True)
class Part:
    """A cut, in order, and the ε that is `left` for steps below it."""

    cut: tuple[Group, ...]
    left: Fraction
    fanout: int

    @cached_property
    def opened(self) -> Group:
        """The largest group, the first of several."""
        return max(self.cut, key=lambda group: (group[1] - group[0], -group[0]))

    @cached_property
    def groups(self) -> list[Group]:
        """The groups that the largest one consists of."""
        return smaller_groups(self.opened, self.fanout)

    @property
    def paid(self) -> Fraction:
        """The ε of the next step: what is left, divided by the most steps that may follow."""
        steps = sum(opened_groups(end - begin, self.fanout) for begin, end in self.cut)
        return Fraction(self.left * _GRID // steps, _GRID)

    def with_groups(self, subset: int) -> Part:
        """Return the part of the baskets with items of these groups, given as bits."""
        chosen = [group for place, group in enumerate(self.groups) if subset >> place & 1]
        others = [group for group in self.cut if group != self.opened]
        return Part(tuple(sorted([*others, *chosen])), self.left - self.paid, self.fanout)


@dataclass(frozen=True, eq=False)
class WholeParts:
    """Parts that are one basket each, and the private numbers of their baskets."""

    parts: list[Part]
    numbers: Integers


def basket_parts(
    baskets: Callable[[], Iterator[EncodedLists]],
    noise: NoisySteps,
    whole: Part,
    sensitivity: int,
    false_parts: float,
) -> WholeParts:
    """Return the parts that are one basket and that passed all steps from `whole`, which has all
    items; the numbers of their baskets are private.

    The loss of all steps is at most `whole.left`, if a person changes `sensitivity` baskets: a
    basket is in one part of each level, which is opened with noise of scale sensitivity / paid, and
    the ε of the steps on its way add up to at most `whole.left`. Each step lets pass at most
    `false_parts` parts in the mean, if no basket is in it.
    """
    parts, place = [whole], _Places(baskets)
    found: list[Part] = []
    numbers: list[int] = []
    made = 0
    while parts and made < MOST_PARTS:
        children = place.children(parts)
        passed = _passed(parts, children, noise, sensitivity, false_parts)
        made += len(passed)
        width = whole.fanout
        below = [parts[key >> width].with_groups(key & ((1 << width) - 1)) for key in passed]
        single = np.array([not part.groups for part in below], bool)
        at = np.array(passed, np.int64)
        place.move(at[~single])
        counted = dict(zip(children.keys.tolist(), children.numbers.tolist(), strict=True))
        numbers += [counted.get(key, 0) for key in at[single].tolist()]
        found += [part for part, is_single in zip(below, single, strict=True) if is_single]
        parts = [part for part, is_single in zip(below, single, strict=True) if not is_single]
    return WholeParts(found, np.array(numbers, np.int64))


def _passed(
    parts: list[Part],
    children: ChildNumbers,
    noise: NoisySteps,
    sensitivity: int,
    false_parts: float,
) -> list[int]:
    """Return the keys of the parts that pass; steps with equal noise are drawn together."""
    width = parts[0].fanout
    together: dict[tuple[Fraction, int], list[int]] = {}
    for number, part in enumerate(parts):
        together.setdefault((part.paid, 2 ** len(part.groups) - 1), []).append(number)
    owner, subset = children.keys >> width, children.keys & ((1 << width) - 1)
    found: list[int] = []
    for (paid, subsets), members in together.items():
        level = Threshold.for_fanout(DiscreteLaplace(sensitivity / paid), subsets, false_parts)
        check_scale(level.law)
        own = np.array(members)
        rank = np.minimum(np.searchsorted(own, owner), len(own) - 1)
        mine = own[rank] == owner
        keys = rank[mine] * subsets + subset[mine] - 1
        shift = 1 - level.theta  # number + noise ≥ θ is number - θ + 1 + noise > 0
        size = len(members) * subsets
        chosen = noise.split_children(keys, children.numbers[mine] + shift, level.law, shift, size)
        found += ((own[chosen // subsets] << width) + chosen % subsets + 1).tolist()
    return sorted(found)


class _Places:
    """The part of every basket: a number for each. Each step is one more pass over the baskets."""

    def __init__(self, baskets: Callable[[], Iterator[EncodedLists]]) -> None:
        self._baskets = baskets
        self._part: npt.NDArray[np.int32] | None = None  # all in part 0
        self._keys: list[Integers] = []

    def children(self, parts: list[Part]) -> ChildNumbers:
        """Return the numbers of baskets by part and subset of the groups that it opens."""
        width = parts[0].fanout
        begin, end = np.array([part.opened for part in parts]).T
        size = np.array([part.groups[0][1] - part.groups[0][0] for part in parts])
        self._keys = []

        def keys() -> Iterator[tuple[Integers, Integers]]:
            first = 0
            for batch in self._baskets():
                last = first + len(batch)
                part = (
                    np.zeros(len(batch), np.int32) if self._part is None else self._part[first:last]
                )
                first = last
                own = part[batch.owners]
                code = batch.codes.astype(np.int64)
                inside = (own >= 0) & (begin[own] <= code) & (code < end[own])
                own, code = own[inside], code[inside]
                subset = np.zeros(len(batch), np.int64)
                bits = np.left_shift(1, (code - begin[own]) // size[own])
                np.bitwise_or.at(subset, batch.owners[inside], bits)
                found = np.where(subset > 0, (part.astype(np.int64) << width) + subset, -1)
                self._keys.append(found)
                there = found[found >= 0]
                yield there, np.ones(len(there), np.int64)

        return ChildNumbers(*summed_cells(keys(), len(parts) << width))

    def move(self, passed: Integers) -> None:
        """Send every basket to the part of its key among `passed`, or to none."""
        parts = [_place_among(passed, keys) for keys in self._keys]
        self._part = np.concatenate([np.empty(0, np.int32), *parts])
        self._keys = []


def _place_among(passed: Integers, keys: Integers) -> npt.NDArray[np.int32]:
    """Return the place of each key among `passed`, which are sorted; -1 for those that are not."""
    at = np.minimum(np.searchsorted(passed, keys), max(len(passed) - 1, 0))
    hit = passed[at] == keys if len(passed) else np.zeros(len(keys), bool)
    return np.where(hit, at, -1).astype(np.int32)
