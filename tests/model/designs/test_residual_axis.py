"""Axes of tables as means and contrasts: orthonormal, invertible, exact in whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from scumble.model.designs.residuals import (
    differences,
    from_contrasts,
    residual_of_differences,
    to_contrasts,
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_one_axis_is_orthonormal(size: int) -> None:
    matrix = to_contrasts(np.eye(size), [0])
    assert matrix @ matrix.T == pytest.approx(np.eye(size), abs=1e-12)
    assert matrix[0] == pytest.approx(np.full(size, size**-0.5))
    assert from_contrasts(np.eye(size), [0]) == pytest.approx(matrix.T, abs=1e-12)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (4, 1, 3), (2, 3, 4, 2)])
def test_join_undoes_split(shape: tuple[int, ...]) -> None:
    table = np.random.default_rng(1).normal(size=shape)
    assert from_contrasts(to_contrasts(table)) == pytest.approx(table, abs=1e-12)
    assert (to_contrasts(table) ** 2).sum() == pytest.approx((table**2).sum())


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (4, 1, 3), (3, 2, 4)])
def test_differences_say_the_residual(shape: tuple[int, ...]) -> None:
    """The residual has sums of 0, has the same differences, and is the projection of the table."""
    table = np.random.default_rng(1).integers(-50, 50, shape)
    projected = table.astype(float)
    for axis in range(table.ndim):
        projected = projected - projected.mean(axis=axis, keepdims=True)
    found = residual_of_differences(differences(table))
    assert differences(table).shape == tuple(size - 1 for size in shape)
    assert found == pytest.approx(projected, abs=1e-9)
