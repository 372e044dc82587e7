"""KdTree: the exact probabilities of its cuts, what a row changes in them, and what it spends."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.boxes import Boxes
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.splits import mean_cuts, median_cuts
from scumble.private.sampling.noise import geometric
from scumble.private.sampling.selection import report_noisy_min
from scumble.private.sampling.source import Keystream
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.region_tables import (
    domain,
    grown,
    members,
    neighbours,
    private_counts,
    spent_on_counts,
)


def _wins(scores: list[int], scale: float) -> np.ndarray:
    """The probability that each score is the least after noise, equal ones sharing: the winner has
    the value v, of the others some have it too and the rest more. P(value >= v) is the sum of a
    geometric law up to score - v, so that the sums over v are finite but for a rest below 1e-14.
    """
    alpha = math.exp(-1 / scale)
    lowest = min(scores) - int(35 * scale) - 1
    found = np.zeros(len(scores))
    for value in range(lowest, min(scores) + 1):
        exactly = [(1 - alpha) * alpha ** (score - value) for score in scores]
        above = [1 - alpha ** (score - value) for score in scores]
        for winner in range(len(scores)):
            others = [place for place in range(len(scores)) if place != winner]
            for ties in itertools.product((False, True), repeat=len(others)):
                chance = exactly[winner] / (1 + sum(ties))
                for other, tied in zip(others, ties, strict=True):
                    chance *= exactly[other] if tied else above[other]
                found[winner] += chance
    return found


def _cut_odds(counts: np.ndarray, scale: float) -> np.ndarray:
    below = np.cumsum(counts)[:-1]
    return _wins(np.abs(2 * below - counts.sum()).tolist(), scale)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_epsilon_of_a_median_by_enumeration(relation: str) -> None:
    """All neighbouring tables of four codes with up to two rows in each: no cut is more than e^ε
    times as probable in one as in the other, and some is nearly so.
    """
    epsilon = 1.0
    scale = 2 * PrivacyUnit(relation).sensitivity / epsilon
    known: dict[tuple[int, ...], np.ndarray] = {}

    def odds(counts: np.ndarray) -> np.ndarray:
        key = tuple(counts.tolist())
        if key not in known:
            known[key] = _cut_odds(counts, scale)
        return known[key]

    largest = max(
        float(np.abs(np.log(odds(one) / odds(other))).max())
        for one, other in neighbours(4, 2, relation)
    )
    assert 0.5 * epsilon < largest <= epsilon + 1e-9


def test_epsilon_of_two_boxes_together() -> None:
    """A replaced row leaves one box and enters another: the choices in both together are ε-DP."""
    scale = 2 * PrivacyUnit("replace").sensitivity / 1.0
    largest = 0.0
    for cells in itertools.product(range(3), repeat=6):
        counts = np.array(cells)
        for gone, come in itertools.product(range(3), range(3, 6)):
            moved = counts.copy()
            moved[gone] += 1
            other = counts.copy()
            other[come] += 1
            change = [
                np.abs(np.log(_odds3(*moved[part]) / _odds3(*other[part]))).max()
                for part in (slice(0, 3), slice(3, 6))
            ]
            largest = max(largest, float(sum(change)))
    assert scale == 4
    assert largest <= 1 + 1e-9


_known: dict[tuple[int, ...], np.ndarray] = {}


def _odds3(*counts: int) -> np.ndarray:
    if counts not in _known:
        _known[counts] = _cut_odds(np.array(counts), 4.0)
    return _known[counts]


def test_cuts_have_their_probabilities() -> None:
    """30,000 boxes of five codes at once: chi-square of four cuts, false alarm 1e-6 at 30.7 (3
    degrees of freedom). A scale of half or twice what it should be is far off.
    """
    column, boxes = np.array([5, 0, 0, 3, 4]), 30_000
    counts = np.tile(column, (boxes, 1))
    each = np.arange(boxes)
    rows = Boxes(np.stack([each, each * 0]), np.stack([each, each * 0 + 4]))
    private = private_counts(counts, PrivacyLoss(Fraction(1)), PrivacyUnit("add_remove"), seed=3)
    last = median_cuts(private, counts.shape, rows, 1, epsilon=Fraction(1, 2))
    expected = boxes * _cut_odds(column, 4.0)
    seen = np.bincount(last, minlength=4)
    assert ((seen - expected) ** 2 / expected).sum() < 30.7


def test_equal_scores_are_equally_likely() -> None:
    """3 × 20,000 codes between the rows: chi-square with 2 degrees of freedom, false alarm 1e-6."""
    starts = np.arange(20_000) * 3
    won = report_noisy_min(Keystream(1), np.zeros(60_000, np.int64), starts, Fraction(5)) - starts
    seen = np.bincount(won, minlength=3)
    assert ((seen - 20_000 / 3) ** 2 / (20_000 / 3)).sum() < 27.7


def test_geometric_noise() -> None:
    """Chi-square of 0 to 8 and the rest, 9 degrees of freedom: false alarm 1e-6 at 45.1."""
    drawn = geometric(Keystream(2), Fraction(2), 50_000)
    alpha = math.exp(-0.5)
    shares = [(1 - alpha) * alpha**k for k in range(9)]
    expected = 50_000 * np.array([*shares, 1 - sum(shares)])
    seen = np.bincount(np.minimum(drawn, 9), minlength=10)
    assert drawn.min() == 0
    assert ((seen - expected) ** 2 / expected).sum() < 45.1


def test_a_median_with_much_budget_is_the_median() -> None:
    counts = np.zeros((4, 50), np.int64)
    counts[:, 30] = 1000
    counts[:, 31] = 1000
    boxes = Boxes(np.array([[0, 2], [0, 10]]), np.array([[1, 3], [49, 10]]))
    private = private_counts(counts, PrivacyLoss(Fraction(9)), PrivacyUnit("add_remove"))
    assert median_cuts(private, (4, 50), boxes, 1, epsilon=Fraction(8)).tolist() == [30, 10]
    with pytest.raises(sc.PromiseError, match="medians of a, b would cost"):
        median_cuts(private, (4, 50), boxes, 1, epsilon=Fraction(8))


def test_means() -> None:
    counts = np.zeros((2, 64), np.int64)
    counts[0, 40] = counts[0, 20] = 50_000
    counts[1, 63] = 90_000
    boxes = Boxes(np.array([[0, 1], [0, 0]]), np.array([[0, 1], [63, 63]]))
    private = private_counts(counts, PrivacyLoss(Fraction(9)), PrivacyUnit("add_remove"))
    found = mean_cuts(private, (2, 64), boxes, 1, epsilon=Fraction(5))
    assert abs(int(found[0]) - 30) <= 1
    assert found[1] == 62  # the last code cannot be the last of a lower part
    single = Boxes(np.array([[0], [5]]), np.array([[1], [5]]))
    assert mean_cuts(private, (2, 64), single, 1, epsilon=Fraction(1)).tolist() == [5]


def test_cuts_and_counts_are_all_that_is_spent(subtests: pytest.Subtests) -> None:
    """70 % for the counts, by brute force over all cells; the cuts are charged by the meter, which
    has nothing left.
    """
    for split, shape in product(["median", "noisy_mean"], [(9,), (16, 16), (5, 1, 6)]):
        with subtests.test(split=split, shape=shape):
            counts = np.random.default_rng(1).integers(0, 20, shape)
            mechanism = sc.KdTree(
                domain(shape).names, epsilon=2, neighbours="replace", contribution=2, split=split
            )
            tree, design, reader = grown(mechanism, counts, 1)
            assert spent_on_counts(tree, design, shape, mechanism.unit) == Fraction(14, 10)
            assert (members(reader.leaves, shape).sum(axis=0) == 1).all()
            assert (reader.leaves.cells == 1).all()


def test_cuts_follow_the_rows_and_height_stops() -> None:
    counts = np.zeros((64, 64), np.int64)
    counts[:8, :8] = 100
    mechanism = sc.KdTree(["a", "b"], epsilon=1, neighbours="add_remove", height=3, cuts=3)
    _, _, reader = grown(mechanism, counts, 1)
    assert len(reader.leaves) <= 64
    # Halving would leave one leaf in the corner where all rows are.
    assert (reader.leaves.low < 8).all(axis=0).sum() > 40
    plain = sc.KdTree(["a", "b"], epsilon=1, neighbours="add_remove", cuts=0)
    tree, design, _ = grown(plain, counts[:9, :9], 1)
    assert spent_on_counts(tree, design, (9, 9), plain.unit) == 1


def test_unbiased_on_whole_leaves_whatever_was_cut() -> None:
    """300 trees with cuts of their own: the errors of all rows and of a cell, in their own standard
    errors, have mean 0 and mean square 1; each check fails by chance once in 5 million.
    """
    counts = np.random.default_rng(4).integers(0, 9, (8, 4))
    one = np.zeros((8, 4))
    one[2, 3] = 1
    questions = [
        (Weights(()), counts.sum()),
        (Weights((WeightTensor(("a", "b"), one),)), counts[2, 3]),
    ]
    errors = []
    for seed in range(300):
        mechanism = sc.KdTree(["a", "b"], epsilon=1, neighbours="add_remove")
        reader = grown(mechanism, counts, seed)[2]
        readings = [reader.read(question) for question, _ in questions]
        assert not any(reading.notes for reading in readings)
        errors.append(
            [
                (reading.value - truth) / reading.variance**0.5
                for reading, (_, truth) in zip(readings, questions, strict=True)
            ]
        )
    # A Laplace noise has the fourth moment 6: the mean square of 300 varies by 5 / 300 at most.
    assert (abs(np.mean(errors, axis=0)) < 5.2 / 300**0.5).all()
    assert (abs(np.mean(np.square(errors), axis=0) - 1) < 5.2 * (5 / 300) ** 0.5).all()
