"""Amounts: what one row adds to a sum, as whole numbers by its codes of some attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.private.database.space import Box, Space

if TYPE_CHECKING:
    from scumble.public.sandbox import Sandbox

Integers = npt.NDArray[np.int64]

MOST_CELLS = 10**7  # combinations of values over which amounts are evaluated
_LISTED = 64  # amounts that are written into the name of a sum
_MOST_SCALE = 1000  # by which fractional amounts are multiplied to become whole numbers
_FEW = 10_000  # different amounts for which all scales are tried
_ROUND_SCALES = (1, 2, 4, 5, 10, 20, 50, 100, 1000)
_ROUNDING = 1e-11  # relative error of an amount in floating point


@dataclass(frozen=True)
class Amounts:
    """What one row adds to a sum, by its codes of the attributes `axes`.

    `values` are whole numbers over the product of these attributes, in row-major order: the amounts
    times `scale`.

    The noise of every sum has λ times the largest value anywhere, whatever the box. A row at a
    point that the box covers can change the sum by that much, any other row not at all. So a sum
    costs each of its points as much as a count, and sums over several boxes have noise of one
    scale.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: Integers
    scale: int = 1

    @property
    def largest(self) -> int:
        """The largest change of the sum by one row."""
        return int(np.abs(self.values).max(initial=0))

    @property
    def limits(self) -> tuple[float, float]:
        """The least and largest amount."""
        return float(self.values.min()) / self.scale, float(self.values.max()) / self.scale

    def mean(self, box: Box) -> float:
        """Return the mean of the values over the points of a box."""
        inside = tuple(slice(int(box[axis, 0]), int(box[axis, 1]) + 1) for axis in self.axes)
        return float(self.values.reshape(self.sizes)[inside].mean())

    def name(self, space: Space) -> str:
        """Return a name that sums of the same amounts have, and no others.

        It is made of the amounts and not of SQL, whose meaning depends on side tables.
        """
        names = ", ".join(_plain_or_quoted(space.names[axis]) for axis in self.axes)
        if len(self.values) <= _LISTED:
            return f"sum by {names}: {' '.join(map(str, self.values.tolist()))}"
        digest = hashlib.blake2b(np.ascontiguousarray(self.values).tobytes(), digest_size=16)
        return f"sum by {names}: digest {digest.hexdigest()}"


def _plain_or_quoted(name: str) -> str:
    """Return a name that can be told from others in a list, in quotes where it needs them."""
    return quoted(name) if set(name) & set(',:"') else name


def amounts_of(
    argument: Expression | None, conditions: Sequence[Expression], space: Space, engine: Sandbox
) -> Amounts:
    """Return what a row adds: the argument (None: 1) where all conditions hold, else 0."""
    parts = [*conditions, *([] if argument is None else [argument])]
    named = {name for part in parts for name in part.attributes}
    axes = tuple(axis for axis, name in enumerate(space.names) if name in named)
    sizes = tuple(space.sizes[axis] for axis in axes)
    if (cells := prod(sizes)) > MOST_CELLS:
        raise QueryError(
            f"{parts[-1].sql} would have to be evaluated for {cells} combinations of values; at "
            f"most {MOST_CELLS} are possible. Ask about fewer columns, or coarser ones."
        )
    found = engine.evaluate(parts, [space.names[axis] for axis in axes])
    holds = np.logical_and.reduce([np.ones(cells, bool), *found[: len(conditions)]])
    numbers = holds * (1.0 if argument is None else np.asarray(found[-1], np.float64))
    values, scale = _whole(numbers, argument)
    return Amounts(axes, sizes, values, scale)


def _whole(numbers: npt.NDArray[Any], argument: Expression | None) -> tuple[Integers, int]:
    """Return numbers times the least scale that makes all of them whole, and this scale."""
    some = np.unique(numbers)
    scales: Sequence[int] = _ROUND_SCALES
    if len(some) <= _FEW:
        scales = range(1, _MOST_SCALE + 1)
    for scale in scales if np.isfinite(some).all() else ():
        times = some * scale
        near = np.abs(times - np.rint(times)) <= _ROUNDING * np.maximum(np.abs(times), 1)
        if (np.abs(times) < 2**52).all() and near.all():
            return np.rint(numbers * scale).astype(np.int64), scale
    sql = "1" if argument is None else argument.sql
    raise QueryError(
        f"{sql} is not a whole number for every value, nor is it one after multiplication by a "
        f"number up to {_MOST_SCALE}. Write CAST(ROUND(...) AS INTEGER), in units small enough."
    )
