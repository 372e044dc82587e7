"""The exposure test: closed forms against enumeration, the papers' figures and the game itself."""

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

import scumble as sc
from scumble.audit.exposure import _tuples, subset
from scumble.audit.game import finding, play
from scumble.guarantee import exposure_at_most
from scumble.presence import Included
from scumble.subset_law import SubsetLaw

GAMES = 40_000


def test_the_figures_of_the_alpha_beta_paper():
    found = _tuples(Included(100, Fraction(1, 2), Fraction("0.002325")), 10**6, 20)
    assert found.success == pytest.approx(0.513, abs=5e-4)
    assert found.shown == pytest.approx(0.938, abs=5e-4)


@pytest.mark.parametrize(("kept", "noise"), [("0.5", "0.25"), ("0.9", "0.1"), ("0.3", "0.3")])
def test_tuples_against_enumeration(kept, noise):
    """Every subset of the tuples of one person with four values, and the best guess for it."""
    values, kept, noise = 4, Fraction(kept), Fraction(noise)
    success = Fraction(0)
    for size in range(values + 1):
        for shown in combinations(range(values), size):
            chances = []
            for true in range(values):
                chance = kept if true in shown else 1 - kept
                for other in set(range(values)) - {true}:
                    chance *= noise if other in shown else 1 - noise
                chances.append(chance)
            success += max(chances) / values
    found = _tuples(Included(100, kept, noise), 10**6, values)
    assert found.success == pytest.approx(float(success))


@pytest.mark.parametrize(("size", "inclusion"), [(2, "0.7"), (3, "0.9"), (2, "0.2")])
def test_subset_against_enumeration(size, inclusion):
    values, inclusion = 5, Fraction(inclusion)
    with_true, without = comb(values - 1, size - 1), comb(values - 1, size)
    success = sum(
        max(inclusion / with_true if true in shown else (1 - inclusion) / without
            for true in range(values)) / values
        for shown in combinations(range(values), size)
    )  # fmt: skip
    assert subset(SubsetLaw(values, size, inclusion)) == pytest.approx(float(success))


@pytest.mark.parametrize(
    ("mechanism", "values"),
    [
        (sc.Uniform(epsilon=1), 15),
        (sc.Subset(epsilon=0.5), 15),
        (sc.Aroma(k=49), 15),
        (sc.Aroma(k=5), 6),
        (sc.AlphaBeta(alpha=0.5, beta=0.002325), 20),
        (sc.Frapp(keep=0.3), 4),
    ],
    ids=lambda given: getattr(given, "name", str(given)),
)
def test_the_adversary_of_the_game_is_the_best_one(mechanism, values):
    """The measured score is within 5.3 standard errors of the closed form: a false alarm in 10^7,
    six times.
    """
    score = play(mechanism, values, GAMES, seed=11)
    exact = score.exact.success
    assert abs(score.hits / GAMES - exact) < 5.3 * (exact * (1 - exact) / GAMES) ** 0.5


def test_aroma_does_not_keep_the_epsilon_of_its_paper():
    mechanism = sc.Aroma(k=49)
    found = finding(mechanism, play(mechanism, 15, 1000, seed=1), 0.5, 0.9999)
    assert found.refuted
    assert found.numbers["success"] == pytest.approx(0.137, abs=5e-4)
    assert found.numbers["allowed"] == pytest.approx(0.105, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 3])
@pytest.mark.parametrize("method", [sc.Uniform, sc.Subset])
def test_uniform_and_subset_never_exceed_their_bound(method, epsilon):
    mechanism = method(epsilon=epsilon)
    score = play(mechanism, 15, 1000, seed=1)
    assert score.exact.success <= exposure_at_most(epsilon, 15) * (1 + 1e-12)
    assert not finding(mechanism, score, epsilon, 0.9999).refuted
    if method is sc.Uniform:
        assert score.exact.success == pytest.approx(exposure_at_most(epsilon, 15))


def test_groups_are_played_out_and_refuted():
    """Anatomy promises no ε; claimed to keep ε = 1, it is refuted by its games alone."""
    mechanism = sc.Anatomy(l=4)
    found = finding(mechanism, play(mechanism, 15, 20_000, seed=2), 1, 0.9999)
    assert found.refuted
    assert found.confidence == 0.9999
