"""Quadtree: what it spends by brute force, its budgets, and the law of its errors."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteGaussian
from scumble.public.estimation.interval_laws import noise_half_width
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.region_tables import (
    domain,
    grown,
    members,
    private_table,
    spent_on_counts,
)

SHAPES = [(1,), (9,), (8, 8), (5, 3), (4, 2, 3), (2, 3, 2, 2)]


def _quadtree(shape: tuple[int, ...], **given) -> sc.Quadtree:
    given = {"epsilon": 0.7, "neighbours": "add_remove"} | given
    return sc.Quadtree(domain(shape).names, **given)


def test_the_whole_promise_is_spent_and_no_more(subtests: pytest.Subtests) -> None:
    """By brute force over all cells, exactly; a scale that is half of what it should be spends
    more.
    """
    for neighbours, shape in product(["replace", "add_remove"], SHAPES):
        with subtests.test(neighbours=neighbours, shape=shape):
            mechanism = _quadtree(shape, neighbours=neighbours, contribution=3)
            counts = np.zeros(shape, np.int64)
            tree, design, _ = grown(mechanism, counts, seed=1)
            assert spent_on_counts(tree, design, shape, mechanism.unit) == Fraction(7, 10)


def test_gaussian_noise_spends_its_rho() -> None:
    mechanism = _quadtree((6, 5), epsilon=1, delta=1e-6, neighbours="replace")
    tree, design, _ = grown(mechanism, np.zeros((6, 5), np.int64), seed=1)
    assert all(isinstance(law, DiscreteGaussian) for law in design.laws)
    inside = members(tree.boxes, (6, 5))
    weights = np.array([1 / law.parameter for law in design.laws], object)[tree.law]
    # Two different cells of one level change by one each: a squared length of two at most.
    assert 2 * max(weights @ inside) / 2 == mechanism.promise.rho


def test_the_account_is_empty_afterwards() -> None:
    mechanism = _quadtree((8, 8))
    table = private_table(np.zeros((8, 8), np.int64), mechanism.promise, 1)
    mechanism.grow(table)
    assert table._account.left == 0


def test_budgets_follow_the_border_of_a_range() -> None:
    def epsilons(shape: tuple[int, ...]) -> np.ndarray:
        _, design, _ = grown(_quadtree(shape), np.zeros(shape, np.int64), 1)
        return np.array([float(1 / law.scale) for law in design.laws])

    assert epsilons((64,)) == pytest.approx([0.1] * 7, rel=1e-4)
    two = epsilons((128, 128))
    assert two[1:] / two[:-1] == pytest.approx([2 ** (1 / 3)] * 7, rel=1e-3)
    # The share of the leaves and of the root that the paper has for seven halvings.
    assert two[[-1, 0]] / 0.7 == pytest.approx([0.245, 0.049], abs=5e-4)


def test_the_noise_is_that_of_its_law() -> None:
    """Mean square of 16384 noises: 5.3 standard errors around the variance, false alarm 1e-7."""
    tree, design, _ = grown(_quadtree((128, 128)), np.zeros((128, 128), np.int64), seed=5)
    law = design.laws[-1]
    noise = tree.noisy[tree.law == len(design.laws) - 1].astype(float)
    fourth = (3 + 1 / law.variance + 2) * law.variance**2
    assert abs(np.mean(noise**2) - law.variance) < 5.3 * (fourth / len(noise)) ** 0.5


def test_unbiased_with_the_stated_variance_and_coverage() -> None:
    """A range and a sum over 8 × 8 cells, 800 trees. Each of the six checks is off by 5.2 standard
    errors with probability 2e-7 at most.
    """
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 40, (8, 8))
    inside = np.zeros(8)
    inside[2:7] = 1
    questions = [
        Weights((WeightTensor(("a",), inside), WeightTensor(("b",), inside[::-1].copy()))),
        Weights((WeightTensor(("a", "b"), np.arange(64.0).reshape(8, 8)),)),
    ]
    truths = [float(inside @ counts @ inside[::-1]), float((np.arange(64) * counts.ravel()).sum())]
    runs, errors, readings = 800, [], []
    for seed in range(runs):
        _, _, reader = grown(_quadtree((8, 8), epsilon=1), counts, seed)
        readings = [reader.read(question) for question in questions]
        errors.append([each.value - truth for each, truth in zip(readings, truths, strict=True)])
    for error, reading in zip(np.array(errors).T, readings, strict=True):
        assert not reading.notes
        stderr = reading.variance**0.5
        assert abs(error.mean()) < 5.2 * stderr / runs**0.5
        spread = (reading.fourth / reading.variance**2 + 2) ** 0.5
        assert abs(error.var() / reading.variance - 1) < 5.2 * spread / runs**0.5
        half = noise_half_width(reading.variance, reading.fourth, reading.largest, 0.9)
        assert (abs(error) <= half).mean() > 0.9 - 5.2 * (0.09 / runs) ** 0.5


def test_pruning_keeps_sums_of_whole_nodes() -> None:
    """The fit is consistent: what a question of whole nodes gets does not depend on pruning."""
    counts = np.random.default_rng(2).integers(0, 30, (16, 16))
    plain, pruned = (grown(_quadtree((16, 16), prune=prune), counts, 4)[2] for prune in (None, 60))
    assert len(pruned.leaves) < len(plain.leaves)
    assert (members(pruned.leaves, (16, 16)).sum(axis=0) == 1).all()
    everything = Weights(())
    one, other = plain.read(everything), pruned.read(everything)
    assert one.value == pytest.approx(other.value)
    assert one.variance == pytest.approx(other.variance)
    assert not other.notes
    inside = np.zeros(16)
    inside[3] = 1
    cut = pruned.read(Weights((WeightTensor(("a",), inside),)))
    assert cut.low is not None
    assert not plain.read(Weights((WeightTensor(("a",), inside),))).notes


def test_height_and_too_many_attributes() -> None:
    _, _, reader = grown(_quadtree((16, 16), height=2), np.zeros((16, 16), np.int64), 1)
    assert len(reader.leaves) == 16
    schema = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in "abcde"]
    )  # fmt: skip
    with pytest.raises(sc.ParameterError, match="at most 4 attributes"):
        sc.Quadtree(schema.names, epsilon=1, neighbours="replace").check(schema)
    wide = sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 9999)) for n in "abc"])
    with pytest.raises(sc.ParameterError, match=r"1e\+12 cells; Quadtree counts at most"):
        sc.Quadtree(wide.names, epsilon=1, neighbours="replace").check(wide)
