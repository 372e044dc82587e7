"""PrivTree: the exact probability of every tree of a tiny domain, and what a row changes in it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.splits import SplitRule, split_boxes, split_rule
from tests.support.mechanisms.region_tables import (
    domain,
    grown,
    members,
    neighbours,
    private_counts,
    spent_on_counts,
)

Tree = tuple[int, ...]  # the sizes of the leaves from left to right


def _trees(cells: int, depth: int = 0) -> list[tuple[Tree, list[tuple[int, int, int, bool]]]]:
    """Every tree over some cells, with its decisions: begin, end, depth and whether it splits."""
    if cells == 1:
        return [((1,), [])]
    whole = [((cells,), [(0, cells, depth, False)])]
    low, high = _trees(-(-cells // 2), depth + 1), _trees(cells // 2, depth + 1)
    for (left, first), (right, second) in itertools.product(low, high):
        middle = sum(left)
        moved = [(a + middle, b + middle, d, yes) for a, b, d, yes in second]
        whole.append(((*left, *right), [(0, cells, depth, True), *first, *moved]))
    return whole


def _log_splits(rule: SplitRule, biased: int) -> tuple[float, float]:
    """The logarithms of the probabilities to split, and not to."""
    alpha = math.exp(-1 / rule.scale)
    x = max(biased, -rule.decay)
    if x <= 0:
        share = alpha ** (1 - x) / (1 + alpha)
        return math.log(share), math.log1p(-share)
    share = alpha**x / (1 + alpha)
    return math.log1p(-share), math.log(share)


def _log_probability(rule: SplitRule, counts: np.ndarray, decisions) -> float:
    return sum(
        _log_splits(rule, int(counts[a:b].sum()) - depth * rule.decay)[0 if yes else 1]
        for a, b, depth, yes in decisions
    )


def _largest(rule: SplitRule, pairs, cells: int) -> float:
    """The largest change of the logarithm of the probability of a tree."""
    trees = _trees(cells)
    return max(
        abs(_log_probability(rule, one, how) - _log_probability(rule, other, how))
        for one, other in pairs
        for _, how in trees
    )


def test_the_trees_of_a_domain_have_probability_one() -> None:
    rule = SplitRule(Fraction(5, 2), 2)
    for counts in ([0, 0, 0, 0], [3, 0, 1, 9], [2, 2, 2, 2, 7, 0, 0, 1]):
        probabilities = [
            math.exp(_log_probability(rule, np.array(counts), how))
            for _, how in _trees(len(counts))
        ]
        assert sum(probabilities) == pytest.approx(1)


def test_all_neighbours_of_four_cells(subtests: pytest.Subtests) -> None:
    for relation, rule in product(
        ["add_remove", "replace"], [SplitRule(Fraction(3), 3), SplitRule(Fraction(3, 2), 1)]
    ):
        with subtests.test(relation=relation, rule=rule):
            largest = _largest(rule, neighbours(4, 4, relation), 4)
            assert largest <= rule.loss(PrivacyUnit(relation)) + 1e-12
            assert largest > 0.5 * rule.loss(PrivacyUnit(relation))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_the_bound_is_reached(epsilon: Fraction) -> None:
    """Rows in one cell of 64, as many as put the boxes around it where a row counts most: the
    change is the bound but for boxes that a deeper domain would have. A scale that is half of what
    it should be breaks the promise here.
    """
    rule = split_rule(epsilon, 2, PrivacyUnit("add_remove"))
    rows = 1 + 4 * rule.decay
    one, other = (np.array([n, *[0] * 63]) for n in (rows, rows - 1))
    decisions = [(0, 64 >> depth, depth, True) for depth in range(6)]
    change = _log_probability(rule, one, decisions) - _log_probability(rule, other, decisions)
    assert 0.93 * epsilon < change <= rule.loss(PrivacyUnit("add_remove")) <= epsilon
    broken = SplitRule(rule.scale / 2, rule.decay)
    change = _log_probability(broken, one, decisions) - _log_probability(broken, other, decisions)
    assert change > epsilon


def test_a_path_of_any_counts_stays_below_the_bound() -> None:
    """Random falling counts along paths of up to twelve boxes."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        rule = SplitRule(Fraction(int(rng.integers(1, 60)), 10), int(rng.integers(1, 12)))
        counts = np.sort(rng.integers(1, 12 * rule.decay + 12, int(rng.integers(1, 13))))[::-1]
        change = sum(
            _log_splits(rule, int(c) - d * rule.decay)[0]
            - _log_splits(rule, int(c) - 1 - d * rule.decay)[0]
            for d, c in enumerate(counts)
        )
        assert change <= rule.loss(PrivacyUnit("add_remove")) + 1e-12


