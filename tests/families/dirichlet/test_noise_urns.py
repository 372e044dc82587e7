"""Urns: every ball once, every order of colours equally likely."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import comb

import numpy as np
import pytest

import scumble as sc
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import Urns
from tests.support.goodness import rejects


def test_every_ball_is_drawn_once() -> None:
    balls = [[3, 0, 2], [1], [0, 4]]
    urns = Urns(balls)
    rows = np.repeat([0, 1, 2], [5, 1, 4])
    drawn = urns.draw(Keystream(1), np.random.default_rng(0).permutation(rows))
    assert np.bincount(drawn, minlength=6).tolist() == [3, 0, 2, 1, 0, 4]
    assert urns.left == 0
    with pytest.raises(LookupError):
        urns.draw(Keystream(1), np.array([1]))


def test_batches_go_on_where_the_last_one_ended() -> None:
    urns = Urns([[2, 2]])
    parts = [
        urns.draw(Keystream(seed), np.zeros(size, np.int64)) for seed, size in enumerate((1, 2))
    ]
    assert urns.left == 1
    last = urns.draw(Keystream(9), np.zeros(1, np.int64))
    assert np.bincount(np.concatenate([*parts, last])).tolist() == [2, 2]


def test_every_order_is_equally_likely(subtests: pytest.Subtests) -> None:
    """Chi-square over all orders of the colours, in 90,000 urns; false alarm 1e-6."""
    for colours in ["aabb", "aabbcc", "abbb", "abcd"]:
        with subtests.test(colours=colours):
            names = sorted(set(colours))
            orders = sorted(set(permutations(names.index(c) for c in colours)))
            number = 90_000
            urns = Urns([[colours.count(name) for name in names]] * number)
            asked = np.tile(np.arange(number), len(colours))
            drawn = urns.draw(Keystream(3), asked).reshape(len(colours), number)
            drawn = drawn - len(names) * np.arange(number)
            weights = len(names) ** np.arange(len(colours))
            keys = {int(weights @ order): place for place, order in enumerate(orders)}
            found = np.array([keys[key] for key in (weights @ drawn).tolist()])
            counts = np.bincount(found, minlength=len(orders))
            assert not rejects(counts, [1 / len(orders)] * len(orders))
            # The same test notices that every other order has lost a tenth of its share.
            skewed = counts.copy()
            skewed[::2] = skewed[::2] * 9 // 10
            assert rejects(skewed, [1 / len(orders)] * len(orders))


class _Scripted:
    """A source that gives these words."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> np.ndarray:
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, np.uint64)


def test_words_that_would_be_unfair_are_refused() -> None:
    """With three balls 2^64 mod 3 = 1 word is refused: the word 0, whose product ends in 0."""
    urns = Urns([[1, 2]])
    source = _Scripted([0, 0, 1, (1 << 64) - 1, 5])
    assert urns.draw(source, np.zeros(3, np.int64)).tolist() == [0, 1, 1]


@pytest.mark.parametrize("balls", [[[-1]], [[1 << 62]]])
def test_impossible_urns(balls: list) -> None:
    with pytest.raises(sc.ParameterError, match="'balls' parameter of Urns"):
        Urns(balls)


def test_balls_of_units_are_multivariate_hypergeometric() -> None:
    """All splits of 5 out of urns of 4 + 3 + 1 and 2 balls, against products of binomial
    coefficients; chi-square over 20,000 draws, false alarm 1e-6.
    """
    source, found = Keystream(5), Counter()
    for _ in range(20_000):
        urns = Urns([[4, 3, 1], [2]])
        taken = urns.take(source, np.array([5, 1]))
        assert (urns.rest() + taken).tolist() == [4, 3, 1, 2]
        found[tuple(taken.tolist())] += 1
    law = {
        (a, b, 5 - a - b, 1): comb(4, a) * comb(3, b) * comb(1, 5 - a - b) / comb(8, 5)
        for a in range(5)
        for b in range(4)
        if 0 <= 5 - a - b <= 1
    }
    assert set(found) == set(law)
    assert not rejects([found[cell] for cell in law], list(law.values()))
    assert rejects([found[cell] for cell in law], [1 / len(law)] * len(law))
