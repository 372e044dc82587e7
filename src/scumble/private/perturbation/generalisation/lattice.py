"""Global recoding: the combination of levels with the least loss, found exactly.

Every quasi-identifier has one level. Rows whose group does not satisfy the criteria are left out,
at most a given number. The loss of a row is the weighted mean of the granularity losses of its
values, and 1 if it is left out. The search is exact:

- no combination has a smaller loss than all its rows have at these levels without leaving any out,
  which is the sum of one number for each attribute and level (`bounds`): combinations whose bound
  is not below the best loss so far are never counted;
- groups only grow with the levels. So where more rows than allowed are in groups below k (with
  monotone criteria: in groups that do not satisfy them), the same is true of every combination of
  levels that are not higher: all of these are excluded.

The next combination to be counted is the one in the middle of those that are left, by their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.private.perturbation.generalisation.coded import CodedTable, Floats, Integers, numbered
from scumble.private.perturbation.generalisation.criteria import Criteria

Flags = npt.NDArray[np.bool_]
MOST_COMBINATIONS = 10**7
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Recoded:
    """One combination of levels: its loss, and which distinct rows are published."""

    levels: tuple[int, ...]
    loss: float
    kept: Flags
    left_out: int


@dataclass(frozen=True, eq=False)
class Judged:
    """The groups of one combination: which distinct rows they publish and how many rows they lose.

    `small` is the number of rows in groups below k.
    """

    kept: Flags
    left_out: int
    small: int


def optimal(table: CodedTable, criteria: Criteria, most_left_out: int) -> Recoded | None:
    """Return the combination of levels with the least loss; None if no combination will do.

    Of equal losses the one with the smaller levels, from the first attribute on, is returned.
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
            found = Recoded(
                levels, recoded_loss(table, levels, judged.kept), judged.kept, judged.left_out
            )
            best = _better(best, found)


def _better(best: Recoded | None, found: Recoded) -> Recoded:
    if best is None or found.loss < best.loss - _TIE:
        return found
    same = found.loss <= best.loss + _TIE
    return found if same and found.levels < best.levels else best


def lower_bounds(table: CodedTable) -> Floats:
    """Return the loss of every combination of levels, if no row is left out."""
    total = max(table.rows, 1)
    shape = [height + 1 for height in table.top]
    found = np.zeros(shape)
    for axis, losses in enumerate(table.losses):
        along = np.array([float(loss @ table.count) / total for loss in losses])
        found += along.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return found


def judge(table: CodedTable, levels: Sequence[int], criteria: Criteria) -> Judged:
    """Return which distinct rows are published at these levels."""
    group, number = grouped(table, levels)
    sizes = np.bincount(group, table.count, number).astype(np.int64)
    small = int(sizes[sizes < criteria.k].sum())
    if not criteria.about_values:
        return Judged(sizes[group] >= criteria.k, small, small)
    large = np.flatnonzero(sizes >= criteria.k)
    place = np.full(number, -1)
    place[large] = np.arange(len(large))
    at = place[group]
    some = at >= 0
    cells = at[some] * table.values + table.secret[some]
    values = np.bincount(cells, table.count[some], len(large) * table.values)
    kept = _satisfying(values.reshape(-1, table.values).astype(np.int64), criteria)
    published = np.zeros(number, bool)
    published[large[kept]] = True
    return Judged(published[group], int(table.rows - sizes[published].sum()), small)


def _satisfying(values: Integers, criteria: Criteria) -> Flags:
    """Return the groups that satisfy the criteria, with reference to what is published.

    t-closeness compares with all published rows, and these depend on what is left out: groups that
    fail are left out and the others compared again, until all that are left satisfy it.
    """
    kept = np.ones(len(values), bool)
    while True:
        reference = values[kept].sum(axis=0)
        found = kept & criteria.satisfied(values.sum(axis=1), values, reference)
        if criteria.t is None or (found == kept).all():
            return found
        kept = found


def grouped(table: CodedTable, levels: Sequence[int]) -> tuple[Integers, int]:
    """Return the group of each distinct row, and a bound on the numbers of groups."""
    columns, sizes = [], []
    for each, groups, level in zip(table.levels, table.groups, levels, strict=True):
        if level < each.height:
            columns.append(groups[level])
            sizes.append(len(each.labels[level]))
    if not columns:
        return np.zeros(len(table.count), np.int64), 1
    return numbered(columns, sizes)


def recoded_loss(table: CodedTable, levels: Sequence[int], kept: Flags) -> float:
    """Return the loss of a combination of levels; rows that are not kept lose everything."""
    each = np.sum([table.losses[a][level] for a, level in enumerate(levels)], axis=0)
    return float(np.where(kept, each, 1.0) @ table.count) / max(table.rows, 1)
