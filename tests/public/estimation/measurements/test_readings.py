"""Readings: the interval of a sum of noises covers at least its level, against the exact law; and
weights are what a question means.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.public.estimation.interval_laws import noise_half_width
from scumble.public.estimation.measurements.readings import (
    LinearReading,
    NoisyAverage,
    WeightTensor,
    joined,
)

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def reading_of(law: DiscreteLaplace, weights: np.ndarray) -> LinearReading:
    fourth = law.variance * (1 + 3 * law.variance)  # of a two-sided geometric number
    return LinearReading(
        0.0,
        law.variance * float(weights @ weights),
        fourth * float((weights**4).sum()),
        float(np.abs(weights).max()),
    )


def miss(law: DiscreteLaplace, weights: np.ndarray, half: float) -> float:
    """The probability, by the exact law, that the sum is further away than `half`."""
    whole = NoiseSum.of(law, np.round(weights * 64).astype(np.int64))
    return 2 * whole.cdf(-(int(half * 64) + 1))


def test_the_half_width_covers_at_least_its_level(subtests: pytest.Subtests) -> None:
    """Exact: weights are multiples of 1/64, so that the law of the sum is one on a lattice."""
    for weights, scale in product(
        [
            [1.0],
            [1.0, 1.0],
            [1.0, 0.5, 0.25, 0.125],
            [0.25] * 16,
            [1.0] + [0.125] * 40,
            [0.5, -0.25, 0.75, 1.0, 0.125, 0.25],
        ],
        [Fraction(1, 3), Fraction(2), Fraction(40, 3)],
    ):
        with subtests.test(weights=weights, scale=scale):
            law, coefficients = DiscreteLaplace(scale), np.array(weights)
            found = reading_of(law, coefficients)
            for level in LEVELS:
                half = noise_half_width(found.variance, found.fourth, found.largest, level)
                assert miss(law, coefficients, half) <= 1 - level + 1e-9, level


def test_the_reach_is_not_much_wider_than_it_must_be():
    law, coefficients = DiscreteLaplace(Fraction(20)), np.full(64, 0.5)
    found = reading_of(law, coefficients)
    exact = NoiseSum.of(law, coefficients * 2).half_width(0.95) / 2
    assert noise_half_width(found.variance, found.fourth, found.largest, 0.95) < 1.03 * exact


def test_no_noise_reaches_nowhere():
    assert noise_half_width(0.0, 0.0, 0.0, 0.95) == 0.0


def test_an_average_covers_its_truth():
    """Fieller for a known ratio with normal errors, 4,000 draws, level 0.9. False alarms: below
    1e-6, for the coverage of a valid interval would have to fall 5 standard errors short.
    """
    rng, truth = np.random.default_rng(5), 2.5
    deviation = np.array([[30.0, 4.0], [0.0, 10.0]])
    covariance = deviation @ deviation.T
    hits = 0
    for noise in rng.normal(size=(4000, 2)) @ deviation.T:
        total = LinearReading(truth * 400 + noise[0], covariance[0, 0])
        count = LinearReading(400 + noise[1], covariance[1, 1])
        law = NoisyAverage(total, count, covariance[0, 1], 0.0, 10.0)
        low, high = law.interval(law.value, 0.9)
        hits += low <= truth <= high
    assert hits >= 3600 - 5 * np.sqrt(4000 * 0.09)


SCHEMA = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 1)),
        sc.Attribute("b", "quasi", sc.IntegerRange(0, 2)),
        sc.Attribute("c", "quasi", sc.IntegerRange(0, 3)),
    ]
)


def dense(parts) -> np.ndarray:
    """The weight of every cell, by multiplying everything out."""
    whole = np.ones((2, 3, 4))
    for part in parts:
        shape = [SCHEMA[name].size if name in part.names else 1 for name in "abc"]
        whole = whole * part.values.reshape(shape)
    return whole


def test_parts_that_share_attributes_become_one_and_mean_the_same():
    rng = np.random.default_rng(3)
    given = [
        WeightTensor(("a",), rng.random(2)),
        WeightTensor(("c",), rng.random(4)),
        WeightTensor(("a", "b"), rng.random((2, 3))),
        WeightTensor(("b",), rng.random(3)),
    ]
    weights = joined(SCHEMA, given)
    assert sorted(part.names for part in weights.parts) == [("a", "b"), ("c",)]
    np.testing.assert_allclose(dense(weights.parts), dense(given))
    assert weights.largest() == pytest.approx(dense(given).max())
    fixed = weights.fixed(SCHEMA, {"b": 2})
    expected = dense(given) * np.array([0, 0, 1])[None, :, None]
    np.testing.assert_allclose(dense(fixed.parts), expected)


def test_parts_that_would_tie_too_much_together_are_refused():
    wide = sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 99_999)) for n in "xyz"])
    one = WeightTensor(("x", "y"), np.ones((1, 1)))
    with pytest.raises(sc.QueryError, match="ties x, y, z together"):
        joined(wide, [one, WeightTensor(("y", "z"), np.ones((1, 1)))])
