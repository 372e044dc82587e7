"""The private table in codes: distinct rows, their counts, and the losses of all levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.generalised import numbered_nodes
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
        sizes = [*(each.size for each in levels), max(values, 1)]
        key = packed([*columns, hidden], sizes)
        _, first, number, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        found = tuple(column[first] for column in columns)
        total = sum(weights)
        shares = tuple(weight / total for weight in weights)
        table = cls(found, hidden[first], count, max(values, 1), tuple(levels), shares)
        return table, number

    @property
    def rows(self) -> int:
        return int(self.count.sum())

    @property
    def top(self) -> tuple[int, ...]:
        """The highest level of each attribute."""
        return tuple(each.height for each in self.levels)

    def nodes(self, levels: Integers) -> list[Integers]:
        """Return the node of each distinct row by attribute, given its level in each."""
        found = []
        for place, each in enumerate(self.levels):
            known = numbered_nodes(each)
            table = np.stack([known.numbers[h][group] for h, group in enumerate(each.groups)])
            found.append(table[levels[:, place], self.codes[place]])
        return found

    @cached_property
    def groups(self) -> tuple[tuple[Integers, ...], ...]:
        """The group of every distinct row, by attribute and level."""
        return tuple(
            tuple(group[column] for group in each.groups)
            for column, each in zip(self.codes, self.levels, strict=True)
        )

    @cached_property
    def losses(self) -> tuple[tuple[Floats, ...], ...]:
        """The loss of every distinct row, by attribute and level: see `loss_by_group`."""
        return tuple(
            tuple(
                weight * loss_by_group(each, level)[group[column]]
                for level, group in enumerate(each.groups)
            )
            for column, each, weight in zip(self.codes, self.levels, self.weights, strict=True)
        )


def loss_by_group(levels: Levels, level: int) -> Floats:
    """Return the granularity loss of each group of a level: (values - 1) / (all values - 1).

    It is 0 for a single value and 1 for all (Iyengar's loss metric; ARX calls it granularity).
    """
    return (levels.sizes(level) - 1) / max(levels.size - 1, 1)


def packed(columns: Sequence[Integers], sizes: Sequence[int]) -> Integers:
    """Return one number for each combination; numbers are made small again when they overflow."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size > _LARGEST:
            found, key = np.unique(key, return_inverse=True)
            span = len(found)
        key, span = key * size + column, span * size
    return key


def numbered(columns: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, int]:
    """Return the number of the group of each row, from 0 on, and how many numbers there are.

    Some numbers may be of no row.
    """
    span = 1
    for size in sizes:
        span *= size
    key = packed(columns, sizes)
    if span <= DENSE:
        return key, span
    found, group = np.unique(key, return_inverse=True)
    return group, len(found)
