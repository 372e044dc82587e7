"""The private table in codes: distinct rows, their counts, and the losses of all levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.families.generalise.design import number_nodes
from scumble.families.generalise.publish.criteria import Criteria
from scumble.model.schema.hierarchies import Levels

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DENSE = 1 << 22  # up to this number of possible keys, groups are counted in an array
_LARGEST = 1 << 62


@dataclass(frozen=True, eq=False)
class CodedTable:
    """The distinct combinations of quasi-identifiers and sensitive value, with their counts.

    `codes[a]` are the codes of attribute a, `secret` the number of the sensitive value, one of
    `values`, and `count` how many rows there are of each combination. `weights` say how much the
    loss of each attribute counts; they add up to 1.
    """

    codes: tuple[Integers, ...]
    secret: Integers
    count: Integers
    values: int
    levels: tuple[Levels, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        codes: Sequence[npt.NDArray[Any]],
        secret: npt.NDArray[Any] | None,
        values: int,
        levels: Sequence[Levels],
        weights: Sequence[float],
    ) -> tuple[CodedTable, Integers]:
        """Return the distinct rows of a table, given as codes of its columns, and the number of the
        distinct row of each row.
        """
        columns = [column.astype(np.int64) for column in codes]
        rows = len(columns[0]) if columns else 0
        hidden = np.zeros(rows, np.int64) if secret is None else secret.astype(np.int64)
        sizes = [*(hierarchy.size for hierarchy in levels), max(values, 1)]
        key = pack_columns([*columns, hidden], sizes)
        _, first, number, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        distinct = tuple(column[first] for column in columns)
        total = sum(weights)
        shares = tuple(weight / total for weight in weights)
        table = cls(distinct, hidden[first], count, max(values, 1), tuple(levels), shares)
        return table, number

    @property
    def rows(self) -> int:
        return int(self.count.sum())

    @property
    def top(self) -> tuple[int, ...]:
        """The highest level of each attribute."""
        return tuple(hierarchy.height for hierarchy in self.levels)

    def nodes(self, levels: Integers) -> list[Integers]:
        """Return the node of each distinct row by attribute, given its level in each."""
        nodes = []
        for index, hierarchy in enumerate(self.levels):
            known = number_nodes(hierarchy)
            table = np.stack([known.numbers[h][group] for h, group in enumerate(hierarchy.groups)])
            nodes.append(table[levels[:, index], self.codes[index]])
        return nodes

    @cached_property
    def groups(self) -> tuple[tuple[Integers, ...], ...]:
        """The group of every distinct row, by attribute and level."""
        return tuple(
            tuple(group[column] for group in hierarchy.groups)
            for column, hierarchy in zip(self.codes, self.levels, strict=True)
        )

    @cached_property
    def losses(self) -> tuple[tuple[Floats, ...], ...]:
        """The loss of every distinct row, by attribute and level: see `loss_by_group`."""
        return tuple(
            tuple(
                weight * loss_by_group(hierarchy, level)[group[column]]
                for level, group in enumerate(hierarchy.groups)
            )
            for column, hierarchy, weight in zip(self.codes, self.levels, self.weights, strict=True)
        )


def loss_by_group(levels: Levels, level: int) -> Floats:
    """Return the granularity loss of each group of a level: (values - 1) / (all values - 1).

    It is 0 for a single value and 1 for all (Iyengar's loss metric; ARX calls it granularity).
    """
    return (levels.sizes(level) - 1) / max(levels.size - 1, 1)


def pack_columns(columns: Sequence[Integers], sizes: Sequence[int]) -> Integers:
    """Return one number for each combination; renumber them when they would overflow."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size > _LARGEST:
            distinct, key = np.unique(key, return_inverse=True)
            span = len(distinct)
        key, span = key * size + column, span * size
    return key


def number_groups(columns: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, int]:
    """Return the number of the group of each row, from 0 on, and how many numbers there are.

    Some numbers may be of no row.
    """
    span = 1
    for size in sizes:
        span *= size
    key = pack_columns(columns, sizes)
    if span <= DENSE:
        return key, span
    distinct, group = np.unique(key, return_inverse=True)
    return group, len(distinct)


# --- lattice --------------------------------------------------------------------------------------
#
# Global recoding: the combination of levels with the least loss, found exactly.
#
# Every quasi-identifier has one level. Rows whose group does not satisfy the criteria are left out,
# at most a given number. The loss of a row is the weighted mean of the granularity losses of its
# values, and 1 if it is left out. The search is exact:
#
# - no combination has a smaller loss than all its rows have at these levels without leaving any
#   out, which is the sum of one number for each attribute and level (`bounds`): combinations whose
#   bound is not below the best loss so far are never counted;
# - groups only grow with the levels. So where more rows than allowed are in groups below k (with
#   monotone criteria: in groups that do not satisfy them), the same is true of every combination of
#   levels that are not higher: all of these are excluded.
#
# The next combination to be counted is the one in the middle of those that are left, by their
# bounds.

Flags = npt.NDArray[np.bool_]
MOST_COMBINATIONS = 10**7
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Recoded:
    """One combination of levels: its loss, and which distinct rows are published."""

    levels: tuple[int, ...]
    loss: float
    published: Flags
    left_out: int


@dataclass(frozen=True, eq=False)
class NodeResult:
    """The groups of one combination: which distinct rows they publish and how many rows they lose.

    `small` is the number of rows in groups below k.
    """

    published: Flags
    left_out: int
    small: int


def optimal(table: CodedTable, criteria: Criteria, most_left_out: int) -> Recoded | None:
    """Return the combination of levels with the least loss; None if no combination will do.

    Of equal losses, return the one with the smaller levels, from the first attribute on.
    """
    bounds = lower_bounds(table)
    undecided = np.ones(bounds.shape, bool)
    prunes_all = criteria.monotone or not most_left_out
    best: Recoded | None = None
    while True:
        limit = np.inf if best is None else best.loss + _TIE
        left = np.flatnonzero((undecided & (bounds <= limit)).reshape(-1))
        if not len(left):
            return best
        order = np.argpartition(bounds.reshape(-1)[left], len(left) // 2)
        node = np.unravel_index(left[order[len(left) // 2]], bounds.shape)
        levels = tuple(int(level) for level in node)
        judged = judge(table, levels, criteria)
        undecided[node] = False
        excluded = judged.left_out if prunes_all else judged.small
        if excluded > most_left_out:
            undecided[tuple(slice(0, level + 1) for level in levels)] = False
        if judged.left_out <= most_left_out:
            candidate = Recoded(
                levels,
                measure_loss(table, levels, judged.published),
                judged.published,
                judged.left_out,
            )
            best = _choose_better(best, candidate)


def _choose_better(best: Recoded | None, candidate: Recoded) -> Recoded:
    if best is None or candidate.loss < best.loss - _TIE:
        return candidate
    same = candidate.loss <= best.loss + _TIE
    return candidate if same and candidate.levels < best.levels else best


def lower_bounds(table: CodedTable) -> Floats:
    """Return the loss of every combination of levels, if no row is left out."""
    total = max(table.rows, 1)
    shape = [height + 1 for height in table.top]
    bounds = np.zeros(shape)
    for axis, losses in enumerate(table.losses):
        along = np.array([float(loss @ table.count) / total for loss in losses])
        bounds += along.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return bounds


def judge(table: CodedTable, levels: Sequence[int], criteria: Criteria) -> NodeResult:
    """Return which distinct rows are published at these levels."""
    group, number = group_rows(table, levels)
    sizes = np.bincount(group, table.count, number).astype(np.int64)
    small = int(sizes[sizes < criteria.k].sum())
    if not criteria.about_values:
        return NodeResult(sizes[group] >= criteria.k, small, small)
    large = np.flatnonzero(sizes >= criteria.k)
    position = np.full(number, -1)
    position[large] = np.arange(len(large))
    at = position[group]
    some = at >= 0
    cells = at[some] * table.values + table.secret[some]
    values = np.bincount(cells, table.count[some], len(large) * table.values)
    satisfying = _keep_satisfying(values.reshape(-1, table.values).astype(np.int64), criteria)
    published = np.zeros(number, bool)
    published[large[satisfying]] = True
    return NodeResult(published[group], int(table.rows - sizes[published].sum()), small)


def _keep_satisfying(values: Integers, criteria: Criteria) -> Flags:
    """Return the groups that satisfy the criteria, with reference to what is published.

    t-closeness compares with all published rows, and these depend on what is left out. So leave out
    the groups that fail and compare the others again, until all that are left satisfy it.
    """
    remaining = np.ones(len(values), bool)
    while True:
        reference = values[remaining].sum(axis=0)
        satisfied = remaining & criteria.check_groups(values.sum(axis=1), values, reference)
        if criteria.t is None or (satisfied == remaining).all():
            return satisfied
        remaining = satisfied


def group_rows(table: CodedTable, levels: Sequence[int]) -> tuple[Integers, int]:
    """Return the group of each distinct row, and a bound on the numbers of groups."""
    columns, sizes = [], []
    for hierarchy, groups, level in zip(table.levels, table.groups, levels, strict=True):
        if level < hierarchy.height:
            columns.append(groups[level])
            sizes.append(len(hierarchy.labels[level]))
    if not columns:
        return np.zeros(len(table.count), np.int64), 1
    return number_groups(columns, sizes)


def measure_loss(table: CodedTable, levels: Sequence[int], published: Flags) -> float:
    """Return the loss of a combination of levels; rows that are not kept lose everything."""
    loss = np.sum([table.losses[a][level] for a, level in enumerate(levels)], axis=0)
    return float(np.where(published, loss, 1.0) @ table.count) / max(table.rows, 1)


# --- local ----------------------------------------------------------------------------------------
#
# Local recoding: groups of rows are cut along hierarchies, each as fine as its rows allow.
#
# Rows whose values as they are satisfy the criteria are groups of their own from the start. All
# others are one group at first, in which every quasi-identifier has its highest level; so are all
# rows, if those others alone do not satisfy the criteria. A cut of a group takes one
# quasi-identifier one level down: rows whose new group satisfies the criteria move there, and the
# others stay together at the old level, if they satisfy the criteria, too; else the smallest of the
# new groups stays with them. In every round each group takes its best cut, until no group has one.
# The best cut gains the most granularity for the information that it gives away: the entropy of
# where its rows go, which is what later cuts lack.


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
        self.maps = [np.stack(hierarchy.groups) for hierarchy in table.levels]
        self.losses = [_build_losses(table, attribute) for attribute in range(len(table.levels))]
        self._keep_values()

    def _keep_values(self) -> None:
        """Make groups of the rows that satisfy the criteria as they are, if the others do, too."""
        table, every = self.table, np.arange(len(self.table.count))
        lowest = [0] * len(table.levels)
        _, part = np.unique(group_rows(table, lowest)[0], return_inverse=True)
        sizes = np.bincount(part, table.count).astype(np.int64)
        values = self._count_values(every, part, len(sizes))
        unchanged = self.criteria.check_groups(sizes, values, self.reference)[part]
        others = table.count * ~unchanged
        number = np.array([others.sum()])
        shown = np.bincount(table.secret, others, table.values).astype(np.int64)[None, :]
        fine = not number[0] or self.criteria.check_groups(number, shown, self.reference)[0]
        if not unchanged.any() or not fine:
            return
        _, renamed = np.unique(part[unchanged], return_inverse=True)
        self.group[unchanged] = 1 + renamed
        alone = np.zeros((int(renamed.max()) + 1, len(lowest)), np.int64)
        self.level = np.concatenate([self.level, alone])

    def run(self) -> None:
        """Cut until no group can be cut."""
        active: Flags = np.ones(len(self.level), bool)
        while active.any():
            cuts = [self._cut(attribute, active) for attribute in range(len(self.maps))]
            gains = np.stack([cut.gain for cut in cuts])
            chosen = np.where(gains.max(axis=0) > 0, gains.argmax(axis=0), -1)
            active = self._apply(cuts, chosen)

    def _cut(self, attribute: int, active: Flags) -> Cut:
        table, level = self.table, self.level[:, attribute]
        able = active & (level > 0)
        some = np.flatnonzero(able[self.group])
        if not len(some):
            return Cut(np.full(len(table.count), -1), np.zeros(0, bool), np.zeros(len(level)))
        owner, code = self.group[some], table.codes[attribute][some]
        below = self.maps[attribute][level[owner] - 1, code]
        key = owner * (int(self.maps[attribute].max()) + 1) + below
        _, first, part = np.unique(key, return_index=True, return_inverse=True)
        count = table.count[some]
        size = np.bincount(part, count, len(first)).astype(np.int64)
        of = owner[first]
        moves = self._choose_moves(some, part, size, of, len(level))
        step = (
            self.losses[attribute][level[of], code[first]]
            - self.losses[attribute][level[of] - 1, code[first]]
        )
        gained: Floats = np.bincount(of, np.where(moves, step * size, 0.0), len(level))  # type: ignore[assignment]
        gain = gained / _measure_information(size, of, moves, len(level))
        whole = np.full(len(table.count), -1)
        whole[some] = part
        return Cut(whole, moves, gain)

    def _choose_moves(
        self, some: Integers, part: Integers, size: Integers, of: Integers, groups: int
    ) -> Flags:
        """Return which parts move, so that what stays in each old group satisfies the criteria."""
        values = self._count_values(some, part, len(size))
        moves = self.criteria.check_groups(size, values, self.reference)
        while True:
            stays = ~moves
            rest = np.bincount(of, size * stays, groups).astype(np.int64)
            shown = None if values is None else _sum_groups(of, values * stays[:, None], groups)
            wrong = (rest > 0) & ~self.criteria.check_groups(rest, shown, self.reference)
            wrong &= np.bincount(of, moves, groups) > 0
            if not wrong.any():
                return moves
            candidates = np.flatnonzero(moves & wrong[of])
            order = candidates[np.lexsort((size[candidates], of[candidates]))]
            least = order[np.flatnonzero(np.diff(of[order], prepend=-1))]
            moves = moves.copy()
            moves[least] = False

    def _count_values(self, some: Integers, part: Integers, parts: int) -> Integers | None:
        if not self.criteria.about_values:
            return None
        cells = part * self.table.values + self.table.secret[some]
        counts = np.bincount(cells, self.table.count[some], parts * self.table.values)
        return counts.reshape(parts, -1).astype(np.int64)

    def _apply(self, cuts: list[Cut], chosen: npt.NDArray[np.int64]) -> Flags:
        """Cut every group along its chosen attribute; return the groups that are new."""
        number, old = len(self.level), self.group.copy()
        levels, fresh = [self.level], [chosen >= 0]
        for attribute, cut in enumerate(cuts):
            rows = np.flatnonzero((chosen[old] == attribute) & (cut.part >= 0))
            rows = rows[cut.moves[cut.part[rows]]]
            if not len(rows):
                continue
            parts, first, renamed = np.unique(
                cut.part[rows], return_index=True, return_inverse=True
            )
            level = self.level[old[rows[first]]].copy()
            level[:, attribute] -= 1
            levels.append(level)
            fresh.append(np.ones(len(parts), bool))
            self.group[rows] = number + renamed
            number += len(parts)
        self.level = np.concatenate(levels)
        return np.concatenate(fresh)


def _build_losses(table: CodedTable, attribute: int) -> Floats:
    """Return the loss of each code of an attribute at each level."""
    hierarchy, weight = table.levels[attribute], table.weights[attribute]
    return np.stack(
        [weight * loss_by_group(hierarchy, h)[group] for h, group in enumerate(hierarchy.groups)]
    )


def _measure_information(size: Integers, of: Integers, moves: Flags, groups: int) -> Floats:
    """Return the entropy of where the rows of each group go, plus a little."""
    total = np.bincount(of, size, groups)
    rest = np.bincount(of, size * ~moves, groups)
    inside = np.where(moves, size, 1) / np.maximum(total[of], 1)
    entropy = np.bincount(of, np.where(moves, -size * np.log(inside), 0.0), groups)
    share = np.maximum(rest, 1) / np.maximum(total, 1)
    entropy -= rest * np.log(share)
    return entropy + 0.01 * np.maximum(total, 1)


def _sum_groups(of: Integers, values: Integers, groups: int) -> Integers:
    sums = np.zeros((groups, values.shape[1]), np.int64)
    np.add.at(sums, of, values)
    return sums
