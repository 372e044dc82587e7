"""Uniform integers, categories and binomial counts, exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from scumble.model.errors import ParameterError
from scumble.private.sampling.bits import integers
from scumble.private.sampling.counts import binomial
from scumble.private.sampling.randomized_response import Categorical, _alias
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects
from tests.support.scripted import Scripted, words


def test_integers_are_uniform(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6; sees one part in eight 2 % too frequent."""
    for bound in [1, 2, 7, 1000, 2**40 + 1]:
        with subtests.test(bound=bound):
            drawn = integers(Keystream(bound), bound, 400_000)
            assert drawn.dtype == np.uint64
            assert int(drawn.max()) < bound
            bins = min(bound, 8)
            edges = [bound * part // bins for part in range(bins + 1)]
            counts = np.histogram(drawn.astype(float), edges)[0]
            shares = np.diff(edges) / bound
            assert not rejects(counts, shares.tolist()) if bins > 1 else counts[0] == 400_000
            if bins == 8:
                off = shares * np.array([1.02] + [1 - 0.02 * shares[0] / (1 - shares[0])] * 7)
                assert rejects(counts * 4, off.tolist())


def test_a_refused_word_is_drawn_again() -> None:
    """2**64 = 1 mod 3: only the word whose product has a low part of 0 is refused."""
    source = Scripted(words(0, 2**63), words(2**64 - 1))
    assert integers(source, 3, 2).tolist() == [2, 1]
    assert source.used_up


def test_integers_beyond_64_bits() -> None:
    assert integers(Keystream(1), 2**64, 3).dtype == np.uint64
    bound = 10**30
    drawn = integers(Keystream(1), bound, 2000)
    assert drawn.dtype == object
    assert all(0 <= number < bound for number in drawn)
    assert not rejects(np.bincount([int(n * 4 // bound) for n in drawn], minlength=4), [0.25] * 4)


weights = some.lists(
    some.one_of(some.integers(0, 10**30), some.fractions(0, 5)), min_size=1, max_size=12
).filter(any)


@settings(max_examples=200, deadline=None)
@given(some.lists(some.integers(0, 10**30), min_size=1, max_size=12).filter(any))
def test_alias_columns_add_up_to_the_weights_exactly(shares: list[int]) -> None:
    height = sum(shares)
    owned, alias = _alias(shares, height)
    total = list(owned)
    for column, other in enumerate(alias):
        assert 0 <= owned[column] <= height
        total[other] += height - owned[column]
    assert total == [share * len(shares) for share in shares]


@settings(max_examples=20, deadline=None)
@given(weights)
def test_categories_of_weight_zero_never_come(given_weights: list[int | Fraction]) -> None:
    drawn = Categorical(given_weights).draw(Keystream(3), 1000)
    assert all(given_weights[outcome] > 0 for outcome in set(drawn.tolist()))


def test_category_frequencies() -> None:
    """False alarm 1e-6; sees a weight that is 5 % off."""
    given_weights = [3, 1, Fraction(1, 2), 0, 7, 2]
    counts = np.bincount(Categorical(given_weights).draw(Keystream(4), 300_000), minlength=6)
    shares = np.array([3, 1, 0.5, 7, 2])
    assert counts[3] == 0
    assert not rejects(np.delete(counts, 3), (shares / shares.sum()).tolist())
    shares[4] *= 1.05
    assert rejects(np.delete(counts, 3), (shares / shares.sum()).tolist())


def test_a_tie_of_a_column_reads_on() -> None:
    """Weights 1 and 2: column 0 owns 2/3 of itself, 0.1010..., the rest is outcome 1."""
    tie = 2**65 // 3
    pick_first = words(1)
    for extra, outcome in [(2**65 // 3 - 1, 0), (2**65 // 3 + 1, 1)]:
        source = Scripted(pick_first, words(tie), words(extra % 2**64))
        assert Categorical([1, 2]).draw(source, 1).tolist() == [outcome]
        assert source.used_up


def test_bad_weights(subtests: pytest.Subtests) -> None:
    for bad in [[], [0, 0], [1, -1], [0.5]]:
        with (
            subtests.test(bad=bad),
            pytest.raises(ParameterError, match="The 'weights' parameter of Categorical must be"),
        ):
            Categorical(bad)


def test_binomial_by_enumeration_of_all_coins() -> None:
    """Three trials of 5/8 = 0.101 in binary: all 2**9 rows of coins, each equally likely.

    A step of n undecided trials uses the top n bits of one word.
    """
    probability, trials = Fraction(5, 8), 3
    counts = [0] * 4
    for coins in product(range(8), repeat=3):
        source = Scripted(words(*(coin << 61 for coin in coins)))
        counts[int(binomial(source, trials, probability, 1)[0])] += 1
    expected = [comb(3, k) * probability**k * (1 - probability) ** (3 - k) for k in range(4)]
    assert [Fraction(count, 512) for count in counts] == expected


@pytest.mark.parametrize(("trials", "probability"), [(20, Fraction(1, 3)), (1000, Fraction(2, 7))])
def test_binomial_frequencies(trials: int, probability: Fraction) -> None:
    """False alarm 1e-6; sees a probability that is 2 % off."""
    drawn = binomial(Keystream(5), trials, probability, 100_000)
    mean = trials * float(probability)
    edges = sorted({int(mean + z * (mean * 0.7) ** 0.5) for z in np.linspace(-2.4, 2.4, 9)})

    def shares(chance: float) -> list[float]:
        return np.diff([0, *stats.binom.cdf(edges, trials, chance), 1]).tolist()

    counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    assert not rejects(counts, shares(float(probability)))
    assert rejects(counts, shares(float(probability) * 1.02))


def test_binomial_edges() -> None:
    assert binomial(Keystream(1), 5, Fraction(0), 3).tolist() == [0, 0, 0]
    assert binomial(Keystream(1), 5, Fraction(1), 3).tolist() == [5, 5, 5]
    assert binomial(Keystream(1), 0, Fraction(1, 2), 2).tolist() == [0, 0]
    many = int(binomial(Keystream(1), 10**7, Fraction(1, 3), 1)[0])
    assert abs(many - 10**7 / 3) < 6 * (10**7 * 2 / 9) ** 0.5
    with pytest.raises(ParameterError, match="at most"):
        binomial(Keystream(1), 2**63, Fraction(1, 2), 1)
