"""Marginals as dense matrices over all cells of a small domain, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from scumble.model.designs.residuals import MarginalTable


def marginal(sizes: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """The matrix that adds cells up to a marginal."""
    factors = [
        np.eye(size) if place in places else np.ones((1, size)) for place, size in enumerate(sizes)
    ]
    return reduce(np.kron, factors, np.ones((1, 1)))


def subtraction(sizes: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """The first value less each of the others, along every axis of a marginal."""
    factors = [
        np.hstack([np.ones((sizes[place] - 1, 1)), -np.eye(sizes[place] - 1)]) for place in places
    ]
    return reduce(np.kron, factors, np.ones((1, 1)))


def measured(sizes: Sequence[int], table: MarginalTable) -> tuple[np.ndarray, np.ndarray]:
    """What a table measures of the cells, and what it measures of its noises."""
    counts = marginal(sizes, table.places)
    if table.form == "marginal":
        return counts, np.eye(len(counts))
    less = subtraction(sizes, table.places)
    return less @ counts, less if table.form == "residual" else np.eye(1)
