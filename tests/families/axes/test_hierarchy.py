"""Hierarchy: which tree, and how good its ranges are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.axis import IdentityAxis
from scumble.model.designs.kronecker import Product
from scumble.model.designs.taxonomy import TaxonomyTree
from scumble.model.designs.tree import Tree
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.axis_tables import domain
from tests.support.people import people, schema


def _hierarchy(attributes=("a",), **given) -> sc.Hierarchy:
    return sc.Hierarchy(attributes, **({"epsilon": 1, "neighbours": "add_remove"} | given))


def variance(design: Product, domain: sc.Schema, **ranges: tuple[int, int]) -> float:
    """Of the count of a box."""
    parts = []
    for name, (low, high) in ranges.items():
        values = np.zeros(domain[name].size)
        values[low:high] = 1
        parts.append(WeightTensor((name,), values))
    reader = ProductReader.of_numbers(design, domain, np.zeros(design.size))
    return reader.read(Weights(tuple(parts))).variance


def test_4096_values_have_three_levels_of_sixteen() -> None:
    design = _hierarchy().design(domain(a=4096))
    assert design.axes == (Tree(4096, (16, 16, 16), (*[float(Fraction(1, 9))] * 3, 0.0)),)
    assert set(design.laws) == {DiscreteLaplace(Fraction(3))}
    assert design.size == 4096 + 256 + 16


def test_the_root_costs_its_share() -> None:
    """4 % of the standard error of a range from the first value on, at 4096 values and fan-out 16;
    more for ranges inside.
    """
    chosen = domain(a=4096)
    without, with_root = (_hierarchy(root=root).design(chosen) for root in (False, True))
    ends = range(37, 4097, 61)
    ratio = np.sqrt(
        sum(variance(without, chosen, a=(0, end)) for end in ends)
        / sum(variance(with_root, chosen, a=(0, end)) for end in ends)
    )
    assert 0.9 < ratio < 0.99
    assert variance(without, chosen, a=(700, 1900)) < variance(with_root, chosen, a=(700, 1900))
    assert variance(with_root, chosen, a=(0, 4096)) < variance(without, chosen, a=(0, 4096))


def test_products_beat_cells_for_boxes() -> None:
    """On a grid of 128 by 128: a third of the mean variance of a list of its cells."""
    chosen = domain(a=128, b=128)
    trees = _hierarchy(["a", "b"]).design(chosen)
    assert [axis.fanouts for axis in trees.axes] == [(12, 12), (12, 12)]
    rng = np.random.default_rng(1)
    boxes = [np.sort(rng.choice(129, (2, 2), replace=False), axis=1) for _ in range(200)]
    mean = np.mean([variance(trees, chosen, a=tuple(a), b=tuple(b)) for a, b in boxes])
    cells = np.mean([2 * float(np.prod(np.diff(box))) for box in boxes])
    assert mean < 0.45 * cells


def test_attributes_without_order_are_counted_value_by_value() -> None:
    plain = _hierarchy(["age", "job"]).design(schema(ages=100))
    assert isinstance(plain.axes[0], Tree)
    assert plain.axes[1] == IdentityAxis(5)
    nested = [["cook", "driver"], ["nurse", "smith", "teacher"]]
    grouped = _hierarchy(["job"], taxonomy={"job": nested}).design(schema())
    assert isinstance(grouped.axes[0], TaxonomyTree)
    assert grouped.size == 5 + 2
    assert _hierarchy(["job"], root=True, taxonomy={"job": nested}).design(schema()).size == 8


def test_gaussian_noise_by_squares() -> None:
    """Add or remove: three levels at a third of ρ each; replacing moves two numbers a level."""
    one = _hierarchy(delta=1e-6, fanout=4)
    rho = one.promise.rho
    assert set(one.design(domain(a=64)).laws) == {DiscreteGaussian(3 / (2 * rho))}
    two = _hierarchy(delta=1e-6, fanout=4, neighbours="replace")
    assert set(two.design(domain(a=64)).laws) == {DiscreteGaussian(3 / two.promise.rho)}


def test_small_domains(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 5]:
        with subtests.test(size=size):
            chosen = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, size - 1))])
            release = sc.publish(
                people(50, chosen), chosen, _hierarchy(root=True), options=sc.PublishOptions(seed=1)
            )
            assert release.answer("SELECT COUNT(*) FROM t").value == pytest.approx(50, abs=40)


def test_order_of_attributes_and_conditions_on_two_of_them() -> None:
    """The product's order may differ from the schema's."""
    table = people(4000, schema())
    mechanism = sc.Hierarchy(["job", "age"], epsilon=20, neighbours="replace")
    release = sc.publish(table, schema(), mechanism, options=sc.PublishOptions(seed=1))
    truth = sum(len(row["job"]) > row["age"] for row in table.to_pylist())
    found = release.answer("SELECT COUNT(*) FROM t WHERE length(job) > age")
    assert found.value == pytest.approx(truth, abs=6 * found.stderr)
    assert found.stderr < 10
