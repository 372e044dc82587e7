"""Axes against dense linear algebra."""

from __future__ import annotations

import itertools
import json
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.designs.kronecker import axis_from_dict as read
from scumble.model.designs.taxonomy import Taxonomy, TaxonomyTree
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar, Nominal
from tests.support.axes import AXES, EVEN, UNEVEN, group_weights, matrix


def least_squares(a: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The matrix of weighted least squares."""
    root = np.sqrt(weights)[:, None]
    return np.linalg.pinv(root * a) * root.T


def split(axis, numbers: np.ndarray) -> list[np.ndarray]:
    return np.split(numbers, np.cumsum(axis.lengths)[:-1], axis=1)


def test_reconstruction_is_weighted_least_squares(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            a = matrix(axis)
            numbers = np.random.default_rng(1).normal(size=(3, len(a), 2)) * 10
            expected = np.einsum("cn,bna->bca", least_squares(a, group_weights(axis)), numbers)
            np.testing.assert_allclose(
                axis.reconstruct(split(axis, numbers)), expected, rtol=1e-10, atol=1e-9
            )


def test_counts_come_back(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            counts = np.random.default_rng(2).integers(0, 100, (2, axis.size, 3))
            measured = axis.measure(counts)
            assert [part.shape for part in measured] == [(2, length, 3) for length in axis.lengths]
            assert all(part.dtype == np.int64 for part in measured)
            again = axis.reconstruct([part.astype(float) for part in measured])
            np.testing.assert_allclose(again, counts, atol=1e-9)


def test_the_adjoint_is_the_transpose(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            rng = np.random.default_rng(3)
            numbers = rng.normal(size=(1, sum(axis.lengths), 1))
            weights = rng.normal(size=(1, axis.size, 1))
            forwards = float((axis.reconstruct(split(axis, numbers)) * weights).sum())
            backwards = float((np.concatenate(axis.adjoint(weights), axis=1) * numbers).sum())
            assert forwards == pytest.approx(backwards, rel=1e-11)


def test_norms_by_brute_force(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            groups = np.split(matrix(axis), np.cumsum(axis.lengths)[:-1])
            brute = [
                (int(np.abs(group).sum(axis=0).max()), int((group**2).sum(axis=0).max()))
                for group in groups
            ]
            assert list(axis.norms) == brute
            assert axis.signed == bool((matrix(axis) < 0).any())


def test_inner_products_of_columns_by_brute_force(subtests: pytest.Subtests) -> None:
    """Those of signed axes are all that occur; of others none is missing."""
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            groups = np.split(matrix(axis), np.cumsum(axis.lengths)[:-1])
            products = np.stack([(group.T @ group).ravel() for group in groups], axis=1)
            brute = {tuple(row) for row in products.astype(int).tolist()}
            stated = {tuple(row) for row in axis.pair_products.tolist()}
            assert stated == brute if axis.signed else stated >= brute


def test_axes_with_equal_shares_of_a_budget_have_no_negative_inner_product(
    subtests: pytest.Subtests,
) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            shares = np.array([1 / squares for _, squares in axis.norms])
            assert (axis.pair_products @ shares).min() >= -1e-12


def test_descriptions_make_it_again(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            assert read(json.loads(json.dumps(axis.to_dict()))) == axis


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(sc.ReleaseError, match="no axis of kind 'spiral'"):
        read({"kind": "spiral"})


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_tree_is_weighted_least_squares(data) -> None:
    size = data.draw(st.integers(1, 30))
    fanouts = tuple(data.draw(st.lists(st.integers(1, 5), max_size=4)))
    above = st.one_of(st.just(0.0), st.floats(0.05, 20))
    weights = (data.draw(st.floats(0.05, 20)), *(data.draw(above) for _ in fanouts))
    tree = Tree(size, fanouts, weights)
    a = matrix(tree)
    numbers = np.random.default_rng(4).normal(size=(1, len(a), 1))
    expected = least_squares(a, group_weights(tree)) @ numbers[0]
    np.testing.assert_allclose(
        tree.reconstruct(split(tree, numbers))[0], expected, rtol=1e-8, atol=1e-8
    )
    weighted = np.random.default_rng(5).normal(size=(1, tree.size, 1))
    np.testing.assert_allclose(
        np.concatenate(tree.adjoint(weighted), axis=1)[0],
        least_squares(a, group_weights(tree)).T @ weighted[0],
        rtol=1e-8, atol=1e-8,
    )  # fmt: skip


def test_haar_has_one_number_a_cell_and_one_level_more_than_halvings(
    subtests: pytest.Subtests,
) -> None:
    """Privelet's ρ = 1 + log2 m, m being the next power of two; nothing is measured of padding."""
    for size in range(1, 34):
        with subtests.test(size=size):
            haar = Haar(size)
            assert sum(haar.lengths) == size
            assert len(haar.norms) == 1 + ceil(np.log2(size))
            column = np.abs(matrix(haar)).sum(axis=0)
            assert column.max() == 1 + ceil(np.log2(size))
            assert abs(round(np.linalg.det(matrix(haar)))) >= 1


def test_nominal_wavelets_of_the_paper() -> None:
    """In units of Privelet's weights f / (2f - 2), one row changes every level by 1: ρ = h."""
    axis = Nominal.balanced(EVEN, squares=False)
    assert axis.norms == ((4, 6), (2, 2), (1, 1))
    leaf = axis.measure(np.eye(6, dtype=np.int64)[None, :, :1])
    assert leaf[0][0, :, 0].tolist() == [2, -1, -1, 0, 0, 0]
    assert leaf[1][0, :, 0].tolist() == [1, -1]
    assert leaf[2][0, :, 0].tolist() == [1]


def test_rows_weigh_the_same_in_families_of_different_size() -> None:
    axis = Nominal.balanced(UNEVEN, squares=False)
    matrices = np.split(matrix(axis), np.cumsum(axis.lengths)[:-1])
    for group, (total, _) in zip(matrices, axis.norms, strict=True):
        changes = np.abs(group).sum(axis=0)
        assert set(changes[changes > 0].tolist()) == {total}
    by_squares = Nominal.balanced(UNEVEN, squares=True)
    matrices = np.split(matrix(by_squares), np.cumsum(by_squares.lengths)[:-1])
    for group, (_, squares) in zip(matrices, by_squares.norms, strict=True):
        changes = (group**2).sum(axis=0)
        assert changes[changes > 0].min() >= squares * (1 - 1e-3)


def test_many_sizes_of_families_keep_the_numbers_small() -> None:
    start, nested = 0, []
    for size in range(2, 24):
        nested.append(list(range(start, start + size)))
        start += size
    axis = Nominal.balanced(Taxonomy.of(nested), squares=False)
    changes = np.abs(matrix(axis)[: axis.lengths[0]]).sum(axis=0)
    assert axis.norms[0][0] <= 1 << 16
    assert changes.min() > 0.99 * axis.norms[0][0]


def test_taxonomies_of_uneven_depth() -> None:
    assert UNEVEN.order == (4, 0, 1, 2, 6, 3, 5)
    assert UNEVEN.families == ((1, 1, 1, 3, 1), (2, 2, 1), (3,))
    assert Taxonomy.of([0, 1]).families == ((2,),)


def test_a_tree_beats_nominal_wavelets_at_equal_loss() -> None:
    """Every subtree's variance, at the same pure ε: node counts carry more than differences."""
    nested = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    taxonomy = Taxonomy.of(nested)
    tree = TaxonomyTree(taxonomy, (1.0, 1.0, 1.0))
    wavelet = Nominal.balanced(taxonomy, squares=False)
    subsets = [(c,) for c in range(12)] + [tuple(family) for family in nested]
    subsets += [*itertools.combinations(range(12), 2), tuple(range(12))]

    def variance(axis, cells) -> float:
        weights = np.zeros((1, 12, 1))
        weights[0, list(cells)] = 1
        parts = axis.adjoint(weights)
        scales = [total * len(axis.norms) for total, _ in axis.norms]
        return sum(2 * s**2 * float((part**2).sum()) for s, part in zip(scales, parts, strict=True))

    assert all(variance(tree, cells) < variance(wavelet, cells) for cells in subsets)