@pytest.mark.parametrize("pieces", [2, 4, 16])
def test_the_bound_of_the_paper_holds_for_whole_numbers_too(pieces: int) -> None:
    for epsilon in (Fraction(1, 20), Fraction(1, 2), Fraction(2)):
        scale = Fraction(2 * pieces - 1, pieces - 1) / epsilon
        rule = SplitRule(scale, math.ceil(float(scale) * math.log(pieces)))
        assert rule.loss(PrivacyUnit("add_remove")) <= epsilon
        assert split_rule(epsilon, pieces, PrivacyUnit("add_remove")).scale < scale


def test_loss_grows_with_rows_and_relation() -> None:
    rule = SplitRule(Fraction(10), 7)
    once = rule.loss(PrivacyUnit("add_remove"))
    assert rule.loss(PrivacyUnit("add_remove", 3)) == pytest.approx(float(3 * once))
    assert rule.loss(PrivacyUnit("replace")) == pytest.approx(float(once + Fraction(1, 10)))


def test_the_scale_is_found_whatever_epsilon_is(subtests: pytest.Subtests) -> None:
    for exponent in [-3, 0, 4, 7, 12]:
        with subtests.test(exponent=exponent):
            epsilon, person = Fraction(10) ** exponent, PrivacyUnit("replace", 2)
            used = split_rule(epsilon, 4, person).loss(person) / epsilon
            assert 0.999 < used <= 1


def test_splits_have_their_probabilities() -> None:
    """3000 trees of four cells: chi-square of five trees, false alarm 1e-6 at 34.4 (4 degrees of
    freedom).
    """
    rule, counts, runs = SplitRule(Fraction(2), 2), np.array([4, 1, 0, 2]), 3000
    seen: Counter[Tree] = Counter()
    for seed in range(100):
        private = private_counts(
            counts, PrivacyLoss(Fraction(10**6)), PrivacyUnit("add_remove"), seed=seed
        )
        seen.update(
            tuple(_leaf_sizes(split_boxes(private, (4,), rule))) for _ in range(runs // 100)
        )
    chi = 0.0
    for tree, how in _trees(4):
        expected = runs * math.exp(_log_probability(rule, counts, how))
        chi += (seen[tree] - expected) ** 2 / expected
    assert chi < 34.4


def _leaf_sizes(boxes) -> list[int]:
    return boxes.sizes[0][np.argsort(boxes.low[0])].tolist()


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_splits_and_counts_are_all_that_is_spent(relation: str) -> None:
    counts = np.random.default_rng(1).integers(0, 30, (9, 7))
    mechanism = sc.PrivTree(domain((9, 7)).names, epsilon=3, neighbours=relation, contribution=2)
    tree, design, reader = grown(mechanism, counts, 1)
    splits = split_rule(Fraction(3, 2), 4, mechanism.unit).loss(mechanism.unit)
    assert Fraction(140, 100) < splits <= Fraction(3, 2)
    assert spent_on_counts(tree, design, (9, 7), mechanism.unit) == 3 - splits
    assert (members(reader.leaves, (9, 7)).sum(axis=0) == 1).all()


def test_the_meter_stops_splits_that_cost_too_much() -> None:
    private = private_counts(
        np.zeros(4, np.int64), PrivacyLoss(Fraction(1)), PrivacyUnit("replace")
    )
    with pytest.raises(sc.PromiseError, match="splits of a would cost"):
        split_boxes(private, (4,), SplitRule(Fraction(1), 1))


def test_leaves_are_small_where_rows_are() -> None:
    counts = np.zeros((64, 64), np.int64)
    counts[5, 9] = 100_000
    mechanism = sc.PrivTree(["a", "b"], epsilon=0.5, neighbours="add_remove")
    _, _, reader = grown(mechanism, counts, 3)
    inside = members(reader.leaves, (64, 64))[:, 5 * 64 + 9]
    assert reader.leaves.cells[inside].tolist() == [1]
    assert reader.counts[inside] == pytest.approx([100_000], abs=150)
    assert len(reader.leaves) < 200


def test_answers_tell_that_a_leaf_was_cut() -> None:
    schema = domain((64,))
    table = pa.table({"a": np.repeat([7, 40], [3000, 20])})
    mechanism = sc.PrivTree(["a"], epsilon=1, neighbours="replace")
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    whole = release.answer("SELECT COUNT(*) FROM t")
    assert whole.bounds is None
    assert whole.value == pytest.approx(3020, abs=200)
    cut = release.answer("SELECT COUNT(*) FROM t WHERE a > 50 AND a < 60")
    assert cut.bounds is not None
