"""Sets of cells into disjoint boxes: exactly right, and few."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.private.database.questions.decomposition import decompose, rejoin, rejoin_over, runs
from tests.support.database.drawn_boxes import cells


@st.composite
def grids(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    size = int(np.prod(shape))
    bits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(bits).reshape(shape)


def covered(boxes, shape):
    counts = np.zeros(shape, int)
    for box in boxes:
        counts[cells(box)] += 1
    return counts


@given(grids())
@settings(max_examples=200)
def test_boxes_are_disjoint_and_their_union_is_the_set(grid):
    assert (covered(decompose(grid), grid.shape) == grid).all()


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_a_box_is_one_box(shape, data):
    box = [sorted(data.draw(st.tuples(*[st.integers(0, n - 1)] * 2))) for n in shape]
    grid = np.zeros(shape, bool)
    grid[cells(np.array(box))] = True
    assert decompose(grid).tolist() == [box]


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_along_one_axis_there_are_as_many_boxes_as_runs(bits):
    grid = np.array(bits)
    starts = sum(bit and not before for before, bit in zip([False, *bits], bits, strict=False))
    assert len(runs(grid)) == len(decompose(grid)) == starts


def test_nothing_is_no_box():
    assert decompose(np.zeros((3, 2), bool)).shape == (0, 2, 2)


def test_all_but_a_box_in_the_middle(subtests):
    for axes, boxes in [(1, 2), (2, 4), (3, 6), (4, 8)]:
        with subtests.test(axes=axes):
            grid = np.ones((5,) * axes, bool)
            grid[(slice(2, 4),) * axes] = False
            assert len(decompose(grid)) == boxes


def test_one_of_two_conditions_is_two_boxes_whichever_axis_comes_first():
    grid = np.zeros((7, 5), bool)
    grid[:3] = True
    grid[:, 2:4] = True
    assert len(decompose(grid)) == 2  # slices along the other axis would give 3
    assert len(decompose(grid.T)) == 2


def test_a_comb_is_cut_along_its_teeth():
    """Slices across the teeth would give 3 × 5 boxes before anything is joined."""
    grid = np.zeros((5, 5), bool)
    grid[:, ::2] = True
    assert len(decompose(grid)) == len(decompose(grid.T)) == 3


@given(grids(), st.data())
@settings(max_examples=200)
def test_boxes_of_a_set_do_not_depend_on_how_it_was_cut(grid, data):
    """Nor on the codes of an axis that do not matter: they are in between others, never at ends."""
    points = np.argwhere(grid)
    boxes = rejoin(np.stack([points, points], axis=2))
    assert (covered(boxes, grid.shape) == grid).all()
    assert rejoin(decompose(grid)).tolist() == boxes.tolist()
    axis = data.draw(st.integers(0, grid.ndim - 1))
    size = grid.shape[axis]
    known = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1))))
    idle = np.setdiff1d(np.arange(size), known)
    other = grid.copy()
    np.moveaxis(other, axis, 0)[idle] = data.draw(st.booleans())
    one, two = (rejoin_over(decompose(each), {axis: known}) for each in (grid, other))
    assert one.tolist() == two.tolist()
    assert np.isin(one[:, axis], known).all()
    found = covered(one, grid.shape)
    assert found.max(initial=0) <= 1
    assert (found.take(known, axis) == grid.take(known, axis)).all()
