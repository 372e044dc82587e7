"""Compounds of past answers, and the best linear combination of them."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database.relaxation import (
    ColumnCache,
    Compound,
    Distance,
    candidates,
    combine,
    relax,
)


class Accepted:
    """A history with one counter per point."""

    def __init__(self, sizes, limit, boxes=()):
        self.popularity = np.zeros(sizes, int)
        self.limit = limit
        self.boxes = np.empty((0, len(sizes), 2), np.int64)
        for box in boxes:
            assert self.admits(np.array(box))
            self.ask(np.array(box))

    def admits(self, box):
        return self._part(box).max() < self.limit

    def ask(self, box):
        self._part(box)[...] += 1
        self.boxes = np.concatenate([self.boxes, np.array(box)[np.newaxis]])
        return len(self.boxes) - 1

    def _part(self, box):
        return self.popularity[tuple(slice(low, high + 1) for low, high in box)]

    def indicator(self, box):
        found = np.zeros(self.popularity.shape, int)
        found[tuple(slice(low, high + 1) for low, high in box)] = 1
        return found


def total(history: Accepted, compound: Compound) -> np.ndarray:
    """How often each point is counted by a compound."""
    points = np.zeros(history.popularity.shape, int)
    for answer, sign in compound.signs().items():
        points += sign * history.indicator(history.boxes[answer])
    return points


def test_example_7():
    """The paper's example: q2 is nearest, q3 is added to it, and a new question q6 is subtracted.

    The figure's coordinates are lost; these make every sentence of the text true: q5 is denied, as
    it meets a point that three answers cover; q3 is the only patch of the first round, since the
    box that would do better meets that point as well; q6 is the only patch of the second.
    """
    q1, q2 = [[40, 90], [50, 68]], [[20, 59], [20, 59]]
    q3, q4 = [[20, 59], [60, 79]], [[10, 50], [40, 66]]
    q5 = np.array([[20, 59], [20, 70]])
    history = Accepted((100, 100), 3, [q1, q2, q3, q4])
    assert not history.admits(q5)
    distance = Distance.over((100, 100))
    compound = relax(q5, history, distance, 3)
    assert (compound.plus, compound.minus, compound.bought) == ((1, 2), (4,), (4,))
    assert history.boxes[4].tolist() == [[20, 59], [71, 79]]
    assert compound.region.tolist() == q5.tolist()
    assert compound.error == 0
    assert (total(history, compound) == history.indicator(q5)).all()


def test_size_is_bounded():
    history = Accepted((100, 100), 3, [[[20, 59], [20, 59]], [[20, 59], [60, 79]]])
    alone = relax(np.array([[20, 59], [20, 70]]), history, Distance.over((100, 100)), 1)
    assert (alone.plus, alone.minus) == ((0,), ())
    assert alone.error > 0


def test_nothing_to_relax_to():
    assert relax(np.array([[0, 4]]), Accepted((10,), 1), Distance.over((10,)), 3) is None


def test_distance_is_the_papers():
    """Half of (2 + 3)/9 and (1 + 0)/4."""
    distance = Distance.over((10, 5))
    assert distance(np.array([[2, 9], [1, 4]]), np.array([[0, 6], [0, 4]])) == pytest.approx(
        (5 / 9 + 1 / 4) / 2
    )
    weighted = Distance.over((10, 5), (1, 0))
    assert weighted(np.array([[2, 9], [1, 4]]), np.array([[0, 6], [0, 4]])) == pytest.approx(
        5 / 9 / 2
    )


SIZES = (6, 5)


@st.composite
def boxes(draw):
    ends = [sorted(draw(st.tuples(*[st.integers(0, size - 1)] * 2))) for size in SIZES]
    return np.array(ends, np.int64)


@settings(max_examples=150, deadline=None)
@given(st.lists(boxes(), min_size=1, max_size=8), boxes(), st.integers(1, 5), st.integers(1, 3))
def test_a_compound_counts_every_point_of_its_region_once(asked, target, most, limit):
    history = Accepted(SIZES, limit)
    for box in asked:
        if history.admits(box):
            history.ask(box)
    before = len(history.boxes)
    compound = relax(target, history, Distance.over(SIZES), most)
    assert (total(history, compound) == history.indicator(compound.region)).all()
    assert compound.size <= most
    assert compound.error == Distance.over(SIZES)(compound.region, target)
    assert history.popularity.max() <= limit
    assert set(compound.bought) == set(range(before, len(history.boxes)))
    nearest = Distance.over(SIZES)(history.boxes[:before], target).min()
    assert compound.error <= nearest


def patches(region, history, used):
    """All boxes that may join a region, those answered before first: number or None, sign, box,
    and what the region becomes, found by counting points.
    """
    known = [(number, box) for number, box in enumerate(history.boxes) if number not in used]
    ends = [list(product(range(size), repeat=2)) for size in SIZES]
    space = [np.array(pair) for pair in product(*ends) if all(low <= high for low, high in pair)]
    new = [(None, box) for box in space if history.admits(box)]
    by_points = {history.indicator(box).tobytes(): box for box in space}
    for number, box in known + new:
        for sign in (1, -1):
            points = history.indicator(region) + sign * history.indicator(box)
            found = by_points.get(points.tobytes())
            if found is not None:
                yield number, sign, box, found


def reference(target, history, distance, most):
    """Greedy patching by trying everything; a new box has to bring one face to the target's."""
    errors = [float(distance(box, target)) for box in history.boxes]
    first = int(np.argmin(errors))
    region, error, signs = history.boxes[first], errors[first], {first: 1}
    while len(signs) < most and error > 0:
        best = None
        for number, sign, box, new in patches(region, history, signs):
            moved = (new != region) & (new == target)
            nearer = float(distance(new, target))
            fits = number is not None or (moved.sum() == 1 and (new != region).sum() == 1)
            if fits and nearer < (error if best is None else best[0]):
                best = nearer, number, sign, box, new
        if best is None:
            break
        error, number, sign, box, region = best
        signs[history.ask(box) if number is None else number] = sign
    return region, error, signs


