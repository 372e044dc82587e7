"""All groups from products of axes at once, against the same reader asked group by group."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from scumble.model.designs.axis import IdentityAxis
from scumble.model.designs.kronecker import Product
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements import kronecker
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import (
    AverageWeights,
    GroupedAxes,
    OneByOne,
    Readings,
    Weights,
    WeightTensor,
    joined,
)
from tests.support.axes import AXES
from tests.support.products import product_of, schema_of


def _pairs() -> tuple[Product, Schema]:
    """An axis of two attributes, and one of one."""
    laws = tuple(DiscreteLaplace(Fraction(2 + place, 3)) for place in range(9))
    tree = Tree(6, (3, 2), (1.0, 2.0, 0.5))
    design = Product((("b",), ("a", "c")), (Haar(3), tree), laws)
    return design, schema_of(
        Product((("a",), ("b",), ("c",)), tuple(map(IdentityAxis, (2, 3, 3))), laws[:1])
    )


def _case(name: str) -> tuple[Product, Schema]:
    if name == "pairs":
        return _pairs()
    design = product_of(name)
    return design, schema_of(design)


def _weights(schema: Schema, rng: np.random.Generator) -> list[Weights]:
    """Nothing asked, each attribute alone, all pairs tied, all tied; 0 for many cells."""

    def part(*names: str) -> WeightTensor:
        shape = [schema[name].size for name in names]
        return WeightTensor(names, rng.normal(size=shape) * (rng.random(shape) < 0.7))

    names = schema.names
    alone = Weights(tuple(part(name) for name in names))
    pairs = [Weights((part(*pair),)) for pair in combinations(names, 2)]
    return [Weights(()), alone, Weights((part(*names),)), *pairs[:3]]


def _groupings(schema: Schema) -> list[GroupedAxes]:
    names = schema.names
    chosen = [(names[0],), (names[-1],), names[:2][::-1], names]
    return [
        GroupedAxes(each, tuple(schema[name].size for name in each))
        for each in dict.fromkeys(chosen)
    ]


def _equal(found: Readings, expected: Readings) -> None:
    np.testing.assert_allclose(found.numbers, expected.numbers, rtol=1e-10, atol=1e-9)


CASES = ("tree", "trees", "wavelet and taxonomy", "three", "pairs")


@pytest.mark.parametrize("name", CASES)
def test_all_groups_at_once_are_as_one_by_one(monkeypatch, name: str) -> None:
    """With groups one at a time, and all together; each by a reader that has read nothing."""
    design, schema = _case(name)
    rng = np.random.default_rng(3)
    numbers = rng.integers(-50, 100, design.size)
    one, other, alone = (ProductReader.of_numbers(design, schema, numbers) for _ in range(3))
    slow = OneByOne(schema, alone)
    for weights in _weights(schema, rng):
        for grouping in _groupings(schema):
            expected = slow.by_group(weights, grouping)
            for reader, at_once in ((one, 1), (other, 1 << 19)):
                monkeypatch.setattr(kronecker, "_AT_ONCE", at_once)
                _equal(reader.by_group(weights, grouping), expected)


@pytest.mark.parametrize("name", CASES)
def test_averages_of_all_groups_are_as_one_by_one(name: str) -> None:
    design, schema = _case(name)
    rng = np.random.default_rng(4)
    reader = ProductReader.of_numbers(design, schema, rng.integers(-50, 100, design.size))
    slow = OneByOne(schema, reader)
    ends = dict.fromkeys(((schema.names[-1],), schema.names[:2], ()))
    amounts = [WeightTensor(each, rng.normal(size=[schema[n].size for n in each])) for each in ends]
    for weights in _weights(schema, rng)[1:4]:
        truths = Weights(tuple(WeightTensor(p.names, (p.values != 0) * 1.0) for p in weights.parts))
        for amount in amounts:
            average = AverageWeights(truths, amount, joined(schema, [*truths.parts, amount]))
            for grouping in _groupings(schema)[:3]:
                found, expected = (each.averages(average, grouping) for each in (reader, slow))
                _equal(found.totals, expected.totals)
                _equal(found.counts, expected.counts)
                np.testing.assert_allclose(found.covariances, expected.covariances, atol=1e-8)
                # Of a difference that may vanish: against what it is a difference of.
                ratios = np.abs(found.totals.ratios(found.counts))
                size = 1 + found.totals.numbers[3] + ratios * found.counts.numbers[3]
                _, _, fourths, largest = found.centred.numbers - expected.centred.numbers
                assert (np.abs(largest) <= 1e-9 * size).all()
                most = max(law.fourth for law in design.laws)
                assert (np.abs(fourths) <= 1e-9 * size**4 * most * design.size).all()


def test_cells_that_are_alike_have_coefficients_of_equal_powers(subtests: pytest.Subtests) -> None:
    for name in AXES:
        with subtests.test(name=name):
            axis = AXES[name]
            eye = np.eye(axis.size)[:, :, None]
            powers = np.stack(
                [
                    np.stack(
                        [(part**2).sum(axis=1), (part**4).sum(axis=1), np.abs(part).max(axis=1)]
                    )
                    for part in axis.adjoint(eye)
                ]
            )
            for each in np.unique(axis.cell_classes):
                same = powers[..., axis.cell_classes == each, :]
                np.testing.assert_allclose(
                    same, np.broadcast_to(same[..., :1, :], same.shape), atol=1e-12
                )
            if axis.kind == "tree" and axis.size in (4, 8, 9):
                assert len(np.unique(axis.cell_classes)) == 1
