"""The k largest scores: exact laws of three candidates, their privacy, and candidates drawn lazily.

A chi-square test here rejects a true law once in 10^6.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import exp, log

import numpy as np
import pytest
from scipy import stats

from scumble.model.errors import ParameterError
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import Candidates, pick_top, picks_rho, select_top
from tests.support.goodness import ALARM, rejects

Scores = tuple[int, ...]
Law = dict[tuple[int, ...], float]
ORDERS = list(permutations(range(3)))
RATIO = 0.3  # e^(-1/scale) of the exact laws
REACH = 20  # noise beyond this is left out: RATIO^20 < 10^-10 each


def one_shot_law(scores: Scores, k: int, ratio: float, reach: int = REACH) -> Law:
    """The probability of every list of k of three candidates, by going through all noises. Ties are
    decided by a random order of the candidates.
    """
    noise = np.stack(np.meshgrid(*[np.arange(reach)] * 3, indexing="ij"), -1).reshape(-1, 3)
    chances = np.prod((1 - ratio) * ratio**noise, axis=1)
    values = noise + np.array(scores)
    found: Law = {}
    for ties in ORDERS:
        ranked = np.argsort(-(values * 3 + np.array(ties)), axis=1, kind="stable")[:, :k]
        codes = ranked @ 3 ** np.arange(k)
        sums = np.bincount(codes, chances / len(ORDERS), minlength=3**k)
        for chosen in permutations(range(3), k):
            code = sum(place * 3**at for at, place in enumerate(chosen))
            found[chosen] = found.get(chosen, 0.0) + float(sums[code])
    return found


def picks_law(scores: Scores, k: int, rate: float) -> Law:
    """The probability of every list of k choices by the exponential mechanism."""
    found = {}
    for chosen in permutations(range(len(scores)), k):
        left, chance = set(range(len(scores))), 1.0
        for place in chosen:
            chance *= exp(rate * scores[place]) / sum(exp(rate * scores[i]) for i in left)
            left.remove(place)
        found[chosen] = chance
    return found


def worst_loss(laws: dict[Scores, Law], steps: list[Scores]) -> float:
    """The largest change of the logarithm of a probability over all neighbouring scores."""
    worst = 0.0
    for scores, law in laws.items():
        for step in steps:
            other = laws.get(tuple(a + b for a, b in zip(scores, step, strict=True)))
            if other is not None:
                worst = max(worst, *(abs(log(law[c] / other[c])) for c in law))
    return worst


def test_one_shot_costs_epsilon(subtests: pytest.Subtests) -> None:
    """All counts 0..3 of three candidates, with k (2k) steps of ln(1/RATIO)."""
    for k, monotone in product([1, 2], [True, False]):
        with subtests.test(k=k, monotone=monotone):
            laws = {
                scores: one_shot_law(scores, k, RATIO) for scores in product(range(4), repeat=3)
            }
            steps = list(product((0, 1) if monotone else (-1, 0, 1), repeat=3))
            epsilon = -k * log(RATIO) * (1 if monotone else 2)
            assert worst_loss(laws, steps) <= epsilon + 1e-6
            assert (
                worst_loss(laws, steps) >= 0.6 * epsilon
            )  # the bound is not far from being reached
            if not monotone:  # the scale of monotone scores would be too small
                assert worst_loss(laws, steps) > -k * log(RATIO) + 0.1


@pytest.mark.parametrize("k", [1, 2])
def test_one_shot_has_this_law(k: int) -> None:
    epsilon = Fraction(7, 10)
    for scores in [(0, 0, 3), (2, 1, 1)]:
        law = one_shot_law(scores, k, exp(-float(epsilon) / (2 * k)), 60)
        source, found = Keystream(seed=k), Counter[tuple[int, ...]]()
        for _ in range(2500):
            chosen = select_top(
                source, Candidates.listed(np.array(scores)), k, sensitivity=2, epsilon=epsilon
            )
            found[tuple(chosen.tolist())] += 1
        assert not rejects([found[c] for c in law], [p / sum(law.values()) for p in law.values()])


@pytest.mark.parametrize("k", [1, 2])
def test_choices_cost_epsilon_and_rho(k: int) -> None:
    """The losses of the exponential mechanism, and the Rényi divergences that its ρ allows."""
    rate = 0.8
    laws = {scores: picks_law(scores, k, rate) for scores in product(range(4), repeat=3)}
    steps = list(product((0, 1), repeat=3))
    assert worst_loss(laws, steps) <= k * rate + 1e-9
    rho = float(picks_rho(k, Fraction(4, 5)))
    for order in (1.5, 2.0, 5.0, 20.0):
        worst = max(
            log(sum(law[c] ** order * other[c] ** (1 - order) for c in law)) / (order - 1)
            for scores, law in laws.items()
            for step in steps
            for sign in (1, -1)
            for other in [laws.get(tuple(a + sign * b for a, b in zip(scores, step, strict=True)))]
            if other is not None
        )
        assert worst <= order * rho + 1e-12
    both_ways = list(product((-1, 0, 1), repeat=3))
    assert worst_loss(laws, both_ways) <= 2 * k * rate + 1e-9
    assert worst_loss(laws, both_ways) > k * rate  # so that the rate is halved for these


@pytest.mark.parametrize("monotone", [True, False])
def test_choices_have_this_law(monotone: bool) -> None:
    scores, epsilon = (5, 4, 4, 2), Fraction(3, 2)
    law = picks_law(scores, 2, 1.5 / (3 * (1 if monotone else 2)))
    source, found = Keystream(seed=3), Counter[tuple[int, ...]]()
    known = Candidates.listed(np.array(scores))
    for _ in range(1500):
        chosen = pick_top(source, known, 2, sensitivity=3, epsilon=epsilon, monotone=monotone)
        found[tuple(chosen.tolist())] += 1
    assert not rejects([found[c] for c in law], list(law.values()))


def winner_law(scores: np.ndarray, ratio: float) -> np.ndarray:
    """The probability that each candidate is first, by integrating over a uniform tie breaker."""
    nodes, weights = np.polynomial.legendre.leggauss(160)
    nodes, weights = (nodes + 1) / 2, weights / 2
    found = np.zeros(len(scores))
    for value in range(int(scores.min()), int(scores.max()) + 400):
        gaps = value - scores
        here = np.where(gaps >= 0, (1 - ratio) * ratio ** np.maximum(gaps, 0), 0.0)
        below = np.where(gaps > 0, 1 - ratio ** np.maximum(gaps, 0), 0.0)
        reached = below[:, None] + here[:, None] * nodes  # below, or equal and behind in the tie
        logs = np.log(np.maximum(reached, 1e-300))
        found += here * (np.exp(logs.sum(axis=0) - logs) @ weights)
    return found


def sparse_candidates(size: int) -> Candidates:
    keys = np.array([3, 17, 180], np.uint64)
    return Candidates(keys, np.array([9, 4, 0]), size, rest=1)


@pytest.mark.parametrize("choose", [select_top, pick_top])
def test_untouched_candidates_are_drawn_as_if_they_were_listed(choose) -> None:
    """The first of 200 candidates, of which three are listed; by kind of candidate."""
    lazy, epsilon = sparse_candidates(200), Fraction(1, 2)
    scores = np.ones(200, np.int64)
    scores[[3, 17, 180]] = 9, 4, 0
    if choose is select_top:
        law = winner_law(scores, exp(-0.5))
    else:
        law = np.exp(0.5 * scores) / np.exp(0.5 * scores).sum()
    kinds = np.arange(200) % 5 + 3
    kinds[[3, 17, 180]] = 0, 1, 2
    source = Keystream(seed=8)
    drawn = [int(choose(source, lazy, 1, sensitivity=1, epsilon=epsilon)[0]) for _ in range(2500)]
    counts = np.bincount(kinds[drawn], minlength=8)
    assert not rejects(counts, np.bincount(kinds, law).tolist())


@pytest.mark.parametrize("choose", [select_top, pick_top])
def test_lists_of_untouched_candidates_are_those_of_listed_ones(choose) -> None:
    """Two samples of ordered lists of two have one law."""
    lazy = sparse_candidates(300)
    dense = Candidates.listed(np.where(np.arange(300) == 3, 9, 1))
    dense.scores[[17, 180]] = 4, 0
    tables = []
    for seed, known in enumerate([lazy, dense]):
        source, found = Keystream(seed=seed), np.zeros((5, 5), np.int64)
        kinds = np.where(np.arange(300) < 150, 3, 4)
        kinds[[3, 17, 180]] = 0, 1, 2
        for _ in range(700):
            one, two = choose(source, known, 2, sensitivity=1, epsilon=Fraction(1)).tolist()
            assert one != two
            found[kinds[one], kinds[two]] += 1
        tables.append(found.reshape(-1))
    both = np.stack(tables)
    both = both[:, both.sum(axis=0) >= 10]
    assert stats.chi2_contingency(both).pvalue > ALARM


def test_huge_domains_cost_no_enumeration() -> None:
    """All sets of up to three of a million items: 1.7e17 candidates."""
    size = 166_667_166_667_000_000
    known = Candidates(np.array([7, 10**17], np.uint64), np.array([10_000, 9_000]), size)
    chosen = select_top(Keystream(seed=1), known, 50, sensitivity=1, epsilon=Fraction(1))
    assert len(set(chosen.tolist())) == 50
    assert chosen[:2].tolist() == [7, 10**17]
    picked = pick_top(Keystream(seed=1), known, 5, sensitivity=1, epsilon=Fraction(1))
    assert set(picked[:2].tolist()) == {7, 10**17}
    assert len(set(picked.tolist())) == 5


def test_levels_are_lowered_until_enough_are_found() -> None:
    """All candidates can be asked for, one after the other."""
    known = sparse_candidates(300)
    for choose in (select_top, pick_top):
        found = choose(Keystream(seed=2), known, 4, sensitivity=1, epsilon=Fraction(40))
        assert found[:2].tolist() == [3, 17]
        assert 180 not in found.tolist()
    every = pick_top(Keystream(seed=2), known, 300, sensitivity=1, epsilon=Fraction(1))
    assert sorted(every.tolist()) == list(range(300))


def test_bad_arguments() -> None:
    known = sparse_candidates(300)
    with pytest.raises(ParameterError, match="number of candidates"):
        select_top(Keystream(seed=0), known, 301, sensitivity=1, epsilon=Fraction(1))
    with pytest.raises(ParameterError, match="sensitivity"):
        pick_top(Keystream(seed=0), known, 1, sensitivity=0, epsilon=Fraction(1))
    with pytest.raises(ParameterError, match="candidates"):
        Candidates(np.empty(0, np.uint64), np.empty(0, np.int64), (1 << 64) + 1)