@settings(max_examples=60, deadline=None)
@given(st.lists(boxes(), min_size=1, max_size=12), boxes(), st.integers(1, 4), st.integers(1, 3))
def test_compounds_are_those_of_trying_everything(asked, target, most, limit):
    histories = Accepted(SIZES, limit), Accepted(SIZES, limit)
    for box in asked:
        for history in histories:
            if history.admits(box):
                history.ask(box)
    distance = Distance.over(SIZES)
    found = relax(target, histories[0], distance, most)
    _, error, signs = reference(target, histories[1], distance, most)
    assert found.error == error
    assert found.size == len(signs)


def test_an_answer_is_taken_before_a_new_question():
    """The box that would be asked for was answered before, as the last of several."""
    history = Accepted((10, 4), 9, [[[0, 3], [0, 3]], [[4, 5], [0, 3]], [[4, 6], [0, 3]]])
    compound = relax(np.array([[0, 6], [0, 3]]), history, Distance.over((10, 4)), 3)
    assert (compound.plus, compound.bought, compound.error) == ((0, 2), (), 0)


def test_columns_follow_an_array_that_grows():
    shelf, kept = ColumnCache(), np.arange(400 * 3 * 2).reshape(400, 3, 2).copy()
    for count in (1, 2, 70, 70, 399, 3):
        faces = shelf.columns(kept[:count])
        assert (faces[:, :, :count] == np.moveaxis(kept[:count], 0, 2)).all()
    part = kept[5:9]  # no beginning of it
    assert (shelf.columns(part)[:, :, :4] == np.moveaxis(part, 0, 2)).all()
    assert len(shelf._kept) == 2
    del part, kept
    assert not shelf._kept


@settings(max_examples=150, deadline=None)
@given(st.lists(boxes(), min_size=1, max_size=8), boxes())
def test_regression_is_the_least_norm_solution(asked, target):
    """Against the dense equations over all points: there is a combination exactly if they can be
    solved, and it has their least norm.
    """
    stacked = np.array(asked)
    found = combine(target, stacked, np.arange(len(stacked)))
    dense = np.array([_flat(box) for box in asked], float).T
    wanted = _flat(target).astype(float)
    weights, *_ = np.linalg.lstsq(dense, wanted, rcond=1e-10)
    solvable = np.abs(dense @ weights - wanted).max() < 1e-9
    assert (found is not None) == solvable
    if found is not None:
        assert found.squares == pytest.approx(float(weights @ weights), abs=1e-6)
        points = sum(
            weight * dense[:, answer]
            for answer, weight in zip(found.answers, found.weights, strict=True)
        )
        assert np.abs(points - wanted).max() < 1e-6


def _flat(box):
    inside = [range(low, high + 1) for low, high in box]
    found = np.zeros(SIZES, int)
    for point in product(*inside):
        found[point] = 1
    return found.reshape(-1)


def flags(box, sizes):
    """1 for the points of a box, 0 for all others."""
    found = np.zeros(sizes, int)
    found[tuple(slice(low, high + 1) for low, high in box)] = 1
    return found.reshape(-1)


