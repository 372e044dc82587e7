"""The distinguishing test has the power that it states, and does not cry wolf."""

import math
from fractions import Fraction

import numpy as np
import pytest

from scumble.audit.distinguish import distinguish
from scumble.model.laws.probabilities import clopper_pearson_lower, clopper_pearson_upper
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream


def runs(epsilon: float, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts of 3 and of 4 with noise for that ε."""
    source, scale = Keystream(seed), 1 / Fraction(str(epsilon))
    one, other = (discrete_laplace(source, scale, number).astype(float) for _ in range(2))
    return (one + 3)[:, None], (other + 4)[:, None]


def test_limits_are_those_of_clopper_and_pearson():
    """By their definition: the binomial tail at the limit is what is left of the confidence."""
    low, high = clopper_pearson_lower(3, 10, 0.95), clopper_pearson_upper(3, 10, 0.95)
    tail = sum(math.comb(10, k) * low**k * (1 - low) ** (10 - k) for k in range(3, 11))
    head = sum(math.comb(10, k) * high**k * (1 - high) ** (10 - k) for k in range(4))
    assert (tail, head) == (pytest.approx(0.05), pytest.approx(0.05))
    assert clopper_pearson_lower(0, 10, 0.95) == 0
    assert clopper_pearson_upper(10, 10, 0.95) == 1


@pytest.mark.parametrize("claimed", [0.25, 1.0, 3.0])
def test_a_tenth_too_much_is_found_with_a_million_runs(claimed):
    """For ε from 1/4 on. At ε = 0.1 the difference is smaller than what chance hides in so many
    runs: nothing that counts events could find it at this confidence.
    """
    for seed in range(4):
        found = distinguish(*runs(1.1 * claimed, 500_000, seed))
        assert found.epsilon > claimed
        assert found.epsilon <= 1.1 * claimed * 1.0001


def test_an_honest_mechanism_is_not_refuted():
    """At confidence 0.9999 a false alarm in each of 30 audits has probability 1e-4: 0.3 % in all,
    and the seeds are fixed.
    """
    for seed in range(30):
        assert distinguish(*runs(1.0, 20_000, seed)).epsilon <= 1.0


def test_no_difference_gives_no_epsilon():
    source = Keystream(1)
    same = [discrete_laplace(source, Fraction(2), 50_000).astype(float)[:, None] for _ in range(2)]
    assert distinguish(*same).epsilon == 0.0


def test_a_leak_by_the_values_that_can_occur_is_found():
    """One table gives even numbers, the other odd ones: means are equal, values are not."""
    rng = np.random.default_rng(1)
    even = 2.0 * rng.integers(-500, 501, 20_000)
    odd = even[::-1] + rng.choice([-1, 1], 20_000)
    assert distinguish(even[:, None], odd[:, None]).epsilon > 5


def test_many_numbers_are_combined():
    """Ten counts that all change by one, noise for ε = 0.3 each: 3 together."""
    source = Keystream(8)
    shape = (100_000, 10)
    one, other = (
        discrete_laplace(source, Fraction(10, 3), 10**6).reshape(shape).astype(float)
        for _ in range(2)
    )
    found = distinguish(one, other + 1)
    assert 1.5 < found.epsilon <= 3


def test_delta_is_allowed_for():
    """A value of probability 0.01 that only one table can give is within δ = 0.01."""
    rng = np.random.default_rng(4)
    one, other = (rng.integers(0, 2, 100_000).astype(float) for _ in range(2))
    one[rng.random(100_000) < 0.01] = 7
    assert distinguish(one[:, None], other[:, None]).epsilon > 3
    assert distinguish(one[:, None], other[:, None], delta=0.011).epsilon < 0.1
