"""Equivalence classes: the rows of a table that agree in what an attacker may know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scumble.model.errors import SchemaError
from scumble.private.tables.rows import Rows

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
