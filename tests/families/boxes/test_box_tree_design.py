"""Boxes, their sums, and trees of them on the disk."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from scumble.families.boxes.design.box_tree import FILE, BoxNodes, BoxTree
from scumble.families.boxes.publish.base import halve, top
from scumble.model.designs.boxes import Boxes, BoxSums, summed_area
from scumble.model.evidence.evidence import design_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace

SHAPES = [(1,), (7,), (16,), (5, 3), (4, 1, 6), (3, 2, 4, 5)]


def _members(boxes: Boxes, shape: tuple[int, ...]) -> np.ndarray:
    """One row a box: which cells it holds."""
    codes = np.stack([axis.ravel() for axis in np.indices(shape)])
    inside = (boxes.low[:, :, None] <= codes[:, None]) & (codes[:, None] <= boxes.high[:, :, None])
    return inside.all(axis=0)


def test_levels_tile_the_domain_and_refine_each_other(subtests: pytest.Subtests) -> None:
    for shape in SHAPES:
        with subtests.test(shape=shape):
            levels = halve([top(Boxes.whole(shape))], None)
            before = np.ones((1, int(np.prod(shape))), bool)
            for boxes, above in levels:
                members = _members(boxes, shape)
                assert (members.sum(axis=0) == 1).all()
                assert (before[above] >= members).all()
                assert np.array_equal(boxes.cells, members.sum(axis=1))
                before = members
            assert (levels[-1][0].cells == 1).all()
            assert len(halve([top(Boxes.whole(shape))], 1)) <= 2


def test_sums_and_norms_by_brute_force(subtests: pytest.Subtests) -> None:
    """Every row in every cell, one at a time: what it changes is what `norms` says."""
    for shape in SHAPES:
        with subtests.test(shape=shape):
            boxes = tuple(boxes for boxes, _ in halve([top(Boxes.whole(shape))], None))
            sums = BoxSums(shape, boxes)
            counts = np.random.default_rng(1).integers(0, 9, int(np.prod(shape)))
            before = sums.apply(counts)
            for level, found in zip(boxes, before, strict=True):
                assert np.array_equal(found, _members(level, shape) @ counts)
            largest = np.zeros((len(boxes), 2), int)
            for cell in range(len(counts)):
                more = counts.copy()
                more[cell] += 1
                for group, (one, other) in enumerate(zip(before, sums.apply(more), strict=True)):
                    change = other - one
                    assert (change >= 0).all()  # so that no two rows point apart
                    largest[group] = np.maximum(largest[group], [change.sum(), (change**2).sum()])
            assert largest.tolist() == [list(norm) for norm in sums.norms()]


def test_cut_and_take() -> None:
    boxes = Boxes(np.array([[0, 4, 8]]), np.array([[3, 7, 8]]))
    pieces, origin = boxes.cut(0, np.array([1, 7, 8]))
    assert pieces.low.tolist() == [[0, 2, 4, 8]]
    assert pieces.high.tolist() == [[1, 3, 7, 8]]
    assert origin.tolist() == [0, 0, 1, 2]
    assert boxes.take(np.array([2])).low.tolist() == [[8]]
    assert boxes.high.tolist() == [[3, 7, 8]]


def test_summed_area() -> None:
    tensor = np.arange(24).reshape(2, 3, 4)
    summed = summed_area(tensor)
    assert summed.shape == (3, 4, 5)
    assert summed[2, 3, 4] == tensor.sum()
    assert summed[1, 2, 3] == tensor[:1, :2, :3].sum()
    assert not summed[0].any()


def test_a_tree_on_the_disk(tmp_path) -> None:
    shape = (5, 3)
    levels = halve([top(Boxes.whole(shape))], None)
    noisy = [np.arange(len(boxes)) - 3 for boxes, _ in levels]
    noisy[1] = None
    tree = BoxNodes.of_levels(levels, noisy)
    for node, parent in enumerate(tree.parents):
        assert parent < node
        if parent >= 0:
            assert (tree.boxes.low[:, parent] <= tree.boxes.low[:, node]).all()
            assert (tree.boxes.high[:, parent] >= tree.boxes.high[:, node]).all()
    assert sorted(set(tree.law.tolist())) == [-1, 0, 1, 2]
    tree.write(tmp_path, ["a", "a low"])
    table = pq.read_table(tmp_path / FILE)
    assert table.column_names == ["parent", "law", "a low", "a high", "a low low", "a low high",
                                  "count"]  # fmt: skip
    again = BoxNodes.read(table, ["a", "a low"])
    for name in ("parents", "law", "noisy"):
        assert np.array_equal(getattr(again, name), getattr(tree, name))
    assert np.array_equal(again.boxes.low, tree.boxes.low)
    assert np.array_equal(again.boxes.high, tree.boxes.high)


def test_the_design_in_a_manifest() -> None:
    laws = (DiscreteLaplace(Fraction(7, 3)), DiscreteGaussian(Fraction(5, 2)))
    for given in (BoxTree(laws), BoxTree(laws[:1], prune=32)):
        assert design_from_dict(given.to_dict()) == given


def test_variances_follow_the_laws() -> None:
    tree = BoxNodes.of_levels(
        halve([top(Boxes.whole((4,)))], None), [np.zeros(1), None, np.zeros(4, np.int64)]
    )
    laws = (DiscreteLaplace(Fraction(2)), DiscreteLaplace(Fraction(5)))
    variances = tree.estimator(laws).variances
    assert variances.tolist() == [laws[0].variance, np.inf, np.inf, *[laws[1].variance] * 4]
