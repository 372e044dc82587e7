"""Shuffles: every order equally likely, each part by itself, and refused words drawn again."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from scumble.private.sampling.bits import CHUNK
from scumble.private.sampling.kernels import uniform_below
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import shuffle
from tests.support.goodness import rejects


def _starts(*starts: int) -> np.ndarray:
    return np.array(starts, np.int64)


def test_all_orders_are_equally_likely() -> None:
    """The 24 orders of four items in 20,000 parts of one array; chi-square, false alarm 1e-6."""
    parts = 20_000
    items = np.tile(np.arange(4), parts)
    shuffle(Keystream(3), items, np.arange(0, 4 * parts + 1, 4))
    orders = Counter(map(tuple, items.reshape(parts, 4).tolist()))
    counts = [orders[order] for order in itertools.permutations(range(4))]
    assert not rejects(counts, [1 / 24] * 24)


def test_items_stay_in_their_parts() -> None:
    """Also where the words of one filling do not reach to the end of a part."""
    size = CHUNK + 1000
    items = np.arange(size)
    shuffle(Keystream(1), items, _starts(0, 0, 10, size - 5, size - 5, size))
    for start, end in ((0, 10), (10, size - 5), (size - 5, size)):
        assert sorted(items[start:end].tolist()) == list(range(start, end))
    assert (items[10 : size - 5] != np.arange(10, size - 5)).mean() > 0.99


def test_nothing_to_shuffle() -> None:
    items = np.empty(0, np.int64)
    shuffle(Keystream(1), items, _starts(0))
    shuffle(Keystream(1), items, _starts(0, 0, 0))


def test_words_that_would_bias_are_refused() -> None:
    """2^64 mod 3 = 1: the word 0 is refused, all others are kept; with bound 2^63 + 1 nearly half
    of the words are.
    """
    words = np.array([0, 0, 1, 2**63], np.uint64)
    assert uniform_below(words, 0, np.uint64(3)) == (0, 3)
    assert uniform_below(words, 3, np.uint64(3)) == (1, 4)
    assert uniform_below(words, 4, np.uint64(3))[1] == -1
    assert uniform_below(words[:2], 0, np.uint64(3))[1] == -1
    bound = 2**63 + 1
    for word in (0, 1, 2, 3, 2**62, 2**63 - 1, 2**64 - 1):
        low = word * bound % 2**64
        number, place = uniform_below(np.array([word], np.uint64), 0, np.uint64(bound))
        assert (place == -1) == (low < 2**64 % bound)
        assert place == -1 or number == word * bound >> 64
