"""Answers from boxes: against dense matrices, and the limits where leaves are cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.read import BoxTreeReader
from scumble.model.designs.boxes import Boxes
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.readings import Weights, WeightTensor

SHAPE = (6, 5, 3)
NAMES = ("a", "b", "c")
LAWS = tuple(DiscreteLaplace(Fraction(scale)) for scale in (3, 5, 2))


def _tree(seed: int) -> BoxNodes:
    """A tree of random cuts, one attribute after the other."""
    rng = np.random.default_rng(seed)
    levels = [(Boxes.whole(SHAPE), np.zeros(1, np.int64))]
    for axis in (0, 1, 2):
        boxes, _ = levels[-1]
        levels.append(boxes.cut(axis, rng.integers(boxes.low[axis], boxes.high[axis] + 1)))
    noisy = [rng.integers(-5, 90, len(boxes)) for boxes, _ in levels]
    noisy[1] = None
    return BoxNodes.of_levels(levels, noisy)


def _members(boxes: Boxes) -> np.ndarray:
    codes = np.stack([axis.ravel() for axis in np.indices(SHAPE)])
    inside = (boxes.low[:, :, None] <= codes[:, None]) & (codes[:, None] <= boxes.high[:, :, None])
    return inside.all(axis=0).astype(float)


def _dense(tree: BoxNodes, design: BoxTree) -> np.ndarray:
    """The matrix from noisy counts to cells: least squares for leaves, evenly spread."""
    forest = tree.estimator(design.laws)
    leaves = forest.leaves
    members = _members(tree.boxes)
    leaf = members[leaves]
    sums = (members @ leaf.T > 0) & ((members @ leaf.T) == leaf.sum(axis=1))
    weighted = sums.T * (1 / forest.variances)
    fit = np.linalg.solve(weighted @ sums, weighted)
    return (leaf / leaf.sum(axis=1, keepdims=True)).T @ fit


def _full(weights: Weights) -> np.ndarray:
    total = np.ones(SHAPE)
    for part in weights.parts:
        shape = [size if name in part.names else 1 for name, size in zip(NAMES, SHAPE, strict=True)]
        total = total * part.values.reshape(shape)
    return total.ravel()


def _questions(rng: np.random.Generator) -> list[Weights]:
    return [
        Weights(()),
        Weights((WeightTensor((), np.array(7.0)),)),
        Weights((WeightTensor(("b",), rng.normal(size=5)),)),
        Weights(
            (
                WeightTensor(("c",), (rng.random(3) < 0.5) * 1.0),
                WeightTensor(("a",), rng.normal(size=6)),
            )
        ),
        Weights(
            (
                WeightTensor(("a", "c"), rng.normal(size=(6, 3))),
                WeightTensor(("b",), np.arange(5.0)),
            )
        ),
        Weights((WeightTensor(NAMES, rng.normal(size=SHAPE)),)),
    ]


def test_equals_dense_matrices(subtests: pytest.Subtests) -> None:
    for seed in range(12):
        with subtests.test(seed=seed):
            tree, design = _tree(seed), BoxTree(LAWS)
            reader = BoxTreeReader.of_tree(tree, NAMES, design)
            dense = _dense(tree, design)
            variances = np.array([*(law.variance for law in LAWS), 0.0])[tree.law]
            fourths = np.array([*(3 * law.variance**2 + law.variance for law in LAWS), 0.0])[
                tree.law
            ]
            questions = _questions(np.random.default_rng(seed))
            used = [_full(question) @ dense for question in questions]
            for question, row in zip(questions, used, strict=True):
                found = reader.read(question)
                assert found.value == pytest.approx(row @ tree.noisy, abs=1e-8)
                assert found.variance == pytest.approx(row**2 @ variances)
                assert found.fourth == pytest.approx(row**4 @ fourths)
                measured = tree.law >= 0
                assert found.largest == pytest.approx(np.abs(row[measured]).max())
            one, other, covariance = reader.pair(questions[3], questions[1])
            assert (one, other) == (reader.read(questions[3]), reader.read(questions[1]))
            assert covariance == pytest.approx(used[3] * variances @ used[1])


def test_limits_if_and_only_if_a_leaf_is_cut(subtests: pytest.Subtests) -> None:
    """Weights of -1, 0, 1 and 2 at random, so that whole, cut and unused leaves occur.

    The limits are the sums with the least and largest weight of every leaf, found by listing cells.
    """
    for seed in range(12):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(100 + seed)
            tree, design = _tree(seed), BoxTree(LAWS)
            reader = BoxTreeReader.of_tree(tree, NAMES, design)
            leaves = _members(reader.leaves) > 0
            seen = set()
            for _ in range(30):
                parts = [
                    WeightTensor((name,), np.sort(rng.integers(-1, 3, size)) * 1.0)
                    for name, size in zip(NAMES, SHAPE, strict=True)
                    if rng.random() < 0.5
                ]
                if rng.random() < 0.3:
                    parts = [
                        WeightTensor(("a", "c"), rng.integers(-1, 3, (6, 3)) * 1.0),
                        *parts[1:2],
                    ]
                    parts = [part for part in parts if part.names in (("a", "c"), ("b",))]
                weights = Weights(tuple(parts))
                full = _full(weights)
                found = reader.read(weights)
                least, most = (
                    sum(
                        pick(full[leaf]) * count
                        for leaf, count in zip(leaves, reader.counts, strict=True)
                    )
                    for pick in (np.min, np.max)
                )
                cut = any(len(set(full[leaf])) > 1 for leaf in leaves)
                seen.add(cut)
                assert (found.low is not None) == (found.high is not None) == cut
                low, high = found.limits
                assert low.value == pytest.approx(least, abs=1e-8)
                assert high.value == pytest.approx(most, abs=1e-8)
                assert not found.notes
            assert seen == {True, False}


def test_limits_of_a_pruned_tree_are_read_before_pruning() -> None:
    levels = [(Boxes.whole((4,)), np.zeros(1, np.int64))]
    for _ in range(2):
        levels.append(levels[-1][0].halves())
    tree = BoxNodes.of_levels(levels, [np.array([103]), np.array([4, 99]), np.array([1, 3, 2, 97])])
    first = Weights((WeightTensor(("a",), np.array([1.0, 0.0, 0.0, 0.0])),))
    plain = BoxTreeReader.of_tree(tree, ("a",), BoxTree(LAWS)).read(first)
    pruned = BoxTreeReader.of_tree(tree, ("a",), BoxTree(LAWS, prune=20)).read(first)
    assert pruned.value != pytest.approx(plain.value)
    assert pruned.low == pruned.high == plain


def test_pruned_leaves_are_the_topmost_small_nodes() -> None:
    levels = [(Boxes.whole((4,)), np.zeros(1, np.int64))]
    for _ in range(2):
        levels.append(levels[-1][0].halves())
    tree = BoxNodes.of_levels(levels, [np.array([103]), np.array([4, 99]), np.array([1, 3, 2, 97])])
    laws = LAWS
    assert len(BoxTreeReader.of_tree(tree, ("a",), BoxTree(laws)).leaves) == 4
    pruned = BoxTreeReader.of_tree(tree, ("a",), BoxTree(laws, prune=20))
    assert pruned.leaves.low.tolist() == [[0, 2, 3]]
    assert pruned.leaves.high.tolist() == [[1, 2, 3]]
    assert len(BoxTreeReader.of_tree(tree, ("a",), BoxTree(laws, prune=1000)).leaves) == 1
