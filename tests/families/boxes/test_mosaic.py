"""Mosaic: the exact law of its patches on a tiny domain, what it spends, and how it plans."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import refine, regular
from scumble.families.boxes.publish.mosaic import _sample_boxes, choose_groups, patch_plan
from scumble.families.boxes.read import BoxTreeReader
from scumble.model.designs.boxes import Boxes
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.private.meter.splits import SplitRule, split_rule
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.region_tables import (
    domain,
    grown,
    members,
    neighbours,
    private_counts,
    private_table,
    spent_on_counts,
)

Sizes = tuple[int, ...]  # of patches or leaves of a line, from left to right
SMALLEST = 1e-300


def _mosaic(shape: tuple[int, ...], **given) -> sc.Mosaic:
    given = {"epsilon": 1, "neighbours": "add_remove"} | given
    return sc.Mosaic(domain(shape).names, **given)


def test_what_is_spent(subtests: pytest.Subtests) -> None:
    """On counts by brute force over all cells, and the rest on splits and the look, a tenth each,
    a thirtieth of one attribute: the account is empty afterwards, to the last fraction.
    """
    for relation, shape in product(
        ["replace", "add_remove"], [(30,), (9, 7), (3, 4, 2), (1, 5), (1,)]
    ):
        with subtests.test(relation=relation, shape=shape):
            mechanism = _mosaic(shape, neighbours=relation, contribution=2)
            counts = np.random.default_rng(1).integers(0, 40, shape)
            table = private_table(counts, mechanism.promise, 1)
            tree, design = mechanism.grow(table)
            reader = BoxTreeReader.of_tree(tree, domain(shape).names, design)
            pieces = 1 << max(sum(size > 1 for size in shape), 1)
            part = Fraction(1, 10 if len(shape) > 1 else 30)
            splits = split_rule(part, pieces, mechanism.unit).loss(mechanism.unit)
            assert splits <= part
            spent = spent_on_counts(tree, design, shape, mechanism.unit)
            assert spent + splits + part == 1
            assert table._account.left == 0
            assert (members(reader.leaves, shape).sum(axis=0) == 1).all()


def test_the_meter_stops_it() -> None:
    mechanism = _mosaic((8, 8))
    with pytest.raises(sc.PromiseError, match=r"is left of the promised 0\.99"):
        mechanism.grow(private_table(np.ones((8, 8), int), PrivacyLoss(Fraction(99, 100)), 1))


# --- the exact law of the patches of four cells ---------------------------------------------------


def _split_law(rule: SplitRule, counts: Sizes, depth: int = 0) -> dict[Sizes, float]:
    """The probabilities of the leaves of a line of cells."""
    if len(counts) == 1:
        return {(1,): 1.0}
    biased = max(sum(counts) - depth * rule.decay, -rule.decay)
    alpha = math.exp(-1 / rule.scale)
    split = alpha ** (1 - biased) / (1 + alpha) if biased <= 0 else 1 - alpha**biased / (1 + alpha)
    law = {(len(counts),): 1 - split}
    middle = -(-len(counts) // 2)
    low, high = (_split_law(rule, part, depth + 1) for part in (counts[:middle], counts[middle:]))
    for (left, one), (right, other) in itertools.product(low.items(), high.items()):
        law[left + right] = split * one * other
    return law


@cache
def _cut_law(mechanism: sc.Mosaic, rows: int, size: int, left: Fraction) -> dict[Sizes, float]:
    """The probabilities of the patches of one leaf, from what the look may have seen."""
    alpha = math.exp(-float(mechanism.promise.epsilon) / 30 / mechanism.unit.sensitivity)
    law: Counter[Sizes] = Counter()
    for number in range(-200, 201):
        leaf = Boxes(np.zeros((1, 1), int), np.full((1, 1), size - 1))
        patches, _ = mechanism.patches(leaf, np.array([number]), left)
        chance = (1 - alpha) / (1 + alpha) * alpha ** abs(number - rows)
        law[tuple(patches.sizes[0].tolist())] += chance
    return law


def _law(mechanism: sc.Mosaic, counts: Sizes) -> dict[tuple[Sizes, tuple[Sizes, ...]], float]:
    """The probability of the leaves of a line together with the patches of each."""
    person = mechanism.unit
    rule = split_rule(mechanism.promise.epsilon / 30, 2, person)
    left = mechanism.promise.epsilon * Fraction(29, 30) - rule.loss(person)
    law: dict[tuple[Sizes, tuple[Sizes, ...]], float] = {}
    for leaves, chance in _split_law(rule, counts).items():
        ends = np.cumsum([0, *leaves]).tolist()
        cuts = [
            _cut_law(mechanism, sum(counts[begin:end]), end - begin, left)
            for begin, end in itertools.pairwise(ends)
        ]
        for choice in itertools.product(*(cut.items() for cut in cuts)):
            patches = tuple(sizes for sizes, _ in choice)
            law[leaves, patches] = chance * math.prod(p for _, p in choice)
    return law


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_the_patches_of_all_neighbours_of_three_cells(relation: str) -> None:
    """What is chosen loses at most a fifteenth of ε between two neighbours, leaves told as well;
    with the counts of the patches, whose loss is known, that is ε at most.
    """
    mechanism = _mosaic((3,), epsilon=15, neighbours=relation)
    laws: dict[Sizes, dict] = {}
    largest = 0.0
    for pair in neighbours(3, 3, relation):
        one, other = (tuple(table.tolist()) for table in pair)
        for table in (one, other):
            laws.setdefault(table, _law(mechanism, table))
        assert laws[one].keys() == laws[other].keys()
        for outcome, chance in laws[one].items():
            if min(chance, laws[other][outcome]) > SMALLEST:
                largest = max(largest, abs(math.log(chance / laws[other][outcome])))
    assert 0.35 < largest <= 1 + 1e-9


def test_the_patches_are_drawn_with_these_probabilities() -> None:
    """Each outcome of 1,000 releases of one table against its probability; Hoeffding's bound makes
    each of the at most 20 checks fail once in 10 million runs.
    """
    counts = (6, 0, 1, 9)
    mechanism = _mosaic((4,), epsilon=15)
    expected: Counter[Sizes] = Counter()
    for (_, patches), chance in _law(mechanism, counts).items():
        expected[tuple(itertools.chain(*patches))] += chance
    assert sum(expected.values()) == pytest.approx(1)
    runs = 1000
    found: Counter[Sizes] = Counter()
    for seed in range(runs):
        hidden = private_counts(np.array(counts), mechanism.promise, mechanism.unit, seed)
        _, (patches, _), _ = mechanism.shape_leaves(hidden, Boxes.whole((4,)))
        order = np.argsort(patches.low[0])
        found[tuple(patches.sizes[0][order].tolist())] += 1
    assert set(found) <= set(expected)
    for sizes, chance in expected.items():
        assert abs(found[sizes] / runs - chance) < math.sqrt(math.log(2e7) / (2 * runs))


# --- plans ----------------------------------------------------------------------------------------


def _leaves(shape: tuple[int, ...], seed: int) -> Boxes:
    """Some leaves of a domain that is halved again and again."""
    rng = np.random.default_rng(seed)
    boxes, found = Boxes.whole(shape), []
    while len(boxes):
        split = (rng.random(len(boxes)) < 0.8) & (boxes.cells > 1)
        found.append(boxes.take(np.flatnonzero(~split)))
        boxes, _ = boxes.take(np.flatnonzero(split)).halves()
    return Boxes.joined(found)


def test_the_error_of_a_plan(subtests: pytest.Subtests) -> None:
    """Groups tile the domain, patches tile the groups, and the planned error is the mean variance
    that the reader computes for the same boxes.
    """
    for shape, seed in product([(37, 24), (9, 12, 5), (6, 5, 4, 7), (64, 1)], range(3)):
        with subtests.test(shape=shape, seed=seed):
            leaves = _leaves(shape, seed)
            rng = np.random.default_rng(seed)
            patches, origin = refine(leaves, rng.integers(1, 4, len(leaves)))
            plan, error = choose_groups(Boxes.whole(shape), leaves, patches, origin)
            assert sum(plan.shares) == 1
            for boxes, _ in plan.levels:
                assert (members(boxes, shape).sum(axis=0) == 1).all()
            laws = tuple(DiscreteLaplace(1000 / share) for share in plan.shares)
            noisy = [np.zeros(len(boxes), np.int64) for boxes, _ in plan.levels]
            tree = BoxNodes.of_levels(plan.levels, noisy)
            inside = np.flatnonzero(tree.parents >= 0)
            for child, parent in zip(inside, tree.parents[inside], strict=True):
                assert (tree.boxes.low[:, parent] <= tree.boxes.low[:, child]).all()
                assert (tree.boxes.high[:, parent] >= tree.boxes.high[:, child]).all()
            names = domain(shape).names
            reader = BoxTreeReader.of_tree(tree, names, BoxTree(laws))
            variances = []
            for low, high in _sample_boxes(patches):
                parts = []
                for name, size, first, last in zip(names, shape, low, high, strict=True):
                    codes = np.arange(size)
                    taken = ((first <= codes) & (codes <= last)).astype(float)
                    parts.append(WeightTensor((name,), taken))
                variances.append(reader.read(Weights(tuple(parts))).variance)
            unit = DiscreteLaplace(Fraction(1000)).variance
            assert np.mean(variances) / unit == pytest.approx(error, rel=1e-5)


def test_many_patches_are_counted_in_groups_too() -> None:
    """All 64 × 64 cells, of which a box takes as many as it has, one variance each."""
    whole = Boxes.whole((64, 64))
    boxes, _ = regular(whole, None)[-1]
    plan, error = choose_groups(whole, boxes, boxes, np.arange(len(boxes)))
    assert [len(level) for level, _ in plan.levels] == [64, 64**2]
    assert patch_plan(whole, boxes, boxes, np.arange(len(boxes))).shares == plan.shares
    alone = np.mean([(high - low + 1).prod() for low, high in _sample_boxes(boxes)])
    assert error < 0.6 * alone


def test_patches_are_small_where_rows_are() -> None:
    counts = np.zeros((120, 120), np.int64)
    counts[:15, :15] = 100
    _, _, reader = grown(_mosaic((120, 120)), counts, 2)
    corner = (reader.leaves.low < 15).all(axis=0)
    assert corner.sum() > 200
    assert (~corner).sum() < 200


def test_unbiased_although_patches_follow_the_data() -> None:
    """Sums of everything and of the part left of the middle, which no patch of split boxes crosses,
    in 200 releases. Errors in their standard errors: mean 0, mean square 1; each of the checks
    fails by chance once in 5 million.
    """
    counts = np.random.default_rng(0).poisson(3.0, (32, 32))
    upper = np.repeat([1.0, 0.0], 16)
    questions = [
        (Weights(()), counts.sum()),
        (Weights((WeightTensor(("a",), upper),)), counts[:16].sum()),
    ]
    errors = []
    for seed in range(200):
        reader = grown(_mosaic((32, 32), epsilon=2), counts, seed)[2]
        readings = [reader.read(question) for question, _ in questions]
        assert not any(reading.notes for reading in readings)
        errors.append(
            [
                (reading.value - truth) / reading.variance**0.5
                for reading, (_, truth) in zip(readings, questions, strict=True)
            ]
        )
    assert (abs(np.mean(errors, axis=0)) < 5.2 / 200**0.5).all()
    assert (abs(np.mean(np.square(errors), axis=0) - 1) < 5.2 * (5 / 200) ** 0.5).all()


def test_one_person_with_several_rows() -> None:
    """Their number makes noise larger, and patches as much fewer."""
    counts = np.full((64, 64), 20)
    once, often = (
        len(grown(_mosaic((64, 64), contribution=rows), counts, 1)[2].leaves) for rows in (1, 20)
    )
    assert often < once / 2
