"""Permute-and-flip: its law, and that it is private."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations
from math import exp, factorial, log, prod

import numpy as np
import pytest

from scumble.model.errors import ParameterError
from scumble.private.sampling.selection import permute_and_flip
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects

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
    source = Keystream(11)
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


def test_far_candidates_are_never_taken() -> None:
    """e^-1000 is no probability that one meets, even a thousand times."""
    source = Keystream(1)
    scores: list[int | Fraction] = [0, *[-1000] * 1000]
    assert {permute_and_flip(source, scores, Fraction(1)) for _ in range(20)} == {0}


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


@pytest.mark.parametrize("scores", [[], [0.5], [True, 1]])
def test_bad_scores(scores: list[int]) -> None:
    with pytest.raises(ParameterError, match="whole numbers or Fractions"):
        permute_and_flip(Keystream(1), scores, Fraction(1))
