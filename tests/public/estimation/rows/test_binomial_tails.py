"""Binomial tails of up to 10^30 trials against mpmath, and the intervals that are made of them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from mpmath import binomial, mp, mpf
from scipy.stats import binom, poisson

import scumble as sc
from scumble.public.estimation.rows.count_laws import (
    RandomizedCount,
    at_most,
    binomial_window,
    poisson_window,
    sum_at_least,
    sum_at_most,
)

TRIALS = [10, 2**20, 2**31 - 1, 2**31, 2**31 + 1, 10**10, 10**12, 10**15, 10**20, 10**30]
Z = 1.959964


def _tails(numbers: list[int], trials: int, chance: float) -> list[tuple[float, float]]:
    """P(<= number) and P(> number) of each of these ascending numbers, added up term by term in
    sixty digits; the terms between two numbers are added up once for all of them.
    """
    with mp.workdps(60):
        p = mpf(chance)
        odds = p / (1 - p)
        low, high = numbers[0], numbers[-1]
        first = binomial(trials, low) * p**low * (1 - p) ** (trials - low)
        below, term, place = mpf(0), first, low
        while place >= 0 and term > below / 10**20:
            below += term
            term *= mpf(place) / (trials - place + 1) / odds
            place -= 1
        between = {low: mpf(0)}  # the probability of more than `low`, and at most this number
        term, place = first, low
        while place < high:
            term *= mpf(trials - place) / (place + 1) * odds
            place += 1
            between[place] = between[place - 1] + term
        above = mpf(0)
        term *= mpf(trials - place) / (place + 1) * odds
        while place < trials and term > above / 10**20:
            place += 1
            above += term
            term *= mpf(trials - place) / (place + 1) * odds
        whole = between[high] + above
        return [(float(below + between[n]), float(whole - between[n])) for n in numbers]


def test_tails_and_windows_are_those_of_mpmath(subtests: pytest.Subtests) -> None:
    """With nothing added, tails of windows are those of mpmath; also for chances near one."""
    nothing = (0, np.ones(1))
    for trials, mean in product(TRIALS, (0.001, 0.5, 3, 40, 1000, 40_000)):
        if mean >= trials:
            continue
        steps = (-6, -3, -1, 0, 1, 3, 6)
        asked = {round(mean + step * math.sqrt(mean)) for step in steps}
        numbers = sorted(number for number in asked if 0 <= number < trials)
        with subtests.test(trials=trials, mean=mean):
            window = binomial_window(trials, mean / trials)
            for number, tails in zip(numbers, _tails(numbers, trials, mean / trials), strict=True):
                found = at_most(number, trials, mean / trials)
                assert float(found) == pytest.approx(tails[0], rel=1e-9, abs=0)
                lower, upper = (
                    sum_at_most(nothing, window, number),
                    sum_at_least(window, nothing, number + 1),
                )
                assert (lower[0], upper[0]) == pytest.approx(tails, rel=1e-9, abs=1e-29)


@pytest.mark.parametrize("probability", [0.02, 0.5, 0.999])
def test_tails_of_few_trials(probability: float) -> None:
    """Also beyond both ends, where nothing or everything is."""
    numbers = np.arange(-2, 10)
    lower = binom.cdf(numbers, 7, probability)
    assert at_most(numbers, 7, probability) == pytest.approx(lower, rel=1e-12)


DOMAINS = [2**31, 2**31 + 1000, 2**33, 10**10, 10**11, 10**15, 10**30]


@cache
def _limits(domain: int, false: float) -> tuple[np.ndarray, np.ndarray]:
    """What may be shown if up to 300 tuples are true, and the 95 % limits of each."""
    shown = np.arange(int(false - 8 * math.sqrt(false)), int(false + 150 + 8 * math.sqrt(false)))
    limits = []
    for number in shown:
        law = RandomizedCount(domain, int(number), 0.5, false / domain, 1000, false)
        limits.append(law.interval(law.value, 0.95))
    return shown, np.array(limits)


def test_coverage_in_large_domains(subtests: pytest.Subtests) -> None:
    """Exact but for the Poisson law of the false tuples, which is off by less than 4e-8."""
    false = 150.0
    for count, domain in product([0, 20, 150, 300], DOMAINS):
        with subtests.test(count=count, domain=domain):
            shown, limits = _limits(domain, false)
            true = binom.pmf(np.arange(count + 1), count, 0.5)
            false_shown = shown[:, None] - np.arange(count + 1)
            chances = poisson.pmf(false_shown, false) @ true
            assert chances.sum() == pytest.approx(1, abs=1e-9)
            covered = chances @ ((limits[:, 0] <= count) & (count <= limits[:, 1]))
            assert 0.95 <= covered <= 0.98


def test_width_in_large_domains(subtests: pytest.Subtests) -> None:
    """1.96 standard errors, whatever the size of the domain, for counts above five of them."""
    for domain, false in product(DOMAINS, [30.0, 2000.0, 38_000.0, 60_000.0]):
        for count in (math.ceil(16 * math.sqrt(false)), 5000):
            shown = round(false + count / 2)
            with subtests.test(domain=domain, false=false, count=count):
                law = RandomizedCount(domain, shown, 0.5, false / domain, 10**6, false)
                assert law.value > 5 * law.stderr
                low, high = law.interval(law.value, 0.95)
                assert 0.99 <= (high - low) / (2 * Z * law.stderr) <= 1.15


@pytest.mark.parametrize(("number", "size"), [(2, 46_341), (3, 2**11), (4, 2**10), (9, 2**11)])
def test_answers_from_a_large_domain(number: int, size: int) -> None:
    """Domains of 46,341² (just above 2^31) to 2^99 tuples.

    On 2^33 and 2^40 some of these intervals had no width, or reached to the last row.
    """
    attributes = [
        sc.Attribute(f"a{place}", "sensitive", sc.IntegerRange(0, size - 1))
        for place in range(number)
    ]
    schema, rng = sc.Schema(attributes), np.random.default_rng(3)
    columns = {name: rng.integers(0, size, 4000) for name in schema.names}
    columns["a0"][rng.random(4000) < 0.4] = 0
    method = sc.AlphaBeta(k=10, gamma=0.2, duplicates="collapse")
    release = sc.publish(pa.table(columns), schema, method)
    for limit in (1, size // 20, size // 8, size // 4):
        answer = release.answer(f"SELECT COUNT(*) FROM t WHERE a0 < {limit}")
        low, high = answer.interval(0.95)
        assert low < answer.value < high < 4000
        assert 0.95 <= (high - low) / (2 * Z * answer.stderr) <= 1.1
        # six standard errors: a false alarm once in 10^8 runs
        assert abs(answer.value - (columns["a0"] < limit).sum()) < 6 * answer.stderr


def test_an_interval_ends_at_the_number_of_rows() -> None:
    """Where the whole table counts, half of the interval lies beyond what is possible."""
    law = RandomizedCount(10**15, 600, 0.5, 100 / 10**15, 1000, 100.0)
    assert law.value == 1000
    low, high = law.interval(law.value, 0.95)
    assert high == 1000
    assert 0.45 <= (high - low) / (2 * Z * law.stderr) <= 0.55


@pytest.mark.parametrize(
    ("one", "other"), [("1/3", "1/20"), ("9/10", "1/2"), ("1", "1/50"), ("0", "1")]
)
def test_tails_of_a_sum_by_enumeration(one: str, other: str) -> None:
    """Every tail of the sum of two binomial numbers, and beyond both ends, in fractions."""
    first, second = _law(9, Fraction(one)), _law(14, Fraction(other))
    windows = binomial_window(9, float(Fraction(one))), binomial_window(14, float(Fraction(other)))
    for number in range(-3, 28):
        pairs = [(i + j, p * q) for i, p in enumerate(first) for j, q in enumerate(second)]
        above, below = [], []
        for limit in (number, number - 1):
            above.append(float(sum(chance for total, chance in pairs if total >= limit)))
            below.append(float(sum(chance for total, chance in pairs if total <= limit)))
        assert sum_at_least(*windows, number) == pytest.approx(above, rel=1e-12, abs=1e-30)
        assert sum_at_most(*windows, number) == pytest.approx(below, rel=1e-12, abs=1e-30)


def _law(trials: int, chance: Fraction) -> list[Fraction]:
    return [
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)
    ]


@pytest.mark.parametrize("mean", [0.0, 0.01, 7.5, 900.0, 39_000.0])
def test_poisson_window(mean: float) -> None:
    first, chances = poisson_window(mean)
    numbers = np.arange(first, first + len(chances))
    assert chances == pytest.approx(poisson.pmf(numbers, mean), rel=1e-9, abs=1e-30)
