"""Questions read from the top of a tree, against the same weights over all of its leaves."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from scumble.families.boxes import read as tree_questions
from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree, TreeEstimator, TreeNoise
from scumble.families.boxes.read import BoxTreeReader, LeafQuestions, limit_children
from scumble.model.designs.boxes import Boxes
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.readings import LinearReading, Weights, WeightTensor

SHAPE = (14, 9)
NAMES = ("a", "b")
SIZES = dict(zip(NAMES, SHAPE, strict=True))
LAWS = tuple(DiscreteLaplace(Fraction(scale)) for scale in (3, 5))


def _tree(seed: int, shape: str) -> BoxNodes:
    """Leaves alone, below one node, or below pieces of a random size; up to 126 children."""
    rng = np.random.default_rng(seed)
    pieces, origin = Boxes.whole(SHAPE).even(0, np.array([rng.integers(1, 6)]))
    leaves, of = pieces.even(1, rng.integers(1, 10, len(pieces)))
    leaves, at = leaves.even(0, rng.integers(1, 4, len(leaves)))
    noisy = rng.integers(-5, 90, len(leaves))
    if shape == "leaves":
        return BoxNodes.of_leaves(leaves, noisy)
    if shape == "one node":
        levels = [(Boxes.whole(SHAPE), np.zeros(1, np.int64)), (leaves, origin[of][at] * 0)]
        return BoxNodes.of_levels(levels, [np.array([2000]), noisy])
    levels = [(pieces, np.zeros(len(pieces), np.int64)), (leaves, of[at])]
    return BoxNodes.of_levels(levels, [rng.integers(100, 300, len(pieces)), noisy])


def _questions(rng: np.random.Generator) -> list[Weights]:
    """Products of ranges, of amounts with both signs, and of constants; nothing at all."""

    def span(name: str) -> WeightTensor:
        first, last = np.sort(rng.integers(0, SIZES[name] + 1, 2))
        values = np.zeros(SIZES[name])
        values[first:last] = 1
        return WeightTensor((name,), values)

    amount = WeightTensor(("a",), np.round(rng.normal(size=SIZES["a"])))
    factor = WeightTensor((), np.array(-1.5))
    return [
        *(Weights((span("a"), span("b"))) for _ in range(6)),
        *(Weights((span(name),)) for name in NAMES),
        Weights((amount, span("b"))),
        Weights((factor, amount)),
        Weights((factor,)),
        Weights(()),
    ]


def _numbers(reading: LinearReading) -> list[list[float]]:
    both = (reading, reading.low or reading, reading.high or reading)
    return [[each.value, each.variance, each.fourth, each.largest] for each in both]


def test_the_readings_are_those_of_all_leaves(subtests: pytest.Subtests) -> None:
    for shape, prune, rows in product(["leaves", "one node", "pieces"], [None, 60], [None, 2500]):
        with subtests.test(shape=shape, prune=prune, rows=rows):
            cut = set()
            for seed in range(8):
                reader = BoxTreeReader.of_tree(
                    _tree(seed, shape), NAMES, BoxTree(LAWS, prune), rows
                )
                for weights in _questions(np.random.default_rng(seed)):
                    found, expected = reader.read(weights), reader._read(weights)
                    np.testing.assert_allclose(
                        _numbers(found), _numbers(expected), rtol=1e-9, atol=1e-9
                    )
                    assert (found.low is None) == (expected.low is None)
                    cut.add(found.low is None)
            assert cut == {True, False}


def test_questions_read_together_are_as_one_by_one(monkeypatch) -> None:
    """To the last bit, also if few of them fit in memory."""
    reader = BoxTreeReader.of_tree(_tree(3, "pieces"), NAMES, BoxTree(LAWS))
    questions = _questions(np.random.default_rng(3))
    joint = Weights((WeightTensor(NAMES, np.arange(126.0).reshape(SHAPE)),))
    questions.insert(2, joint)
    single = [reader.read(each) for each in questions]
    assert reader.read_many(questions) == single
    monkeypatch.setattr(tree_questions, "_MOST_NUMBERS", 60)
    assert reader.read_many(questions) == single
    assert reader.read_many([]) == []


def test_nodes_that_were_not_measured_change_no_estimate() -> None:
    rng = np.random.default_rng(5)
    parents = np.concatenate([np.full(11, -1), rng.integers(0, 3, 150), rng.integers(11, 14, 90)])
    forest = TreeEstimator(parents, rng.uniform(1, 9, len(parents)))
    wide = TreeNoise(forest, forest.variances, forest.variances)
    narrow, places = limit_children(wide, rng.permutation(len(parents)))
    children = np.bincount(narrow.estimator.parents + 1)
    assert np.bincount(parents + 1).max() > 40
    assert children.max() <= 8
    assert (np.diff(places) > 0).all()  # nodes keep their order
    noisy = rng.normal(size=len(parents)) * 50
    given = np.zeros(len(narrow.variances))
    given[places] = noisy
    estimates = narrow.estimator.estimates(given)[places]
    np.testing.assert_allclose(estimates, forest.estimates(noisy), rtol=1e-12)
    assert limit_children(narrow, np.arange(len(given)))[0] is narrow


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (2, 1), (0, 4)])
def test_boxes_outside_of_the_domain_are_refused(low: int, high: int) -> None:
    """Compiled loops check no indices."""
    noise = TreeNoise(TreeEstimator(np.array([-1]), np.ones(1)), np.ones(1), np.ones(1))
    box = Boxes(np.array([[low]]), np.array([[high]]))
    leaves = LeafQuestions(noise, np.array([0]), np.ones(1), box, ("a",), None)
    with pytest.raises(IndexError, match="outside of the domain"):
        leaves.read([Weights((WeightTensor(("a",), np.ones(4)),))])
