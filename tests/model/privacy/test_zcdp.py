"""Concentrated privacy against its own formulas and against the Gaussian mechanism, whose δ is
known exactly.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest

from scumble.model.laws.base import normal_cdf
from scumble.model.privacy.accounting import (
    epsilon_for,
    log_constant,
    log_delta,
    loss_tail_bound,
    rho_for,
)


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact δ of Gaussian noise of that ρ (Balle and Wang 2018): no bound can be below it."""
    step = math.sqrt(2 * rho)
    first = normal_cdf(step / 2 - epsilon / step)
    return first - math.exp(epsilon) * normal_cdf(-step / 2 - epsilon / step)


def test_the_figure_of_the_literature():
    assert float(rho_for(1, 1e-9)) == pytest.approx(0.014973, abs=5e-7)


def test_there_and_back(subtests: pytest.Subtests) -> None:
    for delta, epsilon in product([1e-12, 1e-6, 0.01], [0.01, 0.3, 1.0, 4.0, 20.0]):
        with subtests.test(delta=delta, epsilon=epsilon):
            rho = rho_for(epsilon, delta)
            assert epsilon_for(rho, delta) == pytest.approx(epsilon, rel=1e-6)
            assert log_delta(float(rho), epsilon) <= math.log(delta)
            assert log_delta(float(rho) * 1.0001, epsilon) > math.log(
                delta
            )  # nothing was given away


def test_the_bound_is_above_the_gaussian_mechanism_and_not_far(subtests: pytest.Subtests) -> None:
    for epsilon, rho in product([0.1, 1.0, 5.0], [1e-4, 0.01, 0.5, 3.0]):
        with subtests.test(epsilon=epsilon, rho=rho):
            exact = gaussian_delta(rho, epsilon)
            if exact > 1e-12:  # below, the difference of two normal tails is rounding
                assert math.exp(log_delta(rho, epsilon)) >= exact


def test_no_digit_is_lost_at_any_order(subtests: pytest.Subtests) -> None:
    """What is lost is divided by α - 1, which may be small: by decimals."""
    for place in range(-30, 61, 3):
        with subtests.test(place=place):
            more = math.exp(place)
            with localcontext() as context:
                context.prec = 100
                exact = Decimal(more)
                wanted = exact * exact.ln() - (1 + exact) * (1 + exact).ln()
            assert log_constant(more) == pytest.approx(float(wanted), rel=1e-15)


def test_a_surprise_is_as_rare_as_it_says():
    """Gaussian noise of ρ has a loss that is normal with mean ρ and variance 2ρ."""
    for rho in (Fraction(1, 100), Fraction(1), Fraction(5)):
        for delta in (1e-9, 1e-3):
            limit = loss_tail_bound(rho, delta)
            beyond = normal_cdf(-(limit - float(rho)) / math.sqrt(2 * float(rho)))
            assert beyond <= delta
