"""Least squares on trees of any shape: against dense linear algebra, and pass by pass."""

from __future__ import annotations

import numpy as np
import pytest

from scumble.families.boxes.design.box_tree import TreeEstimator


def _tree(rng: np.random.Generator) -> TreeEstimator:
    """Up to 30 nodes in any shape, chains and several roots among them; inner nodes that were not
    measured too.
    """
    nodes = int(rng.integers(1, 31))
    parents = [
        -1,
        *(int(rng.integers(-1 if rng.random() < 0.1 else 0, k)) for k in range(1, nodes)),
    ]
    variances = np.exp(rng.uniform(-4, 4, nodes))
    inner = ~TreeEstimator(np.array(parents), np.ones(nodes)).leaves
    variances[inner & (rng.random(nodes) < 0.4)] = np.inf
    return TreeEstimator(np.array(parents), variances)


def _sums(tree: TreeEstimator) -> np.ndarray:
    """Every node as a sum of leaves."""
    leaves = np.flatnonzero(tree.leaves)
    sums = np.zeros((len(tree.parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            sums[node, column] = 1
            node = tree.parents[node]
    return sums


def _dense(tree: TreeEstimator) -> np.ndarray:
    """The matrix that takes noisy numbers to least-squares estimates of all nodes."""
    sums, precisions = _sums(tree), 1 / tree.variances
    weighted = sums.T * precisions
    return sums @ np.linalg.solve(weighted @ sums, weighted)


def test_equals_dense_least_squares(subtests: pytest.Subtests) -> None:
    for seed in range(60):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            tree = _tree(rng)
            dense = _dense(tree)
            noisy, weights = rng.normal(size=(2, len(tree.parents))) * 10
            assert np.allclose(tree.estimates(noisy), dense @ noisy, rtol=1e-9, atol=1e-9)
            assert np.allclose(tree.coefficients(weights), weights @ dense, rtol=1e-9, atol=1e-9)
            measured = np.isfinite(tree.variances)
            covariance = dense[:, measured] * tree.variances[measured] @ dense[:, measured].T
            assert tree.variance(weights) == pytest.approx(weights @ covariance @ weights, rel=1e-9)


def _by_depth(tree: TreeEstimator) -> list[np.ndarray]:
    depth = np.zeros(len(tree.parents), int)
    for node, parent in enumerate(tree.parents):
        depth[node] = depth[parent] + 1 if parent >= 0 else 0
    return [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]


def _reference(tree: TreeEstimator, noisy: np.ndarray) -> np.ndarray:
    """The two passes level by level, in plain numpy."""
    parents, precisions = tree.parents, 1 / tree.variances
    own, below, sums, found = (np.zeros(len(parents)) for _ in range(4))
    levels = _by_depth(tree)
    for nodes in reversed(levels):
        inner = below[nodes] > 0
        down = np.divide(1, below[nodes], where=inner, out=np.zeros(len(nodes)))
        own[nodes] = 1 / (precisions[nodes] + down)
        found[nodes] = own[nodes] * (precisions[nodes] * noisy[nodes] + down * sums[nodes])
        held = nodes[parents[nodes] >= 0]
        np.add.at(below, parents[held], own[held])
        np.add.at(sums, parents[held], found[held])
    for nodes in levels[1:]:
        above = parents[nodes]
        found[nodes] += own[nodes] / below[above] * (found[above] - sums[above])
    return found


def test_compiled_passes_equal_the_reference(subtests: pytest.Subtests) -> None:
    for seed in range(20):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(100 + seed)
            tree = _tree(rng)
            noisy = rng.normal(size=len(tree.parents))
            assert np.allclose(
                tree.estimates(noisy), _reference(tree, noisy), rtol=1e-12, atol=1e-12
            )


def test_a_node_is_the_sum_of_its_children() -> None:
    rng = np.random.default_rng(7)
    tree = _tree(rng)
    found = tree.estimates(rng.normal(size=len(tree.parents)))
    for node in np.flatnonzero(~tree.leaves):
        assert found[node] == pytest.approx(found[tree.parents == node].sum(), abs=1e-9)


def test_nodes_under_marked_ones() -> None:
    tree = TreeEstimator(np.array([-1, 0, 0, 1, 3, -1]), np.ones(6))
    marked = np.array([False, True, False, False, True, True])
    assert tree.under(marked).tolist() == [False, False, False, True, True, False]


def test_a_leaf_alone_is_what_was_measured() -> None:
    tree = TreeEstimator(np.array([-1, -1]), np.array([1.0, 4.0]))
    assert tree.estimates(np.array([3, 5])).tolist() == [3.0, 5.0]
    assert tree.coefficients(np.array([2.0, 0.5])).tolist() == [2.0, 0.5]
    assert tree.variance(np.array([2.0, 0.5])) == 5.0


@pytest.mark.parametrize(
    ("parents", "variances", "why"),
    [
        ([1, -1], [1, 1], "before"),
        ([-2], [1], "before"),
        ([-1, 0], [1, np.inf], "finite for leaves"),
        ([-1, 0], [0, 1], "above 0"),
    ],
)
def test_refuses_what_is_no_forest(parents: list[int], variances: list[float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TreeEstimator(np.array(parents), np.array(variances, float))
