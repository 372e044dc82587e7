"""Sorted counts of a histogram: the fit, and limits for all ranks at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.histogram.read.cells import (
    common_reach,
    fit_counts,
)
from scumble.model.laws.distributions import DiscreteLaplace

SCHEMA = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 199))])


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("number", [1, 7, 10_000])
def test_the_common_reach_is_the_least(number, level):
    noise = DiscreteLaplace(Fraction(5, 2))
    far = common_reach(noise, number, level)

    def none_beyond(t: int) -> float:
        return (noise.cdf(t) - noise.cdf(-t - 1)) ** number

    assert none_beyond(far) >= level - 1e-12
    assert far == 0 or none_beyond(far - 1) < level


def test_limits_hold_for_all_ranks_at_once():
    """200 tables at 80 %: fewer than 130 has a probability of 2e-6."""
    truth = np.concatenate([np.zeros(50), np.arange(30), [100, 400]]).astype(np.int64)
    noise, rng, held = DiscreteLaplace(Fraction(2)), np.random.default_rng(5), 0
    a, falling = np.exp(-0.5), np.sort(truth)[::-1]
    far = common_reach(noise, len(truth), 0.8)
    for _ in range(200):
        errors = rng.geometric(1 - a, len(truth)) - rng.geometric(1 - a, len(truth))
        noisy = np.sort(truth + errors)[::-1]
        held += bool((np.abs(noisy - falling) <= far).all())
    assert held >= 130


@pytest.mark.parametrize(
    ("truth", "share"),
    [(np.repeat([0, 3, 10, 60], [120, 50, 25, 5]), 0.8), (np.repeat([0, 30], [900, 100]), 0.3)],
    ids=["steps", "mostly empty"],
)
def test_the_fit_is_nearer_than_sorting(truth, share):
    """The squared error, over ten draws with fixed seeds."""
    noise, rng = DiscreteLaplace(Fraction(4)), np.random.default_rng(9)
    a, falling = np.exp(-0.25), np.sort(truth)[::-1]
    plain, fitted = 0.0, 0.0
    for _ in range(10):
        errors = rng.geometric(1 - a, len(truth)) - rng.geometric(1 - a, len(truth))
        noisy = np.sort(truth + errors)[::-1]
        plain += np.square(np.maximum(noisy, 0) - falling).sum()
        fitted += np.square(fit_counts(noisy, noise) - falling).sum()
    assert fitted < share * plain


def test_without_noise_the_fit_is_the_counts():
    sharp = DiscreteLaplace(Fraction(1, 20))
    counts = np.array([9, 7, 7, 2, 0])
    assert fit_counts(counts, sharp).tolist() == counts.tolist()
    assert fit_counts(np.empty(0, np.int64), sharp).tolist() == []
    many = np.arange(20_000)[::-1] * 3
    assert fit_counts(many, sharp).tolist() == many.tolist()


def test_a_release_tells_its_sorted_counts(tmp_path):
    table = pa.table({"a": np.repeat(np.arange(20), 30)})
    mechanism = sc.Histogram(["a"], epsilon=2, neighbours="add_remove")
    release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    found = release.histogram.sorted_counts().to_pydict()
    assert found["rank"] == list(range(1, 201))
    truth = [30] * 20 + [0] * 180
    assert all(
        low <= true <= high
        for low, true, high in zip(found["low"], truth, found["high"], strict=True)
    )
    assert sorted(found["count"], reverse=True) == found["count"]
    assert abs(sum(found["count"]) - 600) < 200
    with pytest.raises(sc.ParameterError):
        release.histogram.sorted_counts(level=2)
    other = sc.publish(
        table,
        SCHEMA,
        sc.Hierarchy(["a"], epsilon=2, neighbours="add_remove"),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(sc.ParameterError, match="by histogram has"):
        other.histogram.sorted_counts()
    sampled = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(sample=0.5, seed=1))
    with pytest.raises(sc.ReleaseError, match="a sample of the people"):
        sampled.histogram.sorted_counts()
