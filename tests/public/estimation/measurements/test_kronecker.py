"""Readings of products of axes against dense linear algebra."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest

from scumble.model.designs.axis import IdentityAxis
from scumble.model.designs.kronecker import Product
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.products import MIXED, product_of, reconstruction, schema_of

LAW = DiscreteLaplace(5)


def _parts(design: Product, sets: list[tuple[int, ...]], seed: int) -> Weights:
    """Random weights, the attributes in these sets having a part together."""
    rng = np.random.default_rng(seed)
    names, sizes = design.columns, schema_sizes(design)
    return Weights(
        tuple(
            WeightTensor(tuple(names[i] for i in each), rng.normal(size=[sizes[i] for i in each]))
            for each in sets
        )
    )


def schema_sizes(design: Product) -> list[int]:
    return [attribute.size for attribute in schema_of(design)]


def _dense_weights(design: Product, weights: Weights) -> np.ndarray:
    names, sizes = list(design.columns), schema_sizes(design)
    whole = np.ones(sizes)
    for part in weights.parts:
        shape = [sizes[i] if name in part.names else 1 for i, name in enumerate(names)]
        whole = whole * part.values.reshape(shape)
    return whole.reshape(-1)


def _reader(design: Product) -> tuple[ProductReader, np.ndarray]:
    numbers = np.random.default_rng(7).integers(-50, 100, design.size)
    return ProductReader.of_numbers(design, schema_of(design), numbers), numbers


def _sets(attributes: int) -> list[list[tuple[int, ...]]]:
    """Nothing asked, each alone, some, and all tied together."""
    places = range(attributes)
    found = [[], [(i,) for i in places], [(attributes - 1,)], [tuple(places)]]
    return found + [[pair] for pair in itertools.combinations(places, 2)]


def _laws(design: Product, what: str) -> np.ndarray:
    lengths = [prod(each) for each in itertools.product(*(axis.lengths for axis in design.axes))]
    return np.repeat([getattr(law, what) for law in design.laws], lengths)


def test_readings_are_those_of_the_dense_matrices(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            reader, numbers = _reader(design)
            matrix = reconstruction(design)
            for seed, sets in enumerate(_sets(len(design.columns))):
                weights = _parts(design, sets, seed)
                coefficients = matrix.T @ _dense_weights(design, weights)
                found = reader.read(weights)
                assert found.value == pytest.approx(coefficients @ numbers, rel=1e-9, abs=1e-8)
                assert found.variance == pytest.approx(_laws(design, "variance") @ coefficients**2)
                assert found.fourth == pytest.approx(_laws(design, "fourth") @ coefficients**4)
                assert found.largest == pytest.approx(np.abs(coefficients).max())


def test_pairs_have_the_covariance_of_the_dense_matrices(subtests: pytest.Subtests) -> None:
    for name in MIXED:
        with subtests.test(name=name):
            design = product_of(name)
            reader, _ = _reader(design)
            matrix = reconstruction(design)
            choices = _sets(len(design.columns))
            for one, other in itertools.product(choices, choices):
                first, second = _parts(design, one, 1), _parts(design, other, 2)
                left, right = (matrix.T @ _dense_weights(design, each) for each in (first, second))
                readings = reader.pair(first, second)
                assert readings[2] == pytest.approx(
                    _laws(design, "variance") @ (left * right), abs=1e-8
                )
                alone = reader.read(first), reader.read(second)
                for found, expected in zip(readings, alone, strict=False):
                    assert found.value == pytest.approx(expected.value, abs=1e-8)
                    assert found.variance == pytest.approx(expected.variance)


def test_axes_of_two_attributes() -> None:
    """The cells of an axis may be the combinations of two attributes; parts may tie one of them to
    another axis, and name them in any order.
    """
    tree = Tree(6, (3, 2), (1.0, 2.0, 0.5))
    design = Product((("b",), ("a", "c")), (Haar(3), tree), (LAW,) * 9)
    sizes = {"a": 2, "b": 3, "c": 3}
    numbers = np.random.default_rng(3).integers(-9, 90, design.size)
    schema = schema_of(
        Product((("a",), ("b",), ("c",)), tuple(map(IdentityAxis, (2, 3, 3))), (LAW,))
    )
    reader = ProductReader.of_numbers(design, schema, numbers)
    values = np.random.default_rng(4).normal(size=(2, 3))
    weights = Weights(
        (WeightTensor(("a", "b"), values), WeightTensor(("c",), np.array([1.0, 0.0, 2.0])))
    )
    dense = np.einsum("ab,c->bac", values, [1.0, 0.0, 2.0]).reshape(-1)
    coefficients = reconstruction(design).T @ dense
    found = reader.read(weights)
    assert reader.cells.shape == tuple(sizes[name] for name in ("b", "a", "c"))
    assert found.value == pytest.approx(coefficients @ numbers)
    assert found.variance == pytest.approx(LAW.variance * (coefficients @ coefficients))


def test_a_part_about_no_attribute_multiplies_all() -> None:
    design = product_of("trees")
    reader, _ = _reader(design)
    asked = _parts(design, [(0,), (1,)], 2)
    tripled = Weights((*asked.parts, WeightTensor((), np.array(-3.0))))
    once, thrice, covariance = reader.pair(asked, tripled)
    assert thrice.value == pytest.approx(-3 * once.value)
    assert thrice.variance == pytest.approx(9 * once.variance)
    assert thrice.fourth == pytest.approx(81 * once.fourth)
    assert thrice.largest == pytest.approx(3 * once.largest)
    assert covariance == pytest.approx(-3 * once.variance)
