"""Lazy zeros: the cells that pass, their noise, and their priorities, against the laws of a table
in which every cell has its noise.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray

from scumble.private.sampling.noise import geometric
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.sparse import (
    EmptyCellRule,
    FilterRule,
    PrioritizedCells,
    SampleRule,
    draw_tickets,
    high_priority_cells,
    next_priority_cells,
    passing_cells,
    priority_sample,
)
from tests.support.goodness import rejects

RULES = [
    FilterRule(Fraction(2), 3),
    FilterRule(Fraction(1, 2), 1),
    FilterRule(Fraction(7, 3), 2, both=True),
    SampleRule(Fraction(1), 4),
    SampleRule(Fraction(10), 3),
    SampleRule(Fraction(1, 3), 1),
]


def kept(rule: EmptyCellRule, value: int) -> Fraction:
    """The probability that the rule keeps a noisy count, as it is defined."""
    if isinstance(rule, SampleRule):
        return min(Fraction(abs(value), rule.tau), Fraction(1))
    assert isinstance(rule, FilterRule)
    return Fraction(value >= rule.theta or (rule.both and -value >= rule.theta))


def noise(rule: EmptyCellRule, value: int) -> float:
    assert isinstance(rule, FilterRule | SampleRule)
    a = exp(-1 / rule.scale)
    return (1 - a) / (1 + a) * a ** abs(value)


def test_the_chance_is_the_sum_over_all_noises(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        with subtests.test(rule=rule):
            low, high = rule.chance(200)
            assert 0 <= high - low < 1 << 20
            found = sum(noise(rule, v) * float(kept(rule, v)) for v in range(-800, 801))
            assert low / 2**200 == pytest.approx(found, rel=1e-12)


def test_the_lots_of_threshold_sampling_have_the_law_of_the_rule() -> None:
    """In fractions, for any ratio a: P(lot) P(rest) summed over the lots is what
    min(|v|, tau) a^|v| comes to when it adds up to 1.
    """
    for a, tau in product((Fraction(1, 2), Fraction(4, 5)), (1, 3, 6)):
        total = a * (1 - a**tau) / (1 - a) ** 2  # Σ min(n, tau) a^n
        for n in range(1, 12):
            lots = range(1, min(n, tau) + 1)
            cut_off = [(1 - a) * a ** (lot - 1) / (1 - a**tau) for lot in lots]
            rest = [(1 - a) * a ** (n - lot) for lot in lots]
            found = sum(p * q for p, q in zip(cut_off, rest, strict=True))
            assert found == min(n, tau) * a**n / total


def test_noises_that_pass_have_the_conditional_law(subtests: pytest.Subtests) -> None:
    """Chi-square of 20,000 noises, false alarm 1e-6."""
    for rule in RULES:
        with subtests.test(rule=rule):
            values = rule.draw(Keystream(4), 20_000)
            chances = {v: noise(rule, v) * float(kept(rule, v)) for v in range(-300, 301)}
            total = sum(chances.values())
            common = [v for v, chance in chances.items() if chance / total * 20_000 >= 10]
            counts = Counter(values.tolist())
            assert all(kept(rule, v) for v in counts)
            shares = [chances[v] / total for v in common]
            other = 20_000 - sum(counts[v] for v in common)
            if 1 - sum(shares) > 1e-3:
                assert not rejects(
                    [*(counts[v] for v in common), other], [*shares, 1 - sum(shares)]
                )
            else:
                assert not rejects([counts[v] for v in common], [s / sum(shares) for s in shares])


def test_geometric_numbers_follow_their_law() -> None:
    """Chi-square of 30,000 numbers, false alarm 1e-6; a scale 5 % off is rejected."""
    found = np.minimum(geometric(Keystream(5), Fraction(5, 2), 30_000), 8)
    counts = np.bincount(found, minlength=9)

    def shares(scale: float) -> list[float]:
        a = exp(-1 / scale)
        return [*((1 - a) * a**k for k in range(8)), a**8]

    assert not rejects(counts, shares(2.5))
    assert rejects(counts, shares(2.5 * 1.05))


@pytest.mark.parametrize(
    "rule", [FilterRule(Fraction(4, 5), 1), FilterRule(Fraction(4), 1, both=True)]
)
def test_every_cell_passes_by_itself(rule: FilterRule) -> None:
    """All eight sets of three cells, chi-square of 3,000 draws, false alarm 1e-6; for a probability
    below a quarter (thrown) and above it (gone through one by one).
    """
    source = Keystream(6)
    found = Counter(tuple(passing_cells(source, [3], rule).tolist()) for _ in range(3000))
    p = rule.chance(64)[0] / 2**64
    sets = [tuple(np.flatnonzero(bits).tolist()) for bits in product((0, 1), repeat=3)]
    shares = [p ** len(some) * (1 - p) ** (3 - len(some)) for some in sets]
    assert not rejects([found[some] for some in sets], shares)


def test_domains_of_several_words() -> None:
    """10^30 cells in two words: every cell is there once and in order, all of them equally likely
    (chi-square over eight parts of the second word, false alarm 1e-6), their number binomial
    (5.5 standard deviations, false alarm 4e-8).
    """
    rule = FilterRule(Fraction(1), 62)
    mean = 10**30 * rule.chance(200)[0] / 2**200
    found = passing_cells(Keystream(7), [10**18, 10**12], rule)
    assert abs(len(found) - mean) < 5.5 * mean**0.5
    listed = [tuple(row) for row in found.tolist()]
    assert listed == sorted(set(listed))
    parts = (found[:, 1] // np.uint64(10**12 // 8)).astype(int)
    assert not rejects(np.bincount(parts, minlength=8), [1 / 8] * 8)


def test_hardly_possible_cells() -> None:
    """e^-200 per cell: no cell, and no precision that is not reached."""
    assert len(passing_cells(Keystream(1), [10**18], FilterRule(Fraction(1), 200))) == 0


def priority_law(bits: int, level: int, scale: Fraction) -> dict[tuple[int, int], float]:
    """P(v, ticket) of an empty cell whose priority is 2^level at least, by definition."""
    a = exp(-1 / scale)
    return {
        (v, ticket): (1 - a) / (1 + a) * a ** abs(v) / 2**bits
        for v in range(-60, 61)
        for ticket in range(2**bits)
        if abs(v) * 2**bits >= (ticket + 1) * 2**level
    }


@pytest.mark.parametrize("level", [2, 1, 0])
def test_empty_cells_of_high_priority(level: int) -> None:
    """Noise and ticket together, with tickets of three bits; chi-square of the cells of a domain of
    40,000, false alarm 1e-6. Then one level further down.
    """
    scale, cells = Fraction(1), 40_000
    for found, law in (
        (
            high_priority_cells(Keystream(8), [cells], scale, level, 3),
            priority_law(3, level, scale),
        ),
        (next_priority_cells(Keystream(9), [cells], scale, level, 3), _ring(3, level, scale)),
    ):
        counts = Counter(zip(found.values.tolist(), found.tickets.tolist(), strict=True))
        assert set(counts) <= set(law)
        common = [pair for pair, chance in law.items() if chance * cells >= 10]
        rest = sum(counts.values()) - sum(counts[pair] for pair in common)
        none = cells - len(found)
        chances = [law[pair] for pair in common]
        left = sum(law.values()) - sum(chances)
        observed = [*(counts[pair] for pair in common), none + rest]
        assert not rejects(observed, [*chances, 1 - sum(law.values()) + left])


def _ring(bits: int, level: int, scale: Fraction) -> dict[tuple[int, int], float]:
    above = priority_law(bits, level + 1, scale)
    share = 1 - sum(above.values())
    law = priority_law(bits, level, scale)
    return {pair: chance / share for pair, chance in law.items() if pair not in above}


def test_long_tickets() -> None:
    """Beyond 64 bits: those that pass do, and their first bits are uniform (chi-square, 1e-6)."""
    found = high_priority_cells(Keystream(3), [10**18, 10**12], Fraction(1), 87, 128)
    assert len(found) > 1000
    assert found.passing(87, 128).all()
    assert 0.4 < found.passing(88, 128).mean() < 0.6
    small = found.tickets[np.abs(found.values) == 1]
    lots = np.array([int(ticket) >> (128 - 87 - 3) for ticket in small])
    assert not rejects(np.bincount(lots, minlength=8), [1 / 8] * 8)


def _lottery(values: list[int], drawn_: list[int]) -> PrioritizedCells:
    keys: NDArray[np.uint64] = np.arange(len(values), dtype=np.uint64)
    return PrioritizedCells(keys, np.array(values), np.array(drawn_, np.uint64))


def test_the_highest_priorities_and_the_next() -> None:
    """6/2, -8/4 and 1/1 with tickets from 0 on; a tie goes to the first cell."""
    cells = _lottery([1, 6, -8, 2], [0, 1, 3, 1])
    rows, threshold = priority_sample(cells, 2, 3)
    assert rows.tolist() == [1, 2]
    assert threshold == 8
    rows, threshold = priority_sample(cells, 3, 3)
    assert rows.tolist() == [0, 1, 2]
    assert threshold == 8
    rows, threshold = priority_sample(cells, 4)
    assert rows.tolist() == [0, 1, 2, 3]
    assert threshold == 0


def test_priorities_that_floating_point_cannot_tell_apart() -> None:
    """2^62 + 1 against 2^62, with the same ticket."""
    cells = _lottery([2**62, 2**62 + 1, 2**62 - 1, 5], [9, 9, 9, 9])
    rows, threshold = priority_sample(cells, 1)
    assert rows.tolist() == [1]
    assert threshold == Fraction(2**62, 10) * 2**64


def test_priority_sampling_is_unbiased() -> None:
    """The mean of the weights over 4,000 draws is within 5.5 standard errors (4e-8) of the counts,
    for each of five cells.
    """
    values = np.array([5, -2, 1, 30, 9])
    source = Keystream(10)
    weights = np.zeros((4000, 5))
    for trial in weights:
        rows, threshold = priority_sample(
            PrioritizedCells(np.arange(5, dtype=np.uint64), values, draw_tickets(source, 5)), 3
        )
        trial[rows] = np.sign(values[rows]) * np.maximum(np.abs(values[rows]), float(threshold))
    errors = weights.std(axis=0) / 4000**0.5
    assert (np.abs(weights.mean(axis=0) - values) <= 5.5 * errors + 1e-9).all()
