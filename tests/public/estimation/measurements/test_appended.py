"""Readings of a base and appended counts against dense generalised least squares."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from scumble.model.designs.kronecker import Product
from scumble.model.designs.taxonomy import Taxonomy
from scumble.model.designs.wavelets import Haar, Nominal
from scumble.model.laws.distributions import RoundedNormal
from scumble.public.estimation.measurements.appended import AppendedReader, products
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import (
    GroupedAxes,
    OneByOne,
    Weights,
    WeightTensor,
    joined,
)
from tests.support.products import schema_of

SIZES = (8, 3, 5)
ROWS = 1_000


def _design() -> Product:
    """A product like that of Dyadic: other noise for every combination of scales."""
    nominal = Nominal.balanced(Taxonomy.of([0, 1, 2]), squares=True)
    axes = (Haar(8), nominal, Haar(5))
    groups = prod(len(axis.lengths) for axis in axes)
    rng = np.random.default_rng(3)
    laws = [RoundedNormal(Fraction(int(each), 7)) for each in rng.integers(50, 5_000, groups)]
    return Product((("a",), ("b",), ("c",)), axes, tuple(laws))


DESIGN = _design()
SCHEMA = schema_of(DESIGN)


def _numbers() -> np.ndarray:
    return np.random.default_rng(7).integers(-50, 100, DESIGN.size)


def _cells(weights: Weights) -> np.ndarray:
    whole = np.full(SIZES, weights.factor)
    for part in weights.parts:
        shape = [
            n if name in part.names else 1 for n, name in zip(SIZES, SCHEMA.names, strict=True)
        ]
        whole = whole * part.values.reshape(shape)
    return whole.reshape(-1)


def _questions(count: int, seed: int) -> list[Weights]:
    """Products of sets, unions of sets, and amounts."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size = rng.integers(1, 4)
        places = np.sort(rng.choice(3, size, replace=False))
        names = [SCHEMA.names[place] for place in places]
        shape = [SIZES[place] for place in places]
        kind = rng.integers(3)
        if kind == 0:
            parts = [
                WeightTensor((name,), (rng.random(n) < 0.5) * 1.0)
                for name, n in zip(names, shape, strict=True)
            ]
        elif kind == 1:
            parts = [WeightTensor(tuple(names), (rng.random(shape) < 0.3) * 1.0)]
        else:
            parts = [WeightTensor((names[0],), rng.normal(size=shape[0]))]
        found.append(Weights(tuple(parts)))
    return found


def _least_squares(
    asked: list[Weights], variances: list[float], values: list[float], rows: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The estimate of all cells, and the covariances of its errors."""
    cells = prod(SIZES)
    base = np.stack(
        [np.concatenate([*map(np.ravel, DESIGN.apply(each))]) for each in np.eye(cells, dtype=int)],
        axis=1,
    )
    lengths = [len(each) for each in DESIGN.split(np.arange(DESIGN.size))]
    noise = np.repeat([law.variance for law in DESIGN.laws], lengths)
    matrix = np.vstack([base, *(_cells(each)[None] for each in asked)]).astype(float)
    precision = 1 / np.concatenate([noise, variances])
    known = np.concatenate([_numbers(), values])
    normal = matrix.T @ (precision[:, None] * matrix)
    right = matrix.T @ (precision * known)
    if rows is None:
        inverse = np.linalg.inv(normal)
        return inverse @ right, inverse
    inverse = np.linalg.inv(normal)
    one = np.ones(cells)
    free = inverse @ right
    gain = inverse @ one / (one @ inverse @ one)
    covariance = inverse - np.outer(gain, one @ inverse)
    return free + gain * (rows - one @ free), covariance


def _learned(order: list[int], rows: int | None) -> tuple[AppendedReader, list, list, list]:
    asked = _questions(50, 1)
    rng = np.random.default_rng(2)
    variances = rng.uniform(1, 300, 50).tolist()
    values = rng.normal(100, 50, 50).tolist()
    reader = AppendedReader(DESIGN, SCHEMA, _numbers(), rows)
    for place in order:
        reader.append(asked[place], variances[place], values[place])
    return reader, asked, variances, values


@pytest.mark.parametrize("rows", [None, ROWS])
def test_readings_are_those_of_dense_least_squares(rows: int | None) -> None:
    reader, *known = _learned(list(range(50)), rows)
    cells, covariance = _least_squares(*known, rows)
    for weights in (*_questions(60, 9), Weights(())):
        dense = _cells(weights)
        found = reader.read(weights)
        assert found.value == pytest.approx(dense @ cells, rel=1e-9, abs=1e-7)
        assert found.variance == pytest.approx(dense @ covariance @ dense, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [None, ROWS])
def test_pairs_have_the_covariance_of_dense_least_squares(rows: int | None) -> None:
    reader, *known = _learned(list(range(50)), rows)
    _, covariance = _least_squares(*known, rows)
    questions = _questions(12, 5)
    for first in questions:
        for second in questions:
            one, other, found = reader.pair(first, second)
            assert found == pytest.approx(_cells(first) @ covariance @ _cells(second), abs=1e-8)
            assert one.value == pytest.approx(reader.read(first).value)
            assert other.variance == pytest.approx(reader.read(second).variance)


def test_the_order_of_answers_does_not_matter() -> None:
    order = list(range(50))
    forwards, backwards = _learned(order, ROWS)[0], _learned(order[::-1], ROWS)[0]
    for weights in _questions(30, 4):
        one, other = forwards.read(weights), backwards.read(weights)
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.variance == pytest.approx(other.variance, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [None, ROWS])
def test_without_answers_it_reads_as_a_release(rows: int | None) -> None:
    release = ProductReader.of_numbers(DESIGN, SCHEMA, _numbers(), rows)
    reader = AppendedReader(DESIGN, SCHEMA, _numbers(), rows)
    for weights in _questions(40, 8):
        assert reader.read(weights).value == pytest.approx(release.read(weights).value)
        assert reader.read(weights).variance == pytest.approx(
            release.read(weights).variance, rel=1e-9, abs=1e-9
        )


def test_groups_are_those_that_are_read_one_by_one() -> None:
    reader, *_ = _learned(list(range(50)), ROWS)
    grouping = GroupedAxes(("a", "b"), (8, 3))
    for weights in _questions(8, 6):
        one = OneByOne(SCHEMA, reader).by_group(weights, grouping)
        assert reader.by_group(weights, grouping).numbers[:2] == pytest.approx(
            one.numbers[:2], abs=1e-8
        )


def test_an_answer_that_says_nothing_new_changes_nothing() -> None:
    reader, *_ = _learned(list(range(50)), ROWS)
    asked = _questions(1, 11)[0]
    before = reader.read(asked)
    reader.append(Weights(()), 0.0, ROWS)
    reader.append(Weights((WeightTensor((), np.array(2.0)),)), 5.0, 17)
    assert reader.read(asked).value == pytest.approx(before.value)
    assert reader.read(asked).variance == pytest.approx(before.variance)


def test_products_add_up_to_weights_and_are_disjoint() -> None:
    for weights in _questions(60, 12):
        own = joined(SCHEMA, weights.parts)
        terms = np.array([_cells(each) for each in products(SCHEMA, own)]).reshape(-1, prod(SIZES))
        assert terms.sum(axis=0) == pytest.approx(_cells(weights))
        assert ((terms != 0).sum(axis=0) <= 1).all()
