"""Rules that decide which keys may be named, against enumeration.

Exact laws of neighbouring counts are enumerated with 60 digits; δ is the largest excess
Σ max(P - e^ε Q, 0) over outcomes, in both directions.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

import scumble as sc
from scumble.families.keys import publish as open_keys
from scumble.model.laws import KeyNoise, law_from_dict
from scumble.model.laws.base import normal_cdf
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.laws.key_noise import shown_probabilities
from scumble.model.privacy.accounting import analytic_delta
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects

DIGITS = 60
TINY = Decimal(10) ** -45
SETTINGS = [(Fraction(1), Fraction(1, 1000)), (Fraction(1, 3), Fraction(1, 10**5))]
SETTINGS += [(Fraction(2), Fraction(1, 10**6)), (Fraction(1, 2), Fraction(1, 20))]


@pytest.fixture(autouse=True)
def precise():
    with localcontext() as context:
        context.prec = DIGITS
        yield


def decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def excess(one: dict, other: dict, epsilon: Fraction) -> Decimal:
    """The δ between two laws at ε."""
    factor = decimal(epsilon).exp()
    return max(
        sum(max(p.get(x, Decimal(0)) - factor * q.get(x, Decimal(0)), Decimal(0)) for x in p)
        for p, q in ((one, other), (other, one))
    )


def shown(epsilon: Fraction, delta: Fraction, count: int) -> dict:
    """The law of what is shown about a key of `count` people; None if nothing is."""
    if not count:
        return {None: Decimal(1)}
    chances = list(map(decimal, shown_probabilities(epsilon, delta)))
    reach = KeyNoise(1 / epsilon, delta).reach
    found: dict = {None: Decimal(0)}
    for place, (before, after) in enumerate(pairwise(chances)):
        number = count + reach - place
        key = number if number > reach else None
        found[key] = found.get(key, Decimal(0)) + after - before
    return found


def test_noise_that_names_the_most_keys_is_private_and_no_other_names_more(subtests):
    """With the number: counts from 0 to beyond the last at which a key may be left out."""
    for epsilon, delta in SETTINGS:
        with subtests.test(epsilon=epsilon, delta=delta):
            chances = shown_probabilities(epsilon, delta)
            laws = [shown(epsilon, delta, count) for count in range(len(chances) + 3)]
            found = [excess(a, b, epsilon) for a, b in pairwise(laws)]
            assert max(found) <= decimal(delta) + TINY
            assert min(found) > decimal(delta) * (1 - Decimal(10) ** -12)  # nowhere room for more
            for law, chance in zip(laws, chances, strict=False):
                assert abs(1 - law[None] - decimal(chance)) < TINY
            names = [{1: decimal(p), None: 1 - decimal(p)} for p in chances]
            tight = [excess(a, b, epsilon) for a, b in pairwise(names)]
            assert min(tight[:-1]) > decimal(delta) * (1 - Decimal(10) ** -12)
            assert chances[0] == 0
            assert chances[-1] == 1


def test_two_keys_compose_and_the_price_is_tight():
    """κ = 2: (ε/2, δ/2) each gives (ε, δ), and (ε, δ) each does not."""
    epsilon, delta = Fraction(1), Fraction(1, 50)

    def pair(counts, rate, rare):
        laws = [shown(rate, rare, count) for count in counts]
        both = product(laws[0].items(), laws[1].items())
        return {(x, y): p * q for (x, p), (y, q) in both}

    last = len(shown_probabilities(epsilon / 2, delta / 2))
    for counts in [(0, 0), (0, 1), (1, 1), (2, 5), (last - 2, 0), (last, last)]:
        more = tuple(count + 1 for count in counts)
        found = [pair(each, epsilon / 2, delta / 2) for each in (counts, more)]
        assert excess(*found, epsilon) <= decimal(delta) + TINY
    found = [pair(each, epsilon, delta) for each in ((4, 4), (5, 5))]
    assert excess(*found, epsilon) > decimal(delta)


def laplace(scale: Fraction, threshold: int, count: int) -> dict:
    """A key of `count` people whose noisy count is shown from `threshold` on; far tails as one."""
    if not count:
        return {None: Decimal(1)}
    rate = 1 / decimal(scale)
    ratio = (-rate).exp()
    mode, far = (1 - ratio) / (1 + ratio), threshold + count + 60
    found = {v: mode * (-rate * abs(v - count)).exp() for v in range(threshold, far)}
    found["far"] = (-rate * (far - count)).exp() / (1 + ratio)
    return {**found, None: 1 - sum(found.values())}


def test_laplace_threshold_is_the_least_that_is_private(subtests):
    for epsilon, delta in SETTINGS:
        with subtests.test(epsilon=epsilon, delta=delta):
            scale = 1 / epsilon
            threshold = open_keys.laplace_threshold(scale, delta)
            laws = [laplace(scale, threshold, count) for count in range(6)]
            assert max(excess(a, b, epsilon) for a, b in pairwise(laws)) <= (decimal(delta) + TINY)
            lower = [laplace(scale, threshold - 1, count) for count in (0, 1)]
            assert excess(*lower, epsilon) > decimal(delta)


@pytest.mark.parametrize("keys", [1, 5, 20])
def test_the_threshold_of_zealous_in_earlier_notes_is_refuted(keys):
    """κ(1 - ln(2δ/κ)/ε) with noise of scale 2κ/ε shows a unique key far too often."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    scale = 2 * keys / epsilon
    wrong = keys * (1 - math.log(2 * float(delta) / keys) / float(epsilon))
    alone = laplace(scale, math.ceil(wrong), 1)
    assert keys * (1 - alone[None]) > 500 * decimal(delta)
    right = open_keys.laplace_threshold(scale, delta / keys)
    assert keys * (1 - laplace(scale, right, 1)[None]) <= decimal(delta)
    assert right <= 3 + 2 * keys * math.log(keys / (2 * float(delta)))  # as continuous noise needs