def some_boxes(random, sizes, most):
    return np.array([[np.sort(random.integers(0, size, 2)) for size in sizes] for _ in range(most)])


@cache
def half_width(terms, level):
    low, high = NoiseSum(DiscreteLaplace(Fraction(4)), terms).interval(0.0, level)
    return (high - low) / 2


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2, 2)])
def test_an_exact_combination_is_found_and_none_is_narrower(sizes):
    """Against every way to add, subtract or leave out each of up to 7 answers."""
    random, exact = np.random.default_rng(1), 0
    for _ in range(400):
        *boxes, target = some_boxes(random, sizes, random.integers(3, 9))
        boxes = np.unique(boxes, axis=0)
        signs = np.array(list(product((-1, 0, 1), repeat=len(boxes))))
        points = signs @ np.array([flags(box, sizes) for box in boxes])
        adds_up = (points == flags(target, sizes)).all(axis=1)
        if not adds_up.any():
            continue
        exact += 1
        chosen = candidates(target, boxes, Distance.over(sizes))
        found = combine(target, boxes, chosen)
        terms = tuple(zip(map(abs, found.weights), [1] * len(found.weights), strict=True))
        fewest = int(np.abs(signs[adds_up]).sum(axis=1).min())
        for level in (0.5, 0.8, 0.95, 0.99):
            assert half_width(terms, level) <= half_width(((1, fewest),), level)
    assert exact >= 20


def test_two_answers_that_make_up_the_box_are_found_among_many():
    """300 answers are nearer to the target than the two whose difference it is, and as many share
    ends with it on one axis.
    """
    sizes = (1000, 1000)
    near = [[[400 + k, 600 + k], [400 - k, 600 + k]] for k in range(1, 301)]
    shares = [[[300, 300 + k], [500, 500 + k]] for k in range(1, 301)]
    pair = [[[0, 600], [400, 600]], [[0, 399], [400, 600]]]
    boxes, target = np.array(near + shares + pair), np.array([[400, 600], [400, 600]])
    found = combine(target, boxes, candidates(target, boxes, Distance.over(sizes)))
    assert dict(zip(found.answers, found.weights, strict=True)) == {600: 1, 601: -1}


def test_a_combination_over_many_axes_is_the_least_norm_solution():
    """More axes than those whose corners are compared. Each answer or pair halves a box of three
    axes, of which the target is one half.
    """
    random, sizes, exact = np.random.default_rng(3), (2,) * 8, 0
    for _ in range(60):
        whole, answered = np.array([[0, 1]] * 8), []
        for _ in range(5):
            axes = random.permutation(8)[:3]
            one = whole.copy()
            one[axes[:2]] = random.integers(0, 2, (2, 1))
            low, high = one.copy(), one.copy()
            low[axes[2]], high[axes[2]] = 0, 1
            answered += [box for box in (one, low, high) if random.random() < 0.6]
            target = low
        found = combine(target, np.array(answered), np.arange(len(answered)))
        dense = np.array([flags(box, sizes) for box in answered], float).T
        wanted = flags(target, sizes).astype(float)
        weights, *_ = np.linalg.lstsq(dense, wanted, rcond=1e-10)
        solvable = np.abs(dense @ weights - wanted).max() < 1e-9
        assert (found is not None) == solvable
        if solvable:
            exact += 1
            assert found.squares == pytest.approx(float(weights @ weights), abs=1e-6)
    assert 10 <= exact <= 50


def test_weights_that_are_whole_are_exactly_whole():
    """So the law of the error is exact, and sums of counts are whole numbers."""
    boxes = np.array([[[0, 2], [0, 6]], [[3, 5], [0, 6]], [[0, 5], [4, 6]]])
    found = combine(np.array([[0, 5], [0, 3]]), boxes, np.arange(3))
    assert found.weights == (1, 1, -1)


def test_regression_beats_the_compound():
    """One box answered three times, by itself and in two pairs of halves: the best combination has
    less than half the variance of one answer.
    """
    whole, lower, upper = [[0, 5], [0, 4]], [[0, 2], [0, 4]], [[3, 5], [0, 4]]
    left, right = [[0, 5], [0, 1]], [[0, 5], [2, 4]]
    answered = np.array([whole, lower, upper, left, right])
    found = combine(np.array(whole), answered, np.arange(5))
    assert found.squares == pytest.approx(0.5)
    assert sorted(found.weights) == pytest.approx([0.25, 0.25, 0.25, 0.25, 0.5])
