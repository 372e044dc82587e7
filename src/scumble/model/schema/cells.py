"""Cells of a product of domains, enumerated in row-major order a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.schema.attribute import Attribute

Values = npt.NDArray[Any]

CELL_LIMIT = 10**8
_ROW = "scumble row"
_KEPT_VALUES = 1 << 16  # of an attribute; those of larger domains are decoded for each question


@dataclass(frozen=True)
class CellAxis:
    """One axis of a product: its size, and the values of some attributes at its positions."""

    size: int
    names: tuple[str, ...]
    columns: Callable[[npt.NDArray[np.int64]], list[pa.Array]]
    domain: bool = False  # whether it is the domain of one attribute

    @classmethod
    def of_domain(cls, attribute: Attribute) -> CellAxis:
        """Return the axis of the values of one attribute."""
        kind, size, names = attribute.code_type, attribute.size, (attribute.name,)
        if size > _KEPT_VALUES:
            return cls(size, names, lambda at: [attribute.decode(at.astype(kind))], domain=True)
        values = attribute.decode(np.arange(size).astype(kind))
        return cls(size, names, lambda at: [pc.take(values, pa.array(at))], domain=True)

    @classmethod
    def of_rows(cls, frame: pa.Table) -> CellAxis:
        """Return the axis of the rows of a table."""
        return cls(
            frame.num_rows,
            tuple(frame.column_names),
            lambda at: frame.take(pa.array(at)).combine_chunks().columns,
        )


def cell_count(axes: Sequence[CellAxis]) -> int:
    """Return the number of cells."""
    return prod(axis.size for axis in axes)


def axes_of(axes: Sequence[CellAxis], names: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the axes of these attributes."""
    return tuple(i for i, axis in enumerate(axes) if not set(names).isdisjoint(axis.names))


def cell_table(axes: Sequence[CellAxis], start: int, most: int) -> pa.Table:
    """Return the attributes of at most `most` cells from `start` on."""
    cell = np.arange(start, min(start + most, cell_count(axes)))
    columns: dict[str, Any] = {}
    stride = cell_count(axes)
    for axis in axes:
        stride //= max(axis.size, 1)
        at = cell // max(stride, 1) % max(axis.size, 1)
        columns |= zip(axis.names, axis.columns(at), strict=True)
    return pa.table(columns or {_ROW: cell})


def spread(values: Values, axes: Sequence[CellAxis], named: Sequence[int]) -> Values:
    """Return values over the axes `named`, in their order, repeated over the other axes."""
    if len(named) == len(axes):
        return values.copy()
    narrow = [axis.size if i in named else 1 for i, axis in enumerate(axes)]
    wide = np.broadcast_to(values.reshape(narrow), [axis.size for axis in axes])
    return np.array(wide).reshape(-1)


def codes_within(intervals: Sequence[tuple[int, int]], size: int) -> Values:
    """Return for each code below `size` whether it is in one of the intervals."""
    found = np.zeros(size, bool)
    for low, high in intervals:
        found[low : high + 1] = True
    return found


def cell_values(attributes: Sequence[Attribute], cells: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the values of some cells of the product of domains, given by their numbers."""
    sizes = [attribute.size for attribute in attributes]
    codes = np.unravel_index(np.array(cells, np.int64), sizes)
    columns = []
    for attribute, each in zip(attributes, codes, strict=True):
        labels = attribute.labels().to_pylist()
        columns.append([labels[code] for code in each.tolist()])
    return list(zip(*columns, strict=True))
