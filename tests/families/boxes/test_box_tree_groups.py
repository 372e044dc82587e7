"""All groups of trees of boxes at once, against the same reader asked group by group."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from scumble.families.boxes import read as box_weights
from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.read import BoxTreeReader
from scumble.model.designs.boxes import Boxes
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.readings import (
    AverageWeights,
    GroupedAxes,
    OneByOne,
    Readings,
    Weights,
    WeightTensor,
    joined,
)

SHAPE = (6, 5, 3)
NAMES = ("a", "b", "c")
SIZES = dict(zip(NAMES, SHAPE, strict=True))
SCHEMA = sc.Schema(
    [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in SIZES.items()]
)
LAWS = tuple(DiscreteLaplace(Fraction(scale)) for scale in (3, 5, 2, 4))
GROUPINGS = [("a",), ("c", "a"), ("b", "c")]


def _tree(seed: int) -> BoxNodes:
    """Random cuts of one attribute after the other; the second level is not measured, and for some
    seeds nothing stands above the leaves.
    """
    rng = np.random.default_rng(seed)
    levels = [(Boxes.whole(SHAPE), np.zeros(1, np.int64))]
    for axis in (0, 1, 2, 0):
        boxes, _ = levels[-1]
        levels.append(boxes.cut(axis, rng.integers(boxes.low[axis], boxes.high[axis] + 1)))
    noisy = [rng.integers(-5, 90, len(boxes)) for boxes, _ in levels]
    noisy[1] = None
    if seed % 4 == 3:
        return BoxNodes.of_leaves(levels[-1][0], noisy[-1])
    return BoxNodes.of_levels(levels, noisy)


def _weights(rng: np.random.Generator) -> list[Weights]:
    def truths(*names: str) -> WeightTensor:
        return WeightTensor(names, (rng.random([SIZES[name] for name in names]) < 0.6) * 1.0)

    return [
        Weights(()),
        Weights((WeightTensor((), np.array(2.0)),)),
        Weights((truths("b"),)),
        Weights((truths("a"), truths("b", "c"))),
        Weights((truths("a", "c"),)),
        Weights((truths("a", "b", "c"),)),
        Weights((WeightTensor(("a", "b"), rng.normal(size=(6, 5))),)),
    ]


def _equal(found: Readings, expected: Readings) -> None:
    np.testing.assert_allclose(found.numbers, expected.numbers, rtol=1e-11, atol=1e-11)
    for one, other in ((found.low, expected.low), (found.high, expected.high)):
        one, other = one or found, other or expected
        np.testing.assert_allclose(one.numbers, other.numbers, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_all_groups_at_once_are_as_one_by_one(monkeypatch, seed: int) -> None:
    """With overlaps one at a time, and all together; each by a reader that has read nothing."""
    prune = 20 if seed % 2 else None
    one, other, alone = (
        BoxTreeReader.of_tree(_tree(seed), NAMES, BoxTree(LAWS, prune)) for _ in range(3)
    )
    slow = OneByOne(SCHEMA, alone)
    cut = set()
    for weights in _weights(np.random.default_rng(seed)):
        for names in GROUPINGS:
            grouping = GroupedAxes(names, tuple(SIZES[name] for name in names))
            expected = slow.by_group(weights, grouping)
            for reader, most in ((one, 1), (other, 1 << 20)):
                monkeypatch.setattr(box_weights, "MOST_OVERLAPS", most)
                found = reader.by_group(weights, grouping)
                _equal(found, expected)
                cut.update(found.at(group).low is not None for group in range(len(grouping)))
    assert True in cut
    assert prune or False in cut


@pytest.mark.parametrize("seed", range(4))
def test_averages_of_all_groups_are_as_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(50 + seed)
    reader = BoxTreeReader.of_tree(_tree(seed), NAMES, BoxTree(LAWS, 20 if seed % 2 else None))
    slow = OneByOne(SCHEMA, reader)
    amounts = [
        WeightTensor(("a",), np.arange(6.0)),
        WeightTensor(("b", "c"), rng.normal(size=(5, 3))),
        WeightTensor((), np.array(3.0)),
    ]
    pairs = itertools.product(_weights(rng)[:-1], amounts)
    for place, (weights, amount) in enumerate(pairs):
        average = AverageWeights(weights, amount, joined(SCHEMA, [*weights.parts, amount]))
        # Over the four trees, every pair of weights and amount has every grouping.
        names = GROUPINGS[(place + place // 3 + seed) % 3]
        grouping = GroupedAxes(names, tuple(SIZES[name] for name in names))
        found, expected = (each.averages(average, grouping) for each in (reader, slow))
        _equal(found.totals, expected.totals)
        _equal(found.counts, expected.counts)
        np.testing.assert_allclose(found.covariances, expected.covariances, atol=1e-10)
        # Of a difference that may vanish: against what it is a difference of.
        ratios = np.abs(found.totals.ratios(found.counts))
        size = 1 + found.totals.numbers[3] + ratios * found.counts.numbers[3]
        _, _, fourths, largest = found.centred.numbers - expected.centred.numbers
        assert (np.abs(largest) <= 1e-9 * size).all()
        assert (np.abs(fourths) <= 1e-9 * size**4 * LAWS[1].fourth).all()


def test_runs_of_codes_hold_every_group_once(monkeypatch) -> None:
    monkeypatch.setattr(box_weights, "MOST_OVERLAPS", 3)
    boxes, _ = Boxes.whole((7, 2)).halves()
    runs = list(
        box_weights.overlaps(
            box_weights.WeighedBoxes(boxes, ("a", "b")), GroupedAxes(("a", "b"), (7, 2))
        )
    )
    assert len(runs) > 2
    assert [each.first for each in runs] == [0, *(each.last for each in runs[:-1])]
    assert runs[-1].last == 14
    assert np.concatenate([each.groups for each in runs]).tolist() == list(range(14))
