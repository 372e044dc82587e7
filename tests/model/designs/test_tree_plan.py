"""Fan-outs and budgets of trees against the mean error over all ranges, by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from scumble.model.designs.tree import Tree, TreePlan, tree_plan


def brute(plan: TreePlan) -> float:
    """The mean variance over all ranges, in units of noise that gets the whole budget."""
    ends = [(a, b) for a in range(plan.size) for b in range(a + 1, plan.size + 1)]
    weights = np.zeros((len(ends), plan.size, 1))
    for row, (a, b) in enumerate(ends):
        weights[row, a:b] = 1
    parts = Tree(plan.size, plan.fanouts, plan.weights).adjoint(weights)
    power = 1 if plan.gaussian else 2
    squares = [float((part**2).sum()) / len(ends) for part in parts]
    shares = [float(share) for share in plan.measured]
    return sum(s / share**power for s, share in zip(squares, shares, strict=True))


def plan(size: int, **changed) -> TreePlan:
    given = {"fanout": None, "root": False, "gaussian": False, "budget": "uniform"} | changed
    return tree_plan(size, **given)


def test_sixteen_children_for_4096_values() -> None:
    assert plan(4096).fanouts == (16, 16, 16)
    assert plan(4096).measured == (Fraction(1, 3),) * 3
    assert plan(4096, root=True, fanout=16).measured == (Fraction(1, 4),) * 4


def test_predicted_errors_of_full_trees(subtests: pytest.Subtests) -> None:
    for (size, fanout), root, gaussian in product(
        [(64, 4), (64, 8), (81, 3), (100, 10), (5, 5), (1, 2)], [False, True], [False, True]
    ):
        with subtests.test(size=size, fanout=fanout, root=root, gaussian=gaussian):
            found = plan(size, fanout=fanout, root=root, gaussian=gaussian)
            assert found.error == pytest.approx(brute(found), rel=1e-10)
            better = plan(size, fanout=fanout, root=root, gaussian=gaussian, budget="optimal")
            assert better.error == pytest.approx(brute(better), rel=1e-10)


@pytest.mark.parametrize(("size", "fanout"), [(90, 5), (70, 2), (33, 4), (129, 12)])
def test_predicted_errors_of_uneven_trees(size: int, fanout: int) -> None:
    """There the levels are no eigenspaces, but nearly."""
    found = plan(size, fanout=fanout)
    assert found.error == pytest.approx(brute(found), rel=0.05)


@pytest.mark.parametrize("size", [20, 48])
def test_the_chosen_fanout_is_among_the_best(size: int) -> None:
    errors = {fanout: brute(plan(size, fanout=fanout)) for fanout in range(2, size + 1)}
    assert brute(plan(size)) < 1.1 * min(errors.values())


def test_hb_would_not_divide_128_values() -> None:
    """Its rule is about the error without least squares: (b - 1) h³ - 2 (b + 1) h² / 3."""
    rule = {
        b: (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3
        for b, h in ((b, int(np.ceil(np.log(128) / np.log(b) - 1e-9))) for b in range(2, 129))
    }
    assert min(rule, key=rule.__getitem__) == 128
    assert brute(plan(128, fanout=12)) < 0.7 * brute(plan(128, fanout=128))


def test_without_root_ranges_are_better() -> None:
    """A third of the variance for all ranges at 256 = 16² values, and every size is better."""
    assert brute(plan(256, fanout=16)) < 0.67 * brute(plan(256, fanout=16, root=True))
    for size, fanout in [(27, 3), (64, 4), (100, 10)]:
        assert brute(plan(size, fanout=fanout)) < brute(plan(size, fanout=fanout, root=True))


def test_optimal_budgets_are_better_and_add_up(subtests: pytest.Subtests) -> None:
    for (size, fanout), gaussian in product([(64, 2), (64, 8), (90, 3), (100, 10)], [False, True]):
        with subtests.test(size=size, fanout=fanout, gaussian=gaussian):
            uniform = plan(size, fanout=fanout, gaussian=gaussian)
            optimal = plan(size, fanout=fanout, gaussian=gaussian, budget="optimal")
            assert sum(optimal.shares) == 1
            assert optimal.error <= uniform.error
            assert brute(optimal) < brute(uniform)


@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_small_domains(size: int) -> None:
    for root in (False, True):
        found = plan(size, root=root)
        assert sum(found.shares) == 1
        assert found.shares[0] > 0
