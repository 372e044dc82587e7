"""The reader of noisy marginals: weights in parts, cached errors, refused questions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.residuals import MarginalTable, Residuals, ResidualSolver
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.marginals import ResidualReader
from scumble.public.estimation.measurements.readings import (
    GroupedAxes,
    OneByOne,
    Weights,
    WeightTensor,
)

NAMES, SIZES = ("a", "b", "c", "d"), (2, 3, 4, 3)


@pytest.fixture
def reader() -> ResidualReader:
    """All sets of three attributes, with whole numbers that are noise alone."""
    tables = tuple(
        MarginalTable(places, "marginal", DiscreteLaplace(Fraction(2 + number)))
        for number, places in enumerate(itertools.combinations(range(4), 3))
    )
    design = Residuals(NAMES, SIZES, tables)
    return ResidualReader.of_solver(
        ResidualSolver(design, np.random.default_rng(1).integers(-20, 20, design.numbers))
    )


def _weights(*names: str, seed: int = 1) -> Weights:
    """Random weights, one part for each text of names."""
    rng = np.random.default_rng(seed)
    return Weights(
        tuple(
            WeightTensor(tuple(part), rng.normal(size=[SIZES[NAMES.index(name)] for name in part]))
            for part in names
        )
    )


def _whole(weights: Weights) -> Weights:
    """The same weights as one part, its attributes in another order."""
    names = sorted(weights.names, reverse=True)
    values = np.ones([SIZES[NAMES.index(name)] for name in names])
    for part in weights.parts:
        order = sorted(part.names, reverse=True)
        turned = part.values.transpose([part.names.index(name) for name in order])
        shape = [SIZES[NAMES.index(name)] if name in part.names else 1 for name in names]
        values = values * turned.reshape(shape)
    return Weights((WeightTensor(tuple(names), values),))


@pytest.mark.parametrize("names", [("a",), ("ab",), ("a", "b"), ("a", "bd"), ("c", "a", "d")])
def test_parts_are_the_product(reader: ResidualReader, names: tuple[str, ...]) -> None:
    weights = _weights(*names)
    one, other = reader.read(weights), reader.read(_whole(weights))
    assert one.value == pytest.approx(other.value)
    assert one.variance == pytest.approx(other.variance)
    assert one.fourth == pytest.approx(other.fourth)
    assert one.largest == pytest.approx(other.largest)


def test_values_are_sums_of_the_marginal(reader: ResidualReader) -> None:
    weights = _weights("a", "c")
    marginal = reader.marginal(reader.places(["a", "c"]))
    expected = weights.parts[0].values @ marginal @ weights.parts[1].values
    assert reader.read(weights).value == pytest.approx(expected)


def test_a_pair_is_two_readings_and_their_covariance(reader: ResidualReader) -> None:
    """Var(x + y) = Var x + Var y + 2 Cov, with x + y read as one."""
    first, second = _weights("ab", seed=1), _weights("bc", seed=2)
    one, other, covariance = reader.pair(first, second)
    together = np.einsum("ab,c->abc", first.parts[0].values, np.ones(4)) + np.einsum(
        "bc,a->abc", second.parts[0].values, np.ones(2)
    )
    both = reader.read(Weights((WeightTensor(("a", "b", "c"), together),)))
    assert (one, other) == (reader.read(first), reader.read(second))
    assert both.value == pytest.approx(one.value + other.value)
    assert both.variance == pytest.approx(one.variance + other.variance + 2 * covariance)


def test_groups_share_their_error(reader: ResidualReader) -> None:
    """The error of every cell is computed afresh and found to be the one that was remembered."""
    fresh = ResidualReader.of_solver(reader.solver)
    for codes in itertools.product(range(2), range(4)):
        parts = [np.eye(2)[codes[0]], np.eye(4)[codes[1]]]
        weights = Weights((WeightTensor(("a",), parts[0]), WeightTensor(("c",), parts[1])))
        one, other = reader.read(weights), fresh.read(_whole(weights))
        assert one.value == pytest.approx(other.value)
        assert one.variance == pytest.approx(other.variance)
        assert one.fourth == pytest.approx(other.fourth)
    assert reader._errors.size == 1
    assert fresh._errors.size == 8


SCHEMA = sc.Schema(
    [
        sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
        for name, size in zip(NAMES, SIZES, strict=True)
    ]
)


def test_totals_of_all_groups_are_those_of_each(
    reader: ResidualReader, subtests: pytest.Subtests
) -> None:
    for parts, groups in itertools.product(
        [(), ("a",), ("ab",), ("c", "a"), ("ac", "b"), ("d",), ("cd",)], ["c", "ca", "ac", "bda"]
    ):
        with subtests.test(parts=parts, groups=groups):
            grouping = GroupedAxes(
                tuple(groups), tuple(SIZES[NAMES.index(name)] for name in groups)
            )
            weights = _weights(*parts)
            constant = Weights((*weights.parts, WeightTensor((), np.array(3.0))))
            for some in (weights, constant, _cut(weights)):
                found = reader.totals(some, grouping)
                fresh = OneByOne(SCHEMA, ResidualReader.of_solver(reader.solver))
                if len({*groups, *"".join(parts)}) > 3:
                    assert found is None
                    continue
                assert found is not None
                expected = fresh.by_group(some, grouping)
                assert found.numbers == pytest.approx(expected.numbers, rel=1e-12, abs=1e-12)
                assert found.low is None


def _cut(weights: Weights) -> Weights:
    """The same weights, but 0 for the first value of an attribute, and one weight for others."""
    parts = []
    for part in weights.parts:
        values = np.ones_like(part.values)
        values[0] = 0.0
        parts.append(WeightTensor(part.names, values))
    return Weights(tuple(parts))


def test_groups_of_an_attribute_with_one_value_are_read_one_by_one() -> None:
    table = MarginalTable((0, 1), "marginal", DiscreteLaplace(Fraction(2)))
    solver = ResidualSolver(Residuals(("a", "b"), (1, 3), (table,)), np.arange(3))
    assert ResidualReader.of_solver(solver).totals(Weights(()), GroupedAxes(("a",), (1,))) is None


def test_what_gives_all_values_the_same_weight_is_not_asked(reader: ResidualReader) -> None:
    """Four attributes are in no table; with three and a constant one they need not be."""
    constant = WeightTensor(("d",), np.full(3, 2.0))
    three = _weights("a", "b", "c")
    found = reader.read(Weights((*three.parts, constant)))
    assert found.value == pytest.approx(2 * reader.read(three).value)
    assert found.variance == pytest.approx(4 * reader.read(three).variance)
    assert reader.read(Weights(())).value == pytest.approx(float(reader.solver.marginal(())))


def test_what_was_not_measured_together_is_refused(reader: ResidualReader) -> None:
    with pytest.raises(sc.QueryError, match=r"ties a, b, c, d together.*more than 3 attributes"):
        reader.read(_weights("a", "b", "c", "d"))
