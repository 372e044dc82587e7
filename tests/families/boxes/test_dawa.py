"""Dawa: distances and partitions by brute force, the exact probability of every partition of a tiny
domain, and what a row changes in it.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.families.boxes.design.box_tree import BoxNodes, TreeEstimator
from scumble.families.boxes.publish.dawa import bucket_tree
from scumble.model.designs.boxes import Boxes
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.splits import Buckets, noisy_partition
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.region_tables import (
    grown,
    members,
    neighbours,
    private_counts,
    private_table,
    spent_on_counts,
)


def _intervals(size: int) -> list[tuple[int, int]]:
    """Begin and end of every bucket, in their order."""
    lengths = [1 << k for k in range(size.bit_length())]
    return [(begin, begin + n) for n in lengths for begin in range(size - n + 1)]


def test_distances_by_brute_force(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 7, 8, 13]:
        with subtests.test(size=size):
            rng = np.random.default_rng(size)
            for most in (1, 4, 10**6):
                counts = rng.integers(0, most + 1, size)
                expected = [
                    min(int(np.abs(counts[a:b] - m).sum()) for m in counts[a:b])
                    for a, b in _intervals(size)
                ]
                buckets = Buckets(size)
                assert buckets.deviations(counts).tolist() == expected
                assert buckets.number == len(expected)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_sensitivity_of_distances_by_brute_force(relation: str) -> None:
    """All neighbouring tables of four codes: an interval changes by at most the changed rows in it,
    and some does.
    """
    buckets, largest = Buckets(4), 0
    for one, other in neighbours(4, 3, relation):
        change = np.abs(buckets.deviations(one) - buckets.deviations(other))
        rows = [np.abs(one - other)[a:b].sum() for a, b in _intervals(4)]
        assert (change <= rows).all()
        largest = max(largest, int(change.max()))
    assert largest == PrivacyUnit(relation).sensitivity


def _partitions(size: int) -> list[tuple[int, ...]]:
    """All rows of lengths, the last first, in the order that decides between equal costs."""
    if size == 0:
        return [()]
    lengths = [1 << k for k in range(size.bit_length())]
    return [(n, *rest) for n in lengths for rest in _partitions(size - n)]


@pytest.mark.parametrize("size", [1, 2, 5, 8, 9])
def test_the_cheapest_partition_by_brute_force(size: int) -> None:
    rng = np.random.default_rng(size)
    intervals = {interval: k for k, interval in enumerate(_intervals(size))}
    for most in (1, 3, 50):
        costs = rng.integers(-most, most + 1, Buckets(size).number)

        def cost(lengths: tuple[int, ...], costs: np.ndarray = costs) -> int:
            ends = size - np.cumsum([0, *lengths])
            pairs = zip(ends[1:].tolist(), ends[:-1].tolist(), strict=True)
            return int(sum(costs[intervals[pair]] for pair in pairs))

        best = min(_partitions(size), key=cost)
        expected = (size - 1 - np.cumsum([0, *best[:-1]]))[::-1]
        assert Buckets(size).cheapest(costs).tolist() == expected.tolist()


_REACH = 24  # noise beyond it has a probability of e^-24


def _odds(counts: np.ndarray, scale: float, price: int) -> np.ndarray:
    """The probabilities of the partitions {0}{1}{2}, {0 1}{2} and {0}{1 2} of three codes.

    Given the noise of {0} and {2}, one of the others stands in each: in the first that of {1}, in
    the second that of {0 1}, in the third that of {1 2}; equal costs go to the earlier one.
    """
    alpha = math.exp(-1 / scale)
    noise = np.arange(int(_REACH * scale))
    share = (1 - alpha) * alpha**noise
    first, second = (abs(int(counts[k]) - int(counts[k + 1])) for k in (0, 1))

    def at_least(least: np.ndarray) -> np.ndarray:
        """P(noise >= least)."""
        return alpha ** np.maximum(least, 0)

    low, high = noise[:, None, None], noise[None, :, None]
    own = noise[None, None, :]
    weight = share[:, None, None] * share[None, :, None] * share[None, None, :]
    # Costs of the three, but for what all have: price - noise{0} - noise{2} and so on.
    single = 3 * price - low - high - own
    odds = [
        (weight * (1 - at_least(2 * price + first - high - single + 1))
         * (1 - at_least(2 * price + second - low - single + 1))).sum()
    ]  # fmt: skip
    left = 2 * price + first - own - high
    right_loses = 1 - at_least(2 * price + second - low - left + 1)
    odds.append((weight * (1 - at_least(3 * price - low - high - left)) * right_loses).sum())
    right = 2 * price + second - low - own
    left_loses = 1 - at_least(2 * price + first - high - right)
    odds.append((weight * (1 - at_least(3 * price - low - high - right)) * left_loses).sum())
    return np.array(odds)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_epsilon_of_a_partition_by_enumeration(relation: str) -> None:
    """All neighbouring tables of three codes: no partition is more than e^ε times as probable in
    one as in the other, some is more than e^(ε/2) times; half the noise breaks the promise.
    """
    epsilon = 2.0
    pairs = list(neighbours(3, 2, relation))

    def largest(scale: float) -> float:
        tables = {tuple(t.tolist()) for pair in pairs for t in pair}
        known = {table: np.log(_odds(np.array(table), scale, 2)) for table in tables}
        return max(
            float(np.abs(known[tuple(one.tolist())] - known[tuple(other.tolist())]).max())
            for one, other in pairs
        )

    scale = 2 * PrivacyUnit(relation).sensitivity / epsilon
    assert epsilon / 2 < largest(scale) <= epsilon + 1e-9
    assert largest(scale / 2) > epsilon


def test_partitions_have_their_probabilities() -> None:
    """2000 partitions of three codes: chi-square with 2 degrees of freedom, false alarm 1e-6."""
    counts, runs = np.array([3, 0, 1]), 2000
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(20):
        private = private_counts(
            counts, PrivacyLoss(Fraction(10**6)), PrivacyUnit("add_remove"), seed=seed
        )
        seen.update(
            tuple(noisy_partition(private, epsilon=Fraction(1), price=2).tolist())
            for _ in range(runs // 20)
        )
    odds = _odds(counts, 2.0, 2)
    assert odds.sum() == pytest.approx(1)
    found = np.array([seen[0, 1, 2], seen[1, 2], seen[0, 2]])
    assert found.sum() == runs
    assert ((found - runs * odds) ** 2 / (runs * odds)).sum() < 27.7


def test_the_meter_stops_a_partition_that_costs_too_much() -> None:
    private = private_counts(
        np.zeros(4, np.int64), PrivacyLoss(Fraction(1)), PrivacyUnit("replace")
    )
    with pytest.raises(sc.PromiseError, match="partition of a would cost"):
        noisy_partition(private, epsilon=Fraction(2), price=1)


def test_an_eighth_for_the_partition_the_rest_for_counts(subtests: pytest.Subtests) -> None:
    for relation, size in product(["add_remove", "replace"], [1, 2, 50]):
        with subtests.test(relation=relation, size=size):
            counts = np.random.default_rng(1).integers(0, 9, size)
            mechanism = sc.Dawa("a", epsilon=2, neighbours=relation, contribution=2)
            tree, design, reader = grown(mechanism, counts, 1)
            assert spent_on_counts(tree, design, (size,), mechanism.unit) == Fraction(7, 4)
            assert (members(reader.leaves, (size,)).sum(axis=0) == 1).all()
            table = private_table(counts, mechanism.promise, 1)
            mechanism.grow(table)
            assert table._account.left == 0


def test_buckets_follow_the_data() -> None:
    """Two levels of counts far apart: the step between them is the end of a bucket."""
    counts = np.repeat([0, 5000], [37, 91])
    mechanism = sc.Dawa("a", epsilon=1, neighbours="add_remove")
    _, _, reader = grown(mechanism, counts, 3)
    assert 36 in reader.leaves.high[0].tolist()
    assert len(reader.leaves) < 40
    inside = np.zeros(128)
    inside[37:] = 1
    reading = reader.read(Weights((WeightTensor(("a",), inside),)))
    assert not reading.notes
    assert abs(reading.value - 91 * 5000) < 8 * reading.variance**0.5
    inside[int(reader.leaves.low[0, np.argmax(reader.leaves.cells)])] = 0.5
    assert reader.read(Weights((WeightTensor(("a",), inside),))).low is not None


@pytest.mark.parametrize("buckets", [1, 2, 3, 40, 300])
def test_the_tree_is_no_worse_than_others(buckets: int) -> None:
    """Than buckets alone, and than pairs of pairs with equal budgets."""
    high = np.cumsum(np.random.default_rng(buckets).integers(1, 9, buckets)) - 1
    boxes = Boxes(np.concatenate([[0], high[:-1] + 1])[None], high[None])
    levels, shares = bucket_tree(boxes)
    assert sum(shares) == 1
    assert np.array_equal(levels[-1][0].high, boxes.high)
    tree = BoxNodes.of_levels(levels, [np.zeros(len(b), np.int64) for b, _ in levels])
    noise = np.array([1 / float(share) ** 2 for share in shares])[tree.law]
    ends = np.arange(1, 9) * buckets // 9

    def mean_variance(forest: TreeEstimator) -> float:
        weights = np.zeros(len(forest.parents))
        total = 0.0
        for end in ends:
            weights[-buckets:] = np.arange(buckets) < end
            total += forest.variance(weights)
        return total

    found = mean_variance(TreeEstimator(tree.parents, noise))
    alone = mean_variance(TreeEstimator(np.full(buckets, -1), np.ones(buckets)))
    assert found <= alone * 1.05
    for _, above in levels[1:]:
        assert (np.diff(above) >= 0).all()


def test_many_codes_are_refused() -> None:
    schema = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 1 << 19))])
    with pytest.raises(sc.ParameterError, match="524289 values; Dawa takes at most 262144"):
        sc.Dawa(["a"], epsilon=1, neighbours="replace").check(schema)
