"""Normal noise: the exact (ε, δ) of μ, there and back, and analysts who adapt to what they see."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from scumble.model.errors import ParameterError, PromiseError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, RoundedNormal
from scumble.model.privacy.accounting import (
    BudgetAccount,
    PrivacyLoss,
    PrivacyUnit,
    cost_of_sums,
    epsilon_for,
    normal_delta,
    normal_epsilon_for,
    normal_rho_for,
    normal_tail_bound,
    rho_for,
)

MUS = [0.01, 0.18197, 1.5, 8.0]


def mu_for(epsilon: float, delta: float) -> float:
    return math.sqrt(2 * normal_rho_for(epsilon, delta))


def test_figures_of_the_literature() -> None:
    """ε = 0.5, 1, 2 at δ = 10⁻⁹; zCDP allows a tenth less."""
    assert mu_for(1, 1e-9) == pytest.approx(0.18197, abs=5e-6)
    assert mu_for(0.5, 1e-9) == pytest.approx(0.093686, abs=5e-7)
    assert mu_for(2, 1e-9) == pytest.approx(0.351550, abs=5e-7)
    assert float(normal_rho_for(1, 1e-9)) == pytest.approx(0.016557, abs=5e-7)
    assert normal_rho_for(1, 1e-9) / rho_for(1, 1e-9) == pytest.approx(1.106, abs=5e-4)


def test_delta_is_the_hockey_stick_divergence(subtests: pytest.Subtests) -> None:
    """By numerical integration of max(0, p - e^ε q), p and q normal densities μ apart."""
    for mu in MUS:
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            with subtests.test(mu=mu, epsilon=epsilon):
                grid = np.linspace(-12, 12 + mu, 400_001)
                gap = stats.norm.pdf(grid - mu) - math.exp(epsilon) * stats.norm.pdf(grid)
                brute = np.trapezoid(np.maximum(gap, 0), grid)
                stated = normal_delta(mu**2 / 2, epsilon)
                assert stated >= brute - 1e-10
                assert stated == pytest.approx(brute, rel=1e-6, abs=1e-9)


def test_there_and_back(subtests: pytest.Subtests) -> None:
    for epsilon in (0.01, 0.5, 1, 7, 50):
        for delta in (1e-3, 1e-9, 1e-30):
            with subtests.test(epsilon=epsilon, delta=delta):
                rho = normal_rho_for(epsilon, delta)
                assert normal_delta(rho, epsilon) <= delta < normal_delta(rho * 1.0001, epsilon)
                assert normal_epsilon_for(rho, delta) == pytest.approx(epsilon, rel=1e-6)
                assert normal_epsilon_for(rho, delta) <= epsilon_for(rho, delta)


def test_delta_is_not_too_small_where_floats_lose_their_digits() -> None:
    """Φ(-ε/μ - μ/2) may be a float with few digits; its logarithm gives the true δ a lower end."""
    for epsilon, delta in ((100, 1e-280), (90, 1e-280), (50, 1e-300), (55, 1e-300)):
        rho = normal_rho_for(epsilon, delta)
        mu = math.sqrt(2 * rho)
        near, far = (
            stats.norm.logcdf(mu / 2 - epsilon / mu),
            stats.norm.logcdf(-mu / 2 - epsilon / mu),
        )
        true = math.exp(near) * -math.expm1(epsilon + far - near)
        assert true <= delta * (1 + 1e-9)


def test_a_surprise_is_as_rare_as_it_says() -> None:
    """The loss is normal with mean ρ and variance 2ρ; false alarm 1e-6 by five standard errors."""
    rng, runs = np.random.default_rng(4), 400_000
    for mu in (0.5, 2.0):
        loss = mu * rng.normal(size=runs) + mu**2 / 2
        for delta in (0.2, 0.01):
            share = (loss > normal_tail_bound(mu**2 / 2, delta)).mean()
            assert share == pytest.approx(delta, abs=5 * math.sqrt(delta / runs))


def test_costs_of_rounded_normal_noise_alone_are_normal() -> None:
    unit = PrivacyUnit("replace", 3)
    laws = [RoundedNormal(Fraction(7)), RoundedNormal(Fraction(5, 2))]
    cost = cost_of_sums(laws, [(1, 1), (2, 4)], unit, nonnegative_gram=True)
    assert cost == PrivacyLoss(rho=9 * (Fraction(1, 7) + Fraction(8, 5)), normal=True)
    for other in (DiscreteGaussian(Fraction(7)), DiscreteLaplace(Fraction(7))):
        mixed = cost_of_sums([laws[0], other], [(1, 1)] * 2, unit, nonnegative_gram=True)
        assert mixed.rho
        assert not mixed.normal


def test_a_promise_of_normal_noise_pays_for_nothing_else() -> None:
    account = BudgetAccount(PrivacyLoss(rho=Fraction(1), normal=True))
    account.charge("sums", PrivacyLoss(rho=Fraction(1, 2), normal=True))
    with pytest.raises(PromiseError, match="for normal noise only"):
        account.charge("sums", PrivacyLoss(rho=Fraction(1, 4)))
    with pytest.raises(PromiseError, match="for normal noise only"):
        account.charge("sums", PrivacyLoss(Fraction(1, 4)))
    assert account.left == Fraction(1, 2)
    with pytest.raises(ParameterError, match="normal noise"):
        PrivacyLoss(Fraction(1), normal=True)


LEVELS = (0.5, 1.0, 2.0, 3.0)


def hockey_sticks(losses: np.ndarray) -> list[float]:
    """Estimates of δ at each ε from losses under the first table."""
    return [float(np.maximum(1 - np.exp(level - losses), 0).mean()) for level in LEVELS]


def play(total: float, runs: int, *, stops_on_data: bool) -> np.ndarray:
    """Losses of runs against an analyst who chooses each shift by the sign of the loss so far:
    bold where it is negative, careful where not. A broken filter goes on where the loss is low.
    """
    rng, loss, used = np.random.default_rng(5), np.zeros(runs), np.zeros(runs)
    limit = np.full(runs, total)
    for step in range(12):
        bold = np.where(loss < 0, 0.5, 0.08) * total
        square = np.minimum(bold, limit - used) if step < 11 else limit - used
        loss += np.sqrt(square) * rng.normal(size=runs) + square / 2
        used += square
        if stops_on_data:
            limit = np.where(loss < total / 2, used + total / 2, limit)
    return loss


def test_an_analyst_who_adapts_stays_below_the_curve() -> None:
    """Where the squares of all shifts add up to μ² on every path: 400,000 transcripts, μ = 1.5.

    False alarm below 1e-6, by five standard errors. A filter whose limit depends on the data fails.
    """
    mu, runs = 1.5, 400_000
    curve = [normal_delta(mu**2 / 2, level) for level in LEVELS]
    kept = hockey_sticks(play(mu**2, runs, stops_on_data=False))
    broken = hockey_sticks(play(mu**2, runs, stops_on_data=True))
    slack = [5 * math.sqrt(limit / runs) for limit in curve]
    assert all(d <= limit + more for d, limit, more in zip(kept, curve, slack, strict=True))
    assert any(d > limit + more for d, limit, more in zip(broken, curve, slack, strict=True))
