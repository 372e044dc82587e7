"""Products of axes against dense linear algebra."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from scumble.model.designs.kronecker import ByLaw, Product, least_product
from scumble.model.evidence.evidence import design_from_dict as read
from scumble.model.laws.distributions import DiscreteGaussian
from tests.support.axes import AXES, group_weights, matrix
from tests.support.products import MIXED, dense, product_of, reconstruction


def test_measures_the_kronecker_product(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            counts = np.random.default_rng(1).integers(0, 50, int(np.prod(design.shape)))
            before = counts.copy()
            found = design.apply(counts)
            for numbers, expected in zip(found, dense(design), strict=True):
                np.testing.assert_array_equal(numbers, expected @ counts)
                assert not np.may_share_memory(numbers, counts)
            assert sum(map(len, found)) == design.size
            np.testing.assert_array_equal(counts, before)


def test_norms_by_brute_force(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            brute = [
                (int(np.abs(group).sum(axis=0).max()), int((group**2).sum(axis=0).max()))
                for group in dense(design)
            ]
            assert design.norms() == brute
            assert design.signed == any((group < 0).any() for group in dense(design))


def test_counts_come_back(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            counts = np.random.default_rng(2).integers(0, 50, int(np.prod(design.shape)))
            again = design.reconstruct(design.apply(counts))
            np.testing.assert_allclose(again.reshape(-1), counts, atol=1e-8)


@pytest.mark.parametrize("name", ["trees", "tree and cells", "wavelet and taxonomy"])
def test_least_squares_of_all_numbers_with_variances_that_are_products(name: str) -> None:
    """The Kronecker product of the axes' least squares is that of the whole."""
    axes = [AXES[each] for each in MIXED[name]]
    whole, weights = np.ones((1, 1)), np.ones(1)
    for axis in axes:
        whole, weights = np.kron(whole, matrix(axis)), np.kron(weights, group_weights(axis))
    root = np.sqrt(weights)[:, None]
    expected = np.linalg.pinv(root * whole) * root.T
    # The file has groups one after the other: bring its columns into the order of the product.
    design = product_of(name)
    labels = [np.repeat(np.arange(len(a.lengths)), a.lengths) for a in axes]
    pairs = [(i, j) for i in labels[0] for j in labels[1]]
    order = sorted(range(len(pairs)), key=lambda place: (pairs[place], place))
    np.testing.assert_allclose(reconstruction(design), expected[:, order], atol=1e-9)


def test_groups_of_one_law_are_taken_together(subtests: pytest.Subtests) -> None:
    for different, name in product([1, 2, 5], MIXED):
        with subtests.test(different=different, name=name):
            design = product_of(name)
            laws = tuple(design.laws[place % different] for place in range(len(design.laws)))
            design = Product(design.names, design.axes, laws)
            together = ByLaw(design)
            counts = np.random.default_rng(3).integers(0, 50, int(np.prod(design.shape)))
            groups = together.apply(counts)
            assert len(groups) == len(together.laws) == len(set(laws))
            np.testing.assert_array_equal(
                together.ordered(groups), np.concatenate(design.apply(counts))
            )
            for law, (total, squares) in zip(together.laws, together.norms(), strict=True):
                rows = np.concatenate(
                    [group for group, own in zip(dense(design), laws, strict=True) if own == law]
                )
                assert np.abs(rows).sum(axis=0).max() <= total
                assert (rows**2).sum(axis=0).max() <= squares


def test_descriptions_make_it_again(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            again = read(json.loads(json.dumps(design.to_dict())))
            assert isinstance(again, Product)
            assert again == design


def test_the_least_inner_product_by_brute_force(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design, rng = product_of(name), np.random.default_rng(6)
            for _ in range(20):
                weights = rng.integers(1, 9, len(design.laws)).tolist()
                gram = sum(w * g.T @ g for w, g in zip(weights, dense(design), strict=True))
                least = least_product(design.axes, [Fraction(w, 7) for w in weights])
                assert least * 7 <= gram.min()
                if all(axis.signed for axis in design.axes):
                    assert least * 7 == gram.min()


def test_designs_without_negative_inner_products() -> None:
    """Two wavelets with noise of one law are; if one combination of groups has much less noise than
    all others, by brute force; never with Laplace noise, where it would not help.
    """
    design = product_of("wavelets")
    even = [DiscreteGaussian(Fraction(4))] * len(design.laws)
    assert design.nonnegative_gram(even)
    found = set()
    for place in range(len(even)):
        weights = [4] * len(even)
        weights[place] = 9
        laws = [DiscreteGaussian(Fraction(36, weight)) for weight in weights]
        gram = sum(w * g.T @ g for w, g in zip(weights, dense(design), strict=True))
        found.add(design.nonnegative_gram(laws))
        assert design.nonnegative_gram(laws) == (gram.min() >= 0)
    assert found == {True, False}
    assert not design.nonnegative_gram(design.laws)
    assert ByLaw(replace(design, laws=tuple(even))).nonnegative_gram(even[:1])
    less = np.repeat([Fraction(1), Fraction(5)], [len(even) // 4, len(even) - len(even) // 4])
    assert not design.nonnegative_gram([DiscreteGaussian(each) for each in less])
    assert product_of("trees").nonnegative_gram(product_of("trees").laws)
