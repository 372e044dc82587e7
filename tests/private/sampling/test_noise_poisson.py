"""Poisson counts and coins of several kinds, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np
import pytest
from scipy import stats

from scumble.model.errors import ParameterError
from scumble.private.sampling.bits import Coins
from scumble.private.sampling.counts import _LAST, _beyond, _table, poisson
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects
from tests.support.scripted import Scripted, halves, words


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_poisson_numbers_follow_their_law(mean: Fraction) -> None:
    """Chi-square of 6,000 numbers, false alarm 1e-6; a mean 15 % off is rejected."""
    source = Keystream(7)
    drawn = np.array([poisson(source, mean) for _ in range(6000)])

    def rejected(rate: float) -> bool:
        law = stats.poisson(rate)
        edges = [k for k in range(200) if 6000 * law.pmf(k) >= 8]
        shares = [law.cdf(edges[0]), *(law.pmf(k) for k in edges[1:-1]), law.sf(edges[-1] - 1)]
        counts = np.bincount(np.clip(drawn, edges[0], edges[-1]) - edges[0], minlength=len(edges))
        return rejects(counts, shares)

    assert not rejected(float(mean))
    assert rejected(float(mean) * 1.15)


def test_a_large_mean() -> None:
    """Within 5.5 standard deviations, which a true law misses with probability 4e-8."""
    mean = Fraction(10**6) + Fraction(1, 7)
    assert abs(poisson(Keystream(1), mean) - mean) < 5500
    assert poisson(Keystream(1), Fraction(0)) == 0


def test_the_table_of_mean_one_is_that_of_its_law() -> None:
    whole, exact = _table()._floors(64)
    assert not any(exact)
    found = [value / 2**64 for value in whole]
    assert found == pytest.approx(stats.poisson.cdf(np.arange(_LAST), 1), abs=1e-15)


def test_what_lies_beyond_the_table() -> None:
    """P(i) is proportional to 20!/(20 + i)!; chi-square of 20,000 numbers, false alarm 1e-6."""
    weights = [Fraction(factorial(_LAST), factorial(_LAST + i)) for i in range(30)]
    total = sum(weights)
    source = Keystream(2)
    drawn = np.minimum([_beyond(source) for _ in range(20_000)], 2)
    shares = [float(weights[0] / total), float(weights[1] / total)]
    assert not rejects(np.bincount(drawn, minlength=3), [*shares, 1 - sum(shares)])


def test_a_number_beyond_the_table_is_continued() -> None:
    """All ones: 20 or more. Then one step further, and no more: 21."""
    source = Scripted(halves([0xFFFF]), words(2**64 - 1), halves([0]), halves([0xFFFF]))
    assert poisson(source, Fraction(1)) == _LAST + 1
    assert source.used_up


@pytest.mark.parametrize("mean", [Fraction(-1, 2), 1.5, 3])
def test_bad_means(mean: object) -> None:
    with pytest.raises(ParameterError, match="a Fraction of at least 0"):
        poisson(Keystream(1), mean)  # type: ignore[arg-type]


def test_coins_follow_their_kinds() -> None:
    """Chi-square of 100,000 throws of each kind, false alarm 1e-6 each; 3 % off is rejected."""
    kinds = np.repeat(np.arange(4, dtype=np.uint8), 100_000)
    coins = Coins([Fraction(1, 3), Fraction(1), Fraction(0), Fraction(7, 8)])
    yes = coins.throw(Keystream(3), kinds).reshape(4, -1).sum(axis=1)
    assert yes[1] == 100_000
    assert yes[2] == 0
    for found, share in ((yes[0], 1 / 3), (yes[3], 7 / 8)):
        assert not rejects([found, 100_000 - found], [share, 1 - share])
        assert rejects([found, 100_000 - found], [share * 0.97, 1 - share * 0.97])


def test_a_coin_on_the_edge_reads_on() -> None:
    """A third is 0x5555...: words equal to its first bits are decided by the next ones."""
    edge = 2**64 // 3
    source = Scripted(words(edge, edge), words(edge - 1), words(edge + 1))
    assert Coins([Fraction(1, 3)]).throw(source, np.array([0, 0])).tolist() == [True, False]
    assert source.used_up
    # An exact probability needs no more bits: on its edge the answer is no.
    assert not Coins([Fraction(1, 2)]).throw(Scripted(words(2**63)), np.array([0]))[0]
