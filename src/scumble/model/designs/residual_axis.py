"""One axis of a table taken apart into its mean and its contrasts, and put together again.

`split` is an orthonormal change of coordinates (Helmert's): along an axis of n values, coordinate 0
is their sum over √n, coordinate k the difference between the mean of the first k values and the
next one, scaled. So `join`, its transpose, is its inverse; noise that is independent and of one
variance stays so; and what a table says beyond its sums is in the coordinates from 1 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.float64]


def split(table: npt.NDArray[Any], axes: Sequence[int] | None = None) -> Tensor:
    """A table in orthonormal coordinates, along some axes (all by default)."""
    found = np.asarray(table, np.float64)
    for axis in range(found.ndim) if axes is None else axes:
        found = np.moveaxis(_split_last(np.moveaxis(found, axis, -1)), -1, axis)
    return found


def join(coordinates: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The table that `split` took apart; also the transpose of that map."""
    found = coordinates
    for axis in range(found.ndim) if axes is None else axes:
        found = np.moveaxis(_join_last(np.moveaxis(found, axis, -1)), -1, axis)
    return found


def _split_last(table: Tensor) -> Tensor:
    size = table.shape[-1]
    sums = np.cumsum(table, axis=-1)
    found = np.empty_like(sums)
    found[..., 0] = sums[..., -1] / np.sqrt(size)
    places = np.arange(1.0, size)
    found[..., 1:] = (sums[..., :-1] - places * table[..., 1:]) / np.sqrt(places * (places + 1))
    return found


def _join_last(coordinates: Tensor) -> Tensor:
    size = coordinates.shape[-1]
    places = np.arange(1.0, size)
    scaled = coordinates[..., 1:] / np.sqrt(places * (places + 1))
    found = np.empty_like(coordinates)
    found[...] = coordinates[..., :1] / np.sqrt(size)
    # Value j is in the first k values of every coordinate k > j, and is the next one of k = j.
    found[..., :-1] += np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    found[..., 1:] -= places * scaled
    return found


def differences(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The first value less each of the others, along every axis: whole numbers that say all that a
    table says beyond its sums.
    """
    found = table
    for axis in range(table.ndim):
        lead = np.moveaxis(found, axis, 0)
        found = np.moveaxis(lead[:1] - lead[1:], 0, axis)
    return found


def residual(differences: npt.NDArray[Any]) -> Tensor:
    """The table whose sums along every axis are 0 and whose differences are given."""
    found = np.asarray(differences, np.float64)
    for axis in range(found.ndim):
        rest = np.moveaxis(found, axis, -1)
        first = rest.sum(axis=-1, keepdims=True) / (rest.shape[-1] + 1)
        found = np.moveaxis(np.concatenate([first, first - rest], axis=-1), -1, axis)
    return found
