"""Sparse releases: their law is that of a table in which every cell has noise, exactly; and the
closed forms that answers rest on.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from scumble.families.histogram.design import NoiseTails, filtered_empty_cell, sampled_empty_cell
from scumble.families.histogram.publish import SelectedCells
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.sparse import PrioritizedCells, draw_tickets, priority_sample
from tests.support.goodness import ALARM, rejects
from tests.support.mechanisms.sparse_trials import behind_the_meter, cell_law, kept, pmf

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(20)]


def test_tails_are_sums(subtests: pytest.Subtests) -> None:
    for scale in SCALES:
        with subtests.test(scale=scale):
            tails = NoiseTails(DiscreteLaplace(scale))
            values = np.arange(1, 3000)
            shares = np.array([pmf(float(scale), int(value)) for value in values])
            for start in (1, 2, 9):
                use = values >= start
                assert tails.chance(start) == pytest.approx(shares[use].sum(), rel=1e-9)
                assert tails.first(start) == pytest.approx((values * shares)[use].sum(), rel=1e-9)
                assert tails.second(start) == pytest.approx(
                    (values**2 * shares)[use].sum(), rel=1e-9
                )
                for tau in (1, 2.5, 30):
                    some = use & (values <= tau)
                    by_hand = (values * (tau - values) * shares)[some].sum()
                    assert tails.sampling_variance(tau, start) == pytest.approx(
                        by_hand, rel=1e-6, abs=1e-9
                    )
            for tau in (1, 5, 60):
                by_hand = 2 * (np.minimum(values / tau, 1) * shares).sum()
                assert tails.keep_chance(tau) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_no_count_stands_for_more_than_itself(scale: Fraction) -> None:
    """In the mean, from the least theta on; an empty cell stands for 0."""
    tails = NoiseTails(DiscreteLaplace(scale))
    reach = int(90 * scale) + 60

    def means(theta: int) -> list[float]:
        noise = np.arange(-reach, reach)
        shares, shift = pmf(float(scale), noise), filtered_empty_cell(tails, theta).shift
        return [
            float(shares @ np.where(count + noise >= theta, count + noise, -shift)) - count
            for count in range(4 * theta + 5)
        ]

    for theta in (tails.least_theta, tails.least_theta + 3, 4 * tails.least_theta):
        excess = means(theta)
        assert excess[0] == pytest.approx(0, abs=1e-9)
        assert max(excess) <= 1e-9


def test_variances_of_empty_cells(subtests: pytest.Subtests) -> None:
    """By summation: what a cell without rows adds to the sum of published weights."""
    for scale in SCALES:
        with subtests.test(scale=scale):
            tails, reach = NoiseTails(DiscreteLaplace(scale)), int(90 * scale) + 60
            values = [v for v in range(-reach, reach) if v]
            for theta in (2, 11):
                empty = filtered_empty_cell(tails, theta)
                parts = [(pmf(float(scale), v), v if v >= theta else -empty.shift) for v in values]
                rest = 1 - sum(chance for chance, _ in parts)
                variance = sum(chance * x * x for chance, x in parts) + rest * empty.shift**2
                assert empty.variance == pytest.approx(variance, rel=1e-6)
            for tau in (1, 6, 40):
                empty = sampled_empty_cell(tails, tau)
                variance = sum(pmf(float(scale), v) * abs(v) * max(abs(v), tau) for v in values)
                assert empty.variance == pytest.approx(variance, rel=1e-6)
                assert empty.chance == pytest.approx(
                    sum(pmf(float(scale), v) * kept("threshold", tau, v) for v in values)
                )


def outcome(found: SelectedCells) -> tuple[tuple[int, int], ...]:
    return tuple(zip(found.keys.tolist(), found.counts.tolist(), strict=True))


@pytest.mark.parametrize(("rule", "limit"), [("filter", 1), ("filter", 3), ("threshold", 4)])
def test_the_law_of_a_small_table(rule: str, limit: int) -> None:
    """Three cells, two of them empty: every outcome that is expected ten times in 4,000 releases,
    against the product of the laws of the cells; chi-square, false alarm 1e-6. With half the noise
    (a mutation) it is rejected.
    """
    counts, law, releases = [2, 0, 0], DiscreteLaplace(Fraction(1)), 4000
    source = Keystream(21)
    found: Counter = Counter()
    for _ in range(releases):
        cells = behind_the_meter(counts, source)
        made = cells.filter(law, limit) if rule == "filter" else cells.sample(law, limit)
        found[outcome(made)] += 1

    def rejected(scale: float) -> bool:
        laws = [cell_law(rule, limit, scale, count, 14).items() for count in counts]  # type: ignore[arg-type]
        chances: Counter = Counter()
        for parts in itertools.product(*laws):
            shown = tuple((key, v) for key, (v, _) in enumerate(parts) if v is not None)
            chances[shown] += math.prod(chance for _, chance in parts)
        common = [shown for shown, chance in chances.items() if chance * releases >= 10]
        shares = [chances[shown] for shown in common]
        observed = [found[shown] for shown in common]
        return rejects([*observed, releases - sum(observed)], [*shares, max(1 - sum(shares), 1e-9)])

    assert not rejected(1.0)
    assert rejected(0.5)


def dense(
    counts: list[int], scale: Fraction, size: int, theta: int, source: Keystream
) -> SelectedCells:
    """Every cell gets noise and a ticket, one by one."""
    from scumble.private.sampling.noise import discrete_laplace

    values = np.array(counts) + discrete_laplace(source, scale, len(counts))
    keys = np.arange(len(counts), dtype=np.uint64)
    cells = PrioritizedCells(keys, values, draw_tickets(source, len(counts)))
    cells = cells.only(values >= theta if theta else values != 0)
    rows, tau = priority_sample(cells, size)
    return SelectedCells(cells.keys[rows], cells.values[rows], np.empty(0), tau)


@pytest.mark.parametrize("theta", [0, 2])
def test_priority_sampling_has_the_law_of_a_dense_table(theta: int) -> None:
    """Sets of published cells, their counts and the size of tau, lazily and cell by cell: two
    samples of 2,000 releases, chi-square of a table of two rows, false alarm 1e-6. Forty cells, so
    that empty ones are found level by level.
    """
    counts, law, size = [9, 3, *[0] * 38], DiscreteLaplace(Fraction(1, 2)), 4
    lazy, slow = Keystream(31), Keystream(32)
    found: list[Counter] = [Counter(), Counter()]
    for _ in range(2000):
        cells = behind_the_meter(counts, lazy)
        made = cells.filter_and_draw(law, theta, size) if theta else cells.draw_priority(law, size)
        for which, each in enumerate((made, dense(counts, law.scale, size, theta, slow))):
            true = tuple(np.minimum(each.counts[each.keys < 2], 11).tolist())
            empty = int(np.sum(each.keys > 1))
            found[which][true, empty, int(math.log2(max(float(each.tau), 0.5)))] += 1
    common = [key for key in found[0] | found[1] if found[0][key] + found[1][key] >= 30]
    table = np.array([[each[key] for key in common] for each in found])
    table = np.column_stack([table, 2000 - table.sum(axis=1)])
    table = table[:, table.sum(axis=0) >= 30]
    assert table.shape[1] > 10
    assert stats.chi2_contingency(table, correction=False).pvalue > ALARM


def test_levels_are_gone_down_until_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beginning too high changes nothing: the number of published cells is always the size, and
    the mean number of empty ones among them the same (5.5 standard errors, 4e-8).
    """
    from scumble.families.histogram import publish as sparse

    law, counts = DiscreteLaplace(Fraction(1)), [5, *[0] * 199]

    def empties(seed: int) -> np.ndarray:
        source = Keystream(seed)
        made = [behind_the_meter(counts, source).draw_priority(law, 6) for _ in range(300)]
        assert all(len(each.keys) == 6 for each in made)
        return np.array([[np.sum(each.keys > 0), min(float(each.tau), 400)] for each in made])

    usual = empties(1)
    monkeypatch.setattr(sparse, "_find_first_level", lambda *_: 9)
    high = empties(2)
    errors = np.sqrt((usual.var(axis=0) + high.var(axis=0)) / 300)
    assert (np.abs(usual.mean(axis=0) - high.mean(axis=0)) < 5.5 * errors).all()
