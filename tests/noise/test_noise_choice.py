"""Permute-and-flip and the exponential mechanism: their laws, and choices on the edge."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations
from math import exp, factorial, log, prod

import numpy as np
import pytest
from goodness import rejects
from scripted import Scripted, words

from scumble.errors import ParameterError
from scumble.noise.permute_and_flip import exponential_choice, permute_and_flip
from scumble.noise.source import Source

DRAWS = 8000


def flipped(chances: list[Fraction]) -> list[Fraction]:
    """The law of permute-and-flip by going through all orders."""
    found = [Fraction(0)] * len(chances)
    for order in permutations(range(len(chances))):
        left = Fraction(1, factorial(len(chances)))
        for place in order:
            found[place] += left * chances[place]
            left *= 1 - chances[place]
        assert left == 0
    return found


def test_enumeration_agrees_with_the_closed_form() -> None:
    """P(r) = p_r Σ_S (-1)^|S| Π_S p / (|S| + 1) over the sets S of other candidates."""
    chances = [Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1)]
    for place, found in enumerate(flipped(chances)):
        others = [p for i, p in enumerate(chances) if i != place]
        terms = [
            (-1) ** size * prod(some, start=Fraction(1)) / (size + 1)
            for size in range(len(others) + 1)
            for some in combinations(others, size)
        ]
        assert found == chances[place] * sum(terms)


@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        ([3, 1, 2, 3], Fraction(1, 2)),
        ([Fraction(1, 3), 0, Fraction(-2, 7)], Fraction(3)),
        ([-10, -10], Fraction(1)),
        ([5], Fraction(1, 9)),
    ],
)
def test_permute_and_flip_follows_its_law(scores: list[int | Fraction], rate: Fraction) -> None:
    """Chi-square of 8,000 choices against all orders, false alarm 1e-6; a rate of a half of it
    is rejected where scores differ.
    """
    source = Source(11)
    counts = np.bincount(
        [permute_and_flip(source, scores, rate) for _ in range(DRAWS)], minlength=len(scores)
    )

    def law(rate: float) -> list[float]:
        chances = [Fraction(exp(rate * float(q - max(scores)))) for q in scores]
        return [float(share) for share in flipped(chances)]

    if len(scores) == 1:
        assert counts[0] == DRAWS
        return
    assert not rejects(counts, law(float(rate)))
    if len(set(scores)) > 1:
        assert rejects(counts, law(float(rate) / 2))


@pytest.mark.parametrize("weights", [None, [1, 5, 0, 2], [10**25, 1, 10**24, 3 * 10**25]])
def test_the_exponential_mechanism_follows_its_law(weights: list[int] | None) -> None:
    """Chi-square of 8,000 choices, false alarm 1e-6; a rate of a half of it is rejected. The best
    candidate may have weight 0, and weights may be beyond 64 bits.
    """
    scores, rate = [0, -2, Fraction(3, 2), -2], Fraction(2, 3)
    source = Source(12)
    found = [exponential_choice(source, scores, rate, weights) for _ in range(DRAWS)]
    counts = np.bincount(found, minlength=4)

    def shares(rate: float) -> list[float]:
        each = [n * exp(rate * float(q)) for n, q in zip(weights or [1] * 4, scores, strict=True)]
        return [each_ / sum(each) for each_ in each]

    law = np.array(shares(float(rate)))
    some = law > 1e-3
    assert counts[~some].sum() <= 5 * (~some).any()
    kept, expected = counts[some], law[some] / law[some].sum()
    assert not rejects(kept, expected.tolist())
    other = np.array(shares(float(rate) / 2))[some]
    assert rejects(kept, (other / other.sum()).tolist())


def test_far_candidates_are_never_taken() -> None:
    """e^-1000 is no probability that one meets, even a thousand times."""
    source = Source(1)
    scores: list[int | Fraction] = [0, *[-1000] * 1000]
    assert {permute_and_flip(source, scores, Fraction(1)) for _ in range(20)} == {0}
    assert {exponential_choice(source, scores, Fraction(1)) for _ in range(20)} == {0}


def test_permute_and_flip_is_private_by_enumeration() -> None:
    """Scores that differ by at most 1 each: no candidate's probability changes by more than e^ε
    with rate ε/2.
    """
    epsilon = 0.8
    worst = 0.0
    base = (2, 1, 0)
    for other in [(a, b, c) for a in (1, 2, 3) for b in (0, 1, 2) for c in (-1, 0, 1)]:
        laws = [
            flipped([Fraction(exp(epsilon / 2 * (q - max(scores)))) for q in scores])
            for scores in (base, other)
        ]
        worst = max(worst, *(abs(log(p / q)) for p, q in zip(*laws, strict=True)))
    assert epsilon * 0.7 < worst <= epsilon + 1e-12


def test_a_choice_on_the_edge_reads_on() -> None:
    """Two candidates of the same weight and different scores: the cut is at 1/(1 + e^-1), and a
    first word equal to its bits is decided by the next one.
    """
    cut = Fraction(1) / (1 + Fraction(exp(-1)))
    edge = int(cut * 2**64)  # floating point: within 2^12 of the true one
    low = Scripted(words(edge - 2**13), words(0))
    high = Scripted(words(edge + 2**13), words(0))
    assert exponential_choice(low, [0, -1], Fraction(1)) == 0
    assert exponential_choice(high, [0, -1], Fraction(1)) == 1
    # e^-1 and 1 - e^-1 from enough digits; the true cut lies between edge and edge + 1.
    from scumble.noise.exponential import exponential

    one = 1 << 256
    small, _ = exponential(Fraction(1), 256)
    edge = (one << 64) // (one + small)
    for more, expected in ((0, 0), (2**64 - 1, 1)):
        source = Scripted(words(edge), words(more), words(0))
        assert exponential_choice(source, [0, -1], Fraction(1)) == expected
        assert source.used_up


@pytest.mark.parametrize("scores", [[], [0.5], [True, 1]])
def test_bad_scores(scores: list[int]) -> None:
    with pytest.raises(ParameterError, match="whole numbers or Fractions"):
        permute_and_flip(Source(1), scores, Fraction(1))


@pytest.mark.parametrize("weights", [[1], [0, 0], [1, -1], [1.0, 2]])
def test_bad_weights(weights: list[int]) -> None:
    with pytest.raises(ParameterError, match="one for each score"):
        exponential_choice(Source(1), [1, 2], Fraction(1), weights)
