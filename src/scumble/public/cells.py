"""The cells of a product of domains, listed in row-major order without holding them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.schema.attribute import Attribute

LIMIT = 10**8
_ROW = "scumble row"

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Axis:
    """One factor of a product: a number of positions, and the values of some attributes at them."""

    size: int
    names: tuple[str, ...]
    columns: Callable[[npt.NDArray[np.int64]], list[pa.Array]]

    @classmethod
    def of_domain(cls, attribute: Attribute) -> Axis:
        """The values of one attribute."""
        kind = attribute.code_type
        return cls(
            attribute.size, (attribute.name,), lambda at: [attribute.decode(at.astype(kind))]
        )

    @classmethod
    def of_rows(cls, frame: pa.Table) -> Axis:
        """The rows of a table."""
        return cls(
            frame.num_rows,
            tuple(frame.column_names),
            lambda at: frame.take(pa.array(at)).combine_chunks().columns,
        )


def count(axes: Sequence[Axis]) -> int:
    """How many cells there are."""
    return prod(axis.size for axis in axes)


def used(axes: Sequence[Axis], names: Sequence[str]) -> tuple[int, ...]:
    """Which axes hold these attributes."""
    return tuple(i for i, axis in enumerate(axes) if not set(names).isdisjoint(axis.names))


def table(axes: Sequence[Axis], start: int, most: int) -> pa.Table:
    """The attributes of at most `most` cells from `start` on."""
    cell = np.arange(start, min(start + most, count(axes)))
    columns: dict[str, Any] = {}
    stride = count(axes)
    for axis in axes:
        stride //= max(axis.size, 1)
        at = cell // max(stride, 1) % max(axis.size, 1)
        columns |= zip(axis.names, axis.columns(at), strict=True)
    return pa.table(columns or {_ROW: cell})


def spread(values: Values, axes: Sequence[Axis], named: Sequence[int]) -> Values:
    """Values over some of the axes, repeated over the others."""
    narrow = [axis.size if i in named else 1 for i, axis in enumerate(axes)]
    wide = np.broadcast_to(values.reshape(narrow), [axis.size for axis in axes])
    return np.array(wide).reshape(-1)
