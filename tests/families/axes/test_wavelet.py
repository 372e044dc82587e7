"""Wavelet: Privelet's sensitivities, its bound on the variance, and when it pays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.axis import IdentityAxis
from scumble.model.designs.kronecker import Product
from scumble.model.designs.wavelets import Haar, Nominal
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from tests.support.mechanisms.axis_tables import changes, domain, exact_loss
from tests.support.people import schema


def _wavelet(attributes=("a",), **given) -> sc.Wavelet:
    return sc.Wavelet(attributes, **({"epsilon": 1, "neighbours": "replace"} | given))


def test_scales_are_those_of_privelet(subtests: pytest.Subtests) -> None:
    """λ = 2ρ/ε with ρ = 1 + log2 m, on sums and differences that one row changes by 1."""
    for size, halvings in [(1, 0), (2, 1), (5, 3), (64, 6), (65, 7)]:
        with subtests.test(size=size, halvings=halvings):
            design = _wavelet(transform="all").design(domain(a=size))
            assert set(design.laws) == {DiscreteLaplace(Fraction(2 * (1 + halvings)))}
            assert design.size == size


def test_two_attributes_multiply() -> None:
    design = _wavelet(["a", "b"], transform="all").design(domain(a=8, b=5))
    assert set(design.laws) == {DiscreteLaplace(Fraction(2 * 4 * 4))}


@pytest.mark.parametrize("size", [16, 64, 100])
def test_no_range_is_worse_than_the_bound_of_the_paper(size: int) -> None:
    """(2 + l)(2 + 2l)² / ε² for a range of 2^l values under replacement."""
    design = _wavelet(transform="all", epsilon=0.1).design(domain(a=size))
    ends = [(low, high) for low in range(size) for high in range(low + 1, size + 1)]
    weights = np.zeros((len(ends), size, 1))
    for row, (low, high) in enumerate(ends):
        weights[row, low:high] = 1
    squares = sum((part**2).sum(axis=(1, 2)) for part in Haar(size).adjoint(weights))
    halvings = (size - 1).bit_length()
    bound = (2 + halvings) * (2 + 2 * halvings) ** 2 / 0.1**2
    assert design.laws[0].variance * squares.max() < 0.55 * bound


def test_privelet_plus_leaves_small_attributes_alone() -> None:
    """P²H values, P = 1 + log2 m and H = 1 + log2 m / 2: 600 are no more than 11² · 6, 1000 are."""
    design = _wavelet(["a", "b"]).design(domain(a=600, b=1000))
    assert design.axes == (IdentityAxis(600), Haar(1000))
    assert not _wavelet(["a"]).design(domain(a=600)).signed
    everything = _wavelet(["a", "b"], transform="all").design(domain(a=600, b=3))
    assert everything.axes == (Haar(600), Haar(3))


def _worst(design: Product, size: int) -> float:
    """The largest standard error of a count over a range, by trying all."""
    first, last = np.triu_indices(size)
    ranges = (first[:, None] <= np.arange(size)) & (np.arange(size) <= last[:, None])
    found = design.axes[0].adjoint(ranges[:, :, None].astype(float))
    both = zip(design.laws, found, strict=True)
    return float(np.sqrt(sum(law.variance * (c**2).sum(axis=(1, 2)) for law, c in both)).max())


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_with_delta_the_rule_is_that_of_gaussian_noise(neighbours: str) -> None:
    """For every small size the choice has the smaller error over the worst range. The mean squared
    error over ranges of 256 values is 7 times smaller than with the rule of a pure ε.
    """
    given = {"delta": 1e-6, "neighbours": neighbours}
    for size in range(1, 41):
        chosen, every = (
            _wavelet(transform=which, **given).design(domain(a=size)) for which in ("large", "all")
        )
        plain = chosen.laws[0].variance if isinstance(chosen.axes[0], IdentityAxis) else None
        if plain is None:
            pure = _wavelet(**given).promise.rho
            unit = sc.Wavelet(["a"], epsilon=1, **given).unit
            cell = DiscreteGaussian(unit.squared_sensitivity(nonnegative_gram=True) / (2 * pure))
            assert _worst(chosen, size) < (cell.variance * size) ** 0.5
        else:
            assert _worst(chosen, size) <= _worst(every, size) * (1 + 1e-9)
    assert _wavelet(**given).design(domain(a=256)).axes == (Haar(256),)
    assert _wavelet(neighbours=neighbours).design(domain(a=256)).axes == (IdentityAxis(256),)


def test_with_delta_nodes_of_a_taxonomy_are_no_worse_than_the_rule_says() -> None:
    """The count of a node has at most the variance of the sum of all, which is P cells."""
    chosen = schema()
    labels = chosen["job"].labels().to_pylist()
    tree = {"job": [labels[:2], labels[2:]]}
    design = _wavelet(["job"], transform="all", taxonomy=tree, delta=1e-6).design(chosen)
    whole = design.laws[-1].variance
    for node in ([0], [1], [2], [3], [4], [0, 1], [2, 3, 4], [0, 1, 2, 3, 4]):
        weights = np.zeros((1, 5, 1))
        weights[0, node] = 1
        both = zip(design.laws, design.axes[0].adjoint(weights), strict=True)
        assert sum(law.variance * (c**2).sum() for law, c in both) <= whole * (1 + 1e-6)
    larger = _wavelet(["job"], taxonomy=tree, delta=1e-6).design(chosen)
    assert isinstance(larger.axes[0], Nominal)  # 5 values, and P = 3
    assert isinstance(_wavelet(["job"], taxonomy=tree).design(chosen).axes[0], IdentityAxis)


def test_nominal_attributes_need_a_taxonomy() -> None:
    chosen = schema()
    assert _wavelet(["job"], transform="all").design(chosen).axes == (IdentityAxis(5),)
    nested = [["cook", "driver"], ["nurse", "smith", "teacher"]]
    design = _wavelet(["job"], transform="all", taxonomy={"job": nested}).design(chosen)
    assert isinstance(design.axes[0], Nominal)
    # ρ = h = 3 levels; a row changes families of two and of three by 4 in all: factors 2 and 1.
    assert design.laws == tuple(DiscreteLaplace(Fraction(2 * 3 * c)) for c in (4, 2, 1))
    assert _wavelet(["job"], taxonomy={"job": nested}).design(chosen).axes == (IdentityAxis(5),)


def test_gaussian_noise_by_squares() -> None:
    """Replacing a row moves one difference by 2, but leaves the sum as it is: twice the square of
    one row in all.
    """
    mechanism = _wavelet(transform="all", delta=1e-6)
    share = mechanism.promise.rho / 4
    assert set(mechanism.design(domain(a=8)).laws) == {DiscreteGaussian(2 / (2 * share))}


def test_gaussian_noise_is_what_replacing_a_row_needs(subtests: pytest.Subtests) -> None:
    """By brute force over all pairs of cells: none costs more than ρ; the worst costs all of it if
    the sizes are powers of two, and otherwise not much less.
    """
    for sizes in [{"a": n} for n in range(2, 18)] + [{"a": 4, "b": 8}]:
        with subtests.test(sizes=sizes):
            mechanism = _wavelet(list(sizes), transform="all", delta=1e-6)
            schema = domain(**sizes)
            design = mechanism.design(schema)
            cells = changes(schema.size(list(sizes)), "replace", 1)
            used = max(exact_loss(design, each) for each in cells) / mechanism.promise.rho
            if all(size & (size - 1) == 0 for size in sizes.values()):
                assert used == 1
            assert 1 - Fraction(1, len(design.laws)) <= used <= 1
