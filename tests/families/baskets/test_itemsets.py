"""Exact counts of items, pairs and sets of items, against brute force.

Statistical tests here reject a correct program less than once in 10^5.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from scumble.families.baskets.design import Itemsets, set_number, set_places, sets_at
from scumble.families.baskets.publish.meter import (
    BitBlocks,
    SelectedItems,
    count_clipped,
    count_frequent,
    count_items,
    count_pairs,
    smallest_words,
)
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.sampling.source import Keystream
from tests.support.baskets import passes, random_baskets, support


def test_the_kth_set_is_that_of_all_sets(subtests: pytest.Subtests) -> None:
    for seed in range(6):
        with subtests.test(seed=seed):
            baskets = random_baskets(40, 7, 0.9, seed)
            counts, rows = count_items(passes(baskets), 7)
            assert rows == 40
            assert counts.tolist() == [support(baskets, [item]) for item in range(7)]
            every = [each for size in range(1, 8) for each in combinations(range(7), size)]
            falling = sorted((support(baskets, each) for each in every), reverse=True)
            for k in (1, 2, 5, 10, 30, 100, 127, 128, 400):
                wanted = falling[k - 1] if k <= len(falling) else 0
                assert count_frequent(passes(baskets), counts, k) == wanted, k


def test_one_long_basket_is_not_enumerated() -> None:
    baskets = [frozenset(range(200))]
    counts, _ = count_items(passes(baskets), 200)
    assert count_frequent(passes(baskets), counts, 1000) == 1


def test_blocks_that_do_not_fit_are_read_again(monkeypatch) -> None:
    baskets = random_baskets(60, 6, 0.9, 3)
    chosen = SelectedItems(np.arange(6), 6)
    sets = np.array(list(combinations(range(6), 3)))
    wanted = [support(baskets, each) for each in sets]
    for kept in (1 << 27, 0):
        monkeypatch.setattr("scumble.families.baskets.publish.meter._KEPT", kept)
        blocks = BitBlocks(passes(baskets), chosen)
        assert blocks.counts(sets).tolist() == wanted
        assert blocks.counts(sets).tolist() == wanted


def test_counts_of_small_sets() -> None:
    """Without clipping all counts are exact; with it a basket is in as many sets as it may be."""
    baskets = random_baskets(50, 9, 1.2, 2)
    chosen = SelectedItems(np.array([0, 1, 2, 4, 7]), 9)
    pairs = count_pairs(passes(baskets), chosen)
    for one, other in product(range(5), repeat=2):
        assert pairs[one, other] == support(baskets, chosen.items[[one, other]])
    law = DiscreteLaplace(Fraction(1))
    design = Itemsets(tuple("abcde"), 3, 5, law, law)
    words = Keystream(seed=1).words
    counts, clipped = count_clipped(passes(baskets), chosen, design, words)
    assert clipped == 0
    every = [each for size in range(4) for each in combinations(range(5), size)]
    assert len(counts) == design.numbers == len(every) == set_number(5, 3)
    for size in range(4):
        own = [each for each in every if len(each) == size]
        sets = np.array(own, np.int64).reshape(len(own), size)
        places = set_places(design, sets)
        assert [counts[place] for place in places] == [
            support(baskets, chosen.items[list(each)]) for each in sets
        ]
        first = set_number(5, size - 1) if size else 0
        assert sets_at(5, size, places - first).tolist() == sets.tolist()
    narrow = Itemsets(tuple("abcde"), 2, 2, law, law)
    counts, clipped = count_clipped(passes(baskets), chosen, narrow, words)
    inside = [len(each & set(chosen.items.tolist())) for each in baskets]
    assert clipped == sum(number > 2 for number in inside)
    assert counts[1:6].sum() == sum(min(number, 2) for number in inside)
    assert counts[6:].sum() == sum(number >= 2 for number in inside)


def test_clipping_one_basket_changes_no_other() -> None:
    owners = np.repeat(np.arange(30), 6)
    words = Keystream(seed=4).words(len(owners))
    kept = smallest_words(owners, words, 4).reshape(30, 6)
    assert (kept.sum(axis=1) == 4).all()
    for gone in range(30):
        left = owners != gone
        again = smallest_words(owners[left], words[left], 4).reshape(29, 6)
        assert np.array_equal(again, np.delete(kept, gone, axis=0))


def test_each_item_of_a_clipped_basket_is_kept_equally_often() -> None:
    owners = np.repeat(np.arange(6000), 5)
    kept = smallest_words(owners, Keystream(seed=5).words(len(owners)), 2).reshape(-1, 5)
    pairs = np.array([np.flatnonzero(row) for row in kept])
    counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25)
    found = [counts[a * 5 + b] for a, b in combinations(range(5), 2)]
    assert stats.chisquare(found).pvalue > 1e-6
