"""Boxes cut and summed by compiled loops, against plain slices."""

from __future__ import annotations

import numpy as np
import pytest

from scumble.model.designs.boxes import Boxes, summed_area

SHAPES = [(7,), (9, 5), (4, 6, 3), (3, 4, 2, 5)]


def _inside(boxes: Boxes, tensor: np.ndarray) -> list[np.ndarray]:
    ends = zip(boxes.low.T, boxes.high.T, strict=True)
    return [
        tensor[tuple(slice(low, high + 1) for low, high in zip(*end, strict=True))] for end in ends
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_halves_are_cuts_of_one_attribute_after_the_other(shape: tuple[int, ...]) -> None:
    boxes = Boxes.whole(shape)
    for _ in range(4):
        pieces, origin = boxes, np.arange(len(boxes))
        for axis in range(len(shape)):
            pieces, of = pieces.cut(axis, (pieces.low[axis] + pieces.high[axis]) // 2)
            origin = origin[of]
        found, of = boxes.halves()
        assert np.array_equal(found.low, pieces.low)
        assert np.array_equal(found.high, pieces.high)
        assert np.array_equal(of, origin)
        boxes = found
    assert (boxes.cells == 1).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_slices_are_those_of_the_cells(shape: tuple[int, ...]) -> None:
    tensor = np.random.default_rng(1).integers(-5, 9, shape)
    boxes, _ = Boxes.whole(shape).halves()
    inside = _inside(boxes, tensor)
    assert boxes.sums(summed_area(tensor)).tolist() == [each.sum() for each in inside]
    for axis in range(len(shape)):
        others = tuple(each for each in range(len(shape)) if each != axis)
        sums, starts = boxes.slices(tensor, axis)
        for part, each in zip(np.split(sums, starts[1:]), inside, strict=True):
            assert np.array_equal(part, each.sum(axis=others))


def test_sums_out_of_many_tables() -> None:
    tables = np.random.default_rng(2).normal(size=(3, 4, 5))
    boxes, _ = Boxes.whole((4, 5)).halves()
    which = np.array([2, 0, 1, 2])
    found = boxes.sums(summed_area(tables, 1), (which,))
    expected = [_inside(boxes, table)[place].sum() for place, table in enumerate(tables[which])]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("low", "high"), [([[-1]], [[2]]), ([[0]], [[4]]), ([[7]], [[3]]), ([[0]], [[-2]])]
)
def test_boxes_outside_of_the_domain_are_refused(low: list, high: list) -> None:
    boxes = Boxes(np.array(low), np.array(high))
    with pytest.raises(IndexError, match="outside of the domain"):
        boxes.sums(summed_area(np.ones(4)))
