"""Bags from pools: every table adds up to the exact law, and all ways of counting agree."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from scumble.families.aroma.publish import views as pools
from scumble.families.aroma.publish.views import Pool, PrefixTable, _make_block
from scumble.model.errors import ParameterError
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects, rejects_law
from tests.support.scripted import Scripted, halves

whole = some.integers(1, 10**30)


def shares_of(table: PrefixTable, levels: int) -> tuple[list[Fraction], Fraction]:
    """The exact probability of every outcome within so many looks, and what is open after them."""
    shares = [Fraction(0)] * table.open
    left = Fraction(1)
    for _ in range(levels):
        counts = np.bincount(table.table, minlength=table.open + 1)
        shares = [
            share + left * Fraction(int(count), 1 << 16)
            for share, count in zip(shares, counts, strict=False)
        ]
        left *= Fraction(int(counts[-1]), 1 << 16)
        if not left:
            break
        table = table.rest
    return shares, left


@settings(max_examples=60, deadline=None)
@given(some.lists(whole, min_size=1, max_size=9))
def test_tables_have_exactly_the_shares_of_the_weights(weights: list[int]) -> None:
    """Five looks leave so little open that each share is met from below to within that."""
    shares, left = shares_of(PrefixTable(weights), 5)
    assert sum(shares) + left == 1
    for share, weight in zip(shares, weights, strict=True):
        exact = Fraction(weight, sum(weights))
        assert share <= exact <= share + left


def test_a_prefix_that_decides_nothing_asks_again() -> None:
    """Weights 1 and 2: 21845 and 43690 prefixes; the last one is 1/3 and 2/3 of itself."""
    table = PrefixTable([1, 2])
    assert table.draw(Scripted(halves([21844, 21845, 65534])), 3).tolist() == [0, 1, 1]
    again = Scripted(halves([65535]), halves([65535]), halves([21844]))
    assert table.draw(again, 1).tolist() == [0]
    assert again.used_up


def test_blocks_are_bags_with_multinomial_probabilities(subtests: pytest.Subtests) -> None:
    for weights, draws in product([(1, 1, 1), (3, 1, 2, 5), (1,) * 15], [1, 2, 3]):
        with subtests.test(weights=weights, draws=draws):
            block = _make_block(weights, draws)
            bags = [tuple(int(member) for member in bag) for bag in block.members]
            assert bags == list(combinations_with_replacement(range(len(weights)), draws))
            shares, left = shares_of(block.outcomes, 3)
            for bag, share in zip(bags, shares, strict=True):
                orders = factorial(draws) // prod(factorial(bag.count(value)) for value in set(bag))
                exact = orders * prod(Fraction(weights[value], sum(weights)) for value in bag)
                assert share <= exact <= share + left


def test_packed_counts_are_the_plain_ones(subtests: pytest.Subtests) -> None:
    """The same words through both compiled loops, and through plain Python."""
    for values, draws in [(15, 48), (15, 50), (3, 255), (16, 7)]:
        with subtests.test(values=values, draws=draws):
            pool, size = Pool((1,) * values), 300
            for block, times in pool._divide_draws(draws):
                each = -(-times // 4)
                script = Keystream(draws).words(size * each)
                spare = halves(np.arange(5000) * 13 % 65536)
                packed = np.zeros((size, 2), np.uint64)
                block.tally_packed(Scripted(script, spare), times, packed)
                plain = np.zeros((size, values), np.uint16)
                block.tally(Scripted(script, spare), times, plain)
                assert (packed.view(np.uint8)[:, :values] == plain).all()
                prefixes = script.view(np.uint16).reshape(size, each * 4)[:, :times]
                outcomes = block.outcomes.table[prefixes]
                closed = (outcomes != block.outcomes.open).all(axis=1)
                assert closed.any()
                for row in np.flatnonzero(closed):
                    members = block.members[outcomes[row]].reshape(-1)
                    assert (np.bincount(members, minlength=values) == plain[row]).all()


def test_counts_follow_the_law(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6 for each of the first values and for the sum of two; sees a weight that is
    5 % off in the first.
    """
    for weights, draws in [
        ((1,) * 15, 48),
        ((1, 2, 3), 300),
        ((5, 1), 9),
        (tuple(range(40, 0, -1)), 60),
        ((7,), 3),
    ]:
        with subtests.test(weights=weights, draws=draws):
            size = 60_000
            counts = Pool(weights).counts(Keystream(3), draws, size)
            assert counts.shape == (size, len(weights))
            assert (counts.sum(axis=1, dtype=np.int64) == draws).all()
            total = sum(weights)
            parts = [
                (counts[:, v].astype(int), weights[v] / total) for v in range(min(3, len(weights)))
            ]
            if len(weights) > 2:
                parts.append(
                    (counts[:, :2].sum(axis=1, dtype=int), (weights[0] + weights[1]) / total)
                )
            for number, (drawn, share) in enumerate(parts):
                assert not _off(drawn, draws, share)
                if number == 0 and share < 1:
                    assert _off(drawn, draws, share * 1.05)