def test_weights_have_length_one():
    for keys in [*range(1, 200), 1000, 12345]:
        weight = open_keys.weight_of(keys)
        assert keys * weight**2 <= open_keys.UNIT**2 < keys * (weight + 1) ** 2


def test_rounds_spend_no_more_than_they_may(subtests):
    for keys, vectors in product([1, 3, 40], [1, 2]):
        with subtests.test(keys=keys, vectors=vectors):
            epsilon, delta = Fraction(1), Fraction(1, 10**6)
            plan = open_keys.gaussian_rounds(
                epsilon,
                delta,
                keys,
                shares=open_keys.SHARES,
                vectors=vectors,
                for_counts=Fraction(3, 10),
            )
            precisions = [open_keys.UNIT**2 / float(each.noise.parameter) for each in plan.rounds]
            precisions.append(keys / float(plan.counts.parameter))
            assert precisions[1] / precisions[0] == pytest.approx(4, rel=1e-9)
            spent = analytic_delta(
                1 / sum(precisions), sensitivity=math.sqrt(vectors), epsilon=float(epsilon)
            )
            alone = 0.0
            for each in plan.rounds:
                sigma = math.sqrt(float(each.noise.parameter))
                alone += max(
                    t * normal_cdf(-(each.threshold + 0.5 - open_keys.weight_of(t)) / sigma)
                    for t in range(1, keys + 1)
                )
            assert spent + alone <= float(delta)
            assert spent + alone > 0.9 * float(delta)  # little is wasted (counts are rounded most)


def test_the_threshold_of_sums_against_a_sum_of_probabilities():
    noise_law, keys, delta = DiscreteGaussian(Fraction(40)), 3, Fraction(1, 1000)
    weights = [math.exp(-(z**2) / 80) for z in range(-200, 201)]
    total = math.fsum(weights)

    def alone(threshold, t):
        start = threshold - open_keys.weight_of(t) + 1
        return t * math.fsum(weights[max(start, -200) + 200 :]) / total

    found = open_keys.sum_threshold(noise_law, keys, delta)
    assert max(alone(found, t) for t in (1, 2, 3)) <= float(delta)
    assert max(alone(found - 1, t) for t in (1, 2, 3)) > float(delta)


def test_draws_have_their_law():
    """False alarm: 1e-6."""
    law = KeyNoise(Fraction(3, 2), Fraction(1, 20))
    drawn = open_keys.key_noise(Keystream(5), law, 40_000)
    chances = {x: law.pmf(x) for x in range(-law.reach - 3, law.reach + 1) if law.pmf(x) > 1e-3}
    counts = [int((drawn == x).sum()) for x in chances]
    rare = 1 - sum(chances.values())
    assert len(drawn) - sum(counts) <= 100 + 10 * rare * len(drawn)
    shares = np.array(list(chances.values()))
    assert not rejects(counts, (shares / shares.sum()).tolist())


def test_the_law_against_sums():
    epsilon, delta = Fraction(2, 5), Fraction(1, 100)
    law = KeyNoise(1 / epsilon, delta)
    exact = shown_probabilities(epsilon, delta)
    chances = {law.reach - j: float(b - a) for j, (a, b) in enumerate(pairwise(exact))}
    assert sum(chances.values()) == pytest.approx(1)
    assert max(chances, key=chances.__getitem__) == 0
    mean = sum(x * p for x, p in chances.items())
    assert law.mean == pytest.approx(mean)
    assert law.variance == pytest.approx(sum((x - mean) ** 2 * p for x, p in chances.items()))
    for x in range(-len(chances), len(chances)):
        assert law.pmf(x) == pytest.approx(chances.get(x, 0.0))
        below = sum(p for y, p in chances.items() if y <= x)
        assert law.cdf(x) == pytest.approx(below, abs=1e-12)
        assert law.above(x) == pytest.approx(1 - below, abs=1e-12)
    for level in (0.5, 0.9, 0.999):
        half = law.half_width(level)
        assert sum(p for y, p in chances.items() if abs(y) <= half) >= level - 1e-12
        assert sum(p for y, p in chances.items() if abs(y) < half) < level
        assert law.cdf(law.quantile(level)) >= level > law.cdf(law.quantile(level) - 1)
    assert law_from_dict(law.to_dict()) == law


def test_too_little_epsilon_is_refused():
    with pytest.raises(sc.ParameterError, match="hardly a key could be named"):
        KeyNoise(Fraction(10**6), Fraction(1, 10**9))


def test_laplace_tail_in_the_model_agrees():
    scale, delta = Fraction(7, 2), Fraction(1, 1000)
    threshold = open_keys.laplace_threshold(scale, delta)
    law = DiscreteLaplace(scale)
    assert law.cdf(-(threshold - 1)) <= float(delta) < law.cdf(-(threshold - 2))
