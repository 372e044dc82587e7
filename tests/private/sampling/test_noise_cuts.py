"""Cuts are exact: every prefix that decides lies wholly inside its outcome, ties read on."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scumble.private.sampling.bits import Cuts, bernoulli
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects
from tests.support.scripted import Scripted, halves, words

fractions = some.fractions(0, 1, max_denominator=1 << 70).filter(lambda cut: cut < 1)


def outcome_of(low: Fraction, high: Fraction, cuts: list[Fraction]) -> int | None:
    """The outcome of every number in [low, high), if they share one."""
    if any(low < cut < high for cut in cuts):
        return None
    return sum(cut <= low for cut in cuts)


@settings(max_examples=25, deadline=None)
@given(some.lists(fractions, min_size=1, max_size=6).map(sorted))
def test_the_table_decides_exactly_the_prefixes_without_a_cut_inside(cuts: list[Fraction]) -> None:
    table = Cuts.rational(cuts).table
    near = {min(max(floor(cut * 65536) + step, 0), 65535) for cut in cuts for step in (-1, 0, 1)}
    for prefix in near | {0, 65535, 12345}:
        outcome = outcome_of(Fraction(prefix, 65536), Fraction(prefix + 1, 65536), cuts)
        assert table[prefix] == (len(cuts) + 1 if outcome is None else outcome)


@settings(max_examples=50, deadline=None)
@given(some.lists(fractions, min_size=1, max_size=4).map(sorted), some.integers(-1, 1))
def test_64_bits_decide_exactly_unless_they_tie(cuts: list[Fraction], step: int) -> None:
    for cut in cuts:
        word = min(max(floor(cut * 2**64) + step, 0), 2**64 - 1)
        outcome = outcome_of(Fraction(word, 2**64), Fraction(word + 1, 2**64), cuts)
        if outcome is not None:
            # The first 16 bits are given as the prefix, the other 48 as the top of a word.
            source = Scripted(words((word << 16) % 2**64))
            assert Cuts.rational(cuts).decide(source, halves([word >> 48])) == [outcome]
            assert source.used_up


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_tie_reads_64_more_bits_and_if_need_be_again(extra: int) -> None:
    cut = Fraction(1, 3)
    word, more, last = (floor(cut * 2**bits) % 2**64 for bits in (64, 128, 192))
    prefix, rest = halves([word >> 48]), words((word << 16) % 2**64)
    cuts = Cuts.rational([cut])
    if extra:
        assert cuts.decide(Scripted(rest, words(more + extra)), prefix) == [int(extra > 0)]
    else:
        for step in (-1, 1):
            source = Scripted(rest, words(more), words(last + step))
            assert cuts.decide(source, prefix) == [int(step > 0)]
            assert source.used_up


def test_all_prefixes_of_dyadic_cuts_have_exactly_their_share() -> None:
    cuts = Cuts.rational([Fraction(1, 4), Fraction(1, 4), Fraction(5, 8)])
    drawn = cuts.draw(Scripted(halves(range(65536))), 65536)
    assert np.bincount(drawn, minlength=4).tolist() == [16384, 0, 24576, 24576]


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1), Fraction(3, 8)])
def test_bernoulli_over_all_prefixes(probability: Fraction) -> None:
    source = Scripted(halves(range(65536)))
    assert int(bernoulli(source, probability, 65536).sum()) == probability * 65536


@pytest.mark.parametrize(
    "probability", [Fraction(2, 3), Fraction(1, 10**40), 1 - Fraction(1, 10**40)]
)
def test_bernoulli_ties(probability: Fraction) -> None:
    word, more, last = (floor(probability * 2**bits) % 2**64 for bits in (64, 128, 192))
    head = [halves([word >> 48]), words((word << 16) % 2**64)]
    assert bernoulli(Scripted(*head, words(more), words(last - 1)), probability, 1)[0]
    assert not bernoulli(Scripted(*head, words(more), words(last + 1)), probability, 1)[0]


def test_bernoulli_frequency() -> None:
    """False alarm 1e-6; sees a probability that is 1 % off."""
    yes = int(bernoulli(Keystream(11), Fraction(1, 3), 10**6).sum())
    assert not rejects([yes, 10**6 - yes], [1 / 3, 2 / 3])
    assert rejects([yes, 10**6 - yes], [1.01 / 3, 1 - 1.01 / 3])