def _off(drawn: np.ndarray, draws: int, share: float) -> bool:
    """Chi-square against a binomial law, cut into parts of 5 % or what comes next."""
    if share == 1:
        return bool((drawn != draws).any())
    below = stats.binom.cdf(np.arange(draws), draws, share)
    cuts = np.unique(np.searchsorted(below, np.arange(1, 20) / 20))
    edges = [int(cut) for cut in cuts if cut < draws and below[cut] < 0.999]
    return rejects_law(drawn, lambda count: float(below[int(count)]), edges)


def test_draws_of_a_row_are_independent() -> None:
    """False alarm 1e-6: pairs of three values, in order of no account; sees pairs that are 5 % too
    often equal.
    """
    bags = Pool((1, 2, 3)).members(Keystream(5), 2, 200_000)
    names = np.sort(bags, axis=1)
    found = np.bincount(names[:, 0] * 3 + names[:, 1], minlength=9)
    p = np.array([1, 2, 3]) / 6
    law = {(i, j): p[i] * p[j] * (1 if i == j else 2) for i in range(3) for j in range(i, 3)}
    counts = [int(found[i * 3 + j]) for i, j in law]
    assert not rejects(counts, list(law.values()))
    equal = sum(law[i, i] for i in range(3))
    off = [q * (1.05 if i == j else (1 - 1.05 * equal) / (1 - equal)) for (i, j), q in law.items()]
    assert rejects(counts, off)


def test_members_of_many_values() -> None:
    """False alarm 1e-6: a thousand values, in ten parts."""
    bags = Pool((1,) * 1000).members(Keystream(6), 19, 5000)
    assert bags.shape == (5000, 19)
    assert not rejects(np.bincount(bags.reshape(-1) // 100), [0.1] * 10)


def test_bad_weights(subtests: pytest.Subtests) -> None:
    for bad in [[], [0, 1], [1.5], [True], [1] * 5000]:
        with (
            subtests.test(bad=bad),
            pytest.raises(ParameterError, match="The 'weights' parameter of Pool must be"),
        ):
            Pool(bad)


def test_bad_draws() -> None:
    with pytest.raises(ParameterError, match="The 'draws' parameter of"):
        Pool([1, 2]).counts(Keystream(1), 0, 5)
    assert Pool([1, 2]).counts(Keystream(1), 3, 0).shape == (0, 2)


def test_words_are_drawn_anew_for_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are drawn in parts; the result is the one of a single part, from the same stream."""
    for weights, draws in (([3, 2, 1], 7), (list(range(1, 20)), 3)):
        whole = Pool(weights).counts(Keystream(4), draws, 500)
        with monkeypatch.context() as small:
            small.setattr(pools, "_STEP", 16)
            assert np.array_equal(Pool(weights).counts(Keystream(4), draws, 500), whole)
