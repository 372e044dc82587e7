"""Products of axes for tests, and their dense matrices."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

import scumble as sc
from scumble.model.designs.kronecker import Product
from scumble.model.laws.distributions import DiscreteLaplace
from tests.support.axes import AXES, matrix

MIXED = {
    "tree": ("uneven tree",),
    "trees": ("tree without root", "uneven tree"),
    "tree and cells": ("identity", "binary tree"),
    "wavelets": ("haar of five", "haar of seven"),
    "wavelet and taxonomy": ("haar of five", "uneven nominal"),
    "three": ("haar of one", "uneven taxonomy", "haar of five"),
}


def product_of(name: str) -> Product:
    """With a different law for every group."""
    axes = tuple(AXES[each] for each in MIXED[name])
    groups = int(np.prod([len(axis.lengths) for axis in axes]))
    laws = tuple(DiscreteLaplace(Fraction(2 + place, 3)) for place in range(groups))
    return Product(tuple((f"a{place}",) for place in range(len(axes))), axes, laws)


def schema_of(design: Product) -> sc.Schema:
    return sc.Schema(
        [
            sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
            for name, size in zip(design.columns, design.shape, strict=True)
        ]
    )


def dense(design: Product) -> list[np.ndarray]:
    """The matrix of every group."""
    parts = [np.split(matrix(axis), np.cumsum(axis.lengths)[:-1], axis=0) for axis in design.axes]
    found = []
    for each in product(*parts):
        whole = np.ones((1, 1), np.int64)
        for part in each:
            whole = np.kron(whole, part)
        found.append(whole)
    return found


def reconstruction(design: Product) -> np.ndarray:
    """The dense matrix of the estimate, a column for each number of the file."""
    eye = np.eye(design.size)
    return np.stack([design.reconstruct(design.split(each)).reshape(-1) for each in eye], axis=1)
