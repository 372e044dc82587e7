"""Local recoding: groups of rows are cut along hierarchies, each as fine as its rows allow.

Rows whose values as they are satisfy the criteria are groups of their own from the start. All
others are one group at first, in which every quasi-identifier has its highest level; so are all
rows, if those others alone do not satisfy the criteria. A cut of a group
takes one quasi-identifier one level down: rows whose new group satisfies the criteria move there,
and the others stay together at the old level, if they satisfy the criteria, too; else the smallest
of the new groups stays with them. In every round each group takes its best cut, until no group has
one. The best cut gains the most granularity for the information that it gives away: the entropy of
where its rows go, which is what later cuts lack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.private.perturbation.generalisation.coded import (
    CodedTable,
    Floats,
    Integers,
    loss_by_group,
)
from scumble.private.perturbation.generalisation.criteria import Criteria
from scumble.private.perturbation.generalisation.lattice import grouped

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cut:
    """The cuts of all groups along one attribute.

    `part` is the part of each distinct row: the group that it would move to. `moves[part]` says
    whether that is a group of its own, and `gain` how good the cut of each old group is.
    """

    part: Integers
    moves: Flags
    gain: Floats


class LocalRecoding:
    """Cuts the groups of a table. `level[g, a]` is the level of attribute a in group g, and
    `group` the group of each distinct row.
    """

    def __init__(self, table: CodedTable, criteria: Criteria) -> None:
        self.table, self.criteria = table, criteria
        self.group: Integers = np.zeros(len(table.count), np.int64)
        self.level: Integers = np.array([table.top], np.int64)
        self.reference = np.bincount(table.secret, table.count, table.values).astype(np.int64)
        self.maps = [np.stack(each.groups) for each in table.levels]
        self.losses = [_loss_table(table, place) for place in range(len(table.levels))]
        self._keep_values()

    def _keep_values(self) -> None:
        """Make groups of the rows that satisfy the criteria as they are, if the others do, too."""
        table, every = self.table, np.arange(len(self.table.count))
        lowest = [0] * len(table.levels)
        _, part = np.unique(grouped(table, lowest)[0], return_inverse=True)
        sizes = np.bincount(part, table.count).astype(np.int64)
        values = self._values(every, part, len(sizes))
        kept = self.criteria.satisfied(sizes, values, self.reference)[part]
        others = table.count * ~kept
        number = np.array([others.sum()])
        shown = np.bincount(table.secret, others, table.values).astype(np.int64)[None, :]
        fine = not number[0] or self.criteria.satisfied(number, shown, self.reference)[0]
        if not kept.any() or not fine:
            return
        _, renamed = np.unique(part[kept], return_inverse=True)
        self.group[kept] = 1 + renamed
        alone = np.zeros((int(renamed.max()) + 1, len(lowest)), np.int64)
        self.level = np.concatenate([self.level, alone])

    def run(self) -> None:
        """Cut until no group can be cut."""
        active: Flags = np.ones(len(self.level), bool)
        while active.any():
            cuts = [self._cut(place, active) for place in range(len(self.maps))]
            gains = np.stack([cut.gain for cut in cuts])
            chosen = np.where(gains.max(axis=0) > 0, gains.argmax(axis=0), -1)
            active = self._apply(cuts, chosen)

    def _cut(self, place: int, active: Flags) -> Cut:
        table, level = self.table, self.level[:, place]
        able = active & (level > 0)
        some = np.flatnonzero(able[self.group])
        if not len(some):
            return Cut(np.full(len(table.count), -1), np.zeros(0, bool), np.zeros(len(level)))
        owner, code = self.group[some], table.codes[place][some]
        below = self.maps[place][level[owner] - 1, code]
        key = owner * (int(self.maps[place].max()) + 1) + below
        _, first, part = np.unique(key, return_index=True, return_inverse=True)
        count = table.count[some]
        size = np.bincount(part, count, len(first)).astype(np.int64)
        of = owner[first]
        moves = self._moves(some, part, size, of, len(level))
        step = (
            self.losses[place][level[of], code[first]]
            - self.losses[place][level[of] - 1, code[first]]
        )
        gained: Floats = np.bincount(of, np.where(moves, step * size, 0.0), len(level))  # type: ignore[assignment]
        gain = gained / _information(size, of, moves, len(level))
        whole = np.full(len(table.count), -1)
        whole[some] = part
        return Cut(whole, moves, gain)

    def _moves(
        self, some: Integers, part: Integers, size: Integers, of: Integers, groups: int
    ) -> Flags:
        """Return which parts move, so that what stays in each old group satisfies the criteria."""
        values = self._values(some, part, len(size))
        moves = self.criteria.satisfied(size, values, self.reference)
        while True:
            stays = ~moves
            rest = np.bincount(of, size * stays, groups).astype(np.int64)
            shown = None if values is None else _summed(of, values * stays[:, None], groups)
            wrong = (rest > 0) & ~self.criteria.satisfied(rest, shown, self.reference)
            wrong &= np.bincount(of, moves, groups) > 0
            if not wrong.any():
                return moves
            candidates = np.flatnonzero(moves & wrong[of])
            order = candidates[np.lexsort((size[candidates], of[candidates]))]
            least = order[np.flatnonzero(np.diff(of[order], prepend=-1))]
            moves = moves.copy()
            moves[least] = False

    def _values(self, some: Integers, part: Integers, parts: int) -> Integers | None:
        if not self.criteria.about_values:
            return None
        cells = part * self.table.values + self.table.secret[some]
        found = np.bincount(cells, self.table.count[some], parts * self.table.values)
        return found.reshape(parts, -1).astype(np.int64)

    def _apply(self, cuts: list[Cut], chosen: npt.NDArray[np.int64]) -> Flags:
        """Cut every group along its chosen attribute; return the groups that are new."""
        number, old = len(self.level), self.group.copy()
        levels, fresh = [self.level], [chosen >= 0]
        for place, cut in enumerate(cuts):
            rows = np.flatnonzero((chosen[old] == place) & (cut.part >= 0))
            rows = rows[cut.moves[cut.part[rows]]]
            if not len(rows):
                continue
            parts, first, renamed = np.unique(
                cut.part[rows], return_index=True, return_inverse=True
            )
            level = self.level[old[rows[first]]].copy()
            level[:, place] -= 1
            levels.append(level)
            fresh.append(np.ones(len(parts), bool))
            self.group[rows] = number + renamed
            number += len(parts)
        self.level = np.concatenate(levels)
        return np.concatenate(fresh)


def _loss_table(table: CodedTable, place: int) -> Floats:
    """Return the loss of each code of an attribute at each level."""
    each, weight = table.levels[place], table.weights[place]
    return np.stack([weight * loss_by_group(each, h)[group] for h, group in enumerate(each.groups)])


def _information(size: Integers, of: Integers, moves: Flags, groups: int) -> Floats:
    """Return the entropy of where the rows of each group go, plus a little."""
    total = np.bincount(of, size, groups)
    rest = np.bincount(of, size * ~moves, groups)
    inside = np.where(moves, size, 1) / np.maximum(total[of], 1)
    found = np.bincount(of, np.where(moves, -size * np.log(inside), 0.0), groups)
    share = np.maximum(rest, 1) / np.maximum(total, 1)
    found -= rest * np.log(share)
    return found + 0.01 * np.maximum(total, 1)


def _summed(of: Integers, values: Integers, groups: int) -> Integers:
    found = np.zeros((groups, values.shape[1]), np.int64)
    np.add.at(found, of, values)
    return found
