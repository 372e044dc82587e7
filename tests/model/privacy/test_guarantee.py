"""Conversions between promises, both ways, and the direction of every rounding."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.model.errors import ParameterError
from scumble.model.privacy import guarantee
from scumble.model.stored import ExactText


@given(st.fractions(Fraction(1, 10**6), 40, max_denominator=10**6), st.integers(1, 4))
def test_gamma_never_exceeds_epsilon(epsilon: Fraction, parts: int) -> None:
    gamma = guarantee.gamma_for_epsilon(epsilon, parts)
    with localcontext() as context:
        context.prec = 90
        exact = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        whole = gamma**parts
        assert Decimal(whole.numerator) / Decimal(whole.denominator) <= exact
    assert float(gamma**parts) == pytest.approx(math.exp(epsilon), rel=1e-12)


@given(st.fractions(Fraction(1001, 1000), 50, max_denominator=10**4), st.integers(1, 4))
def test_root_of_gamma(gamma: Fraction, parts: int) -> None:
    root = guarantee.gamma_root(gamma, parts)
    assert root**parts <= gamma
    assert (root + Fraction(1, 2**63)) ** parts > gamma


@given(st.fractions(Fraction(1001, 1000), 1000, max_denominator=10**6))
def test_epsilon_for_gamma_rounds_up_and_returns(gamma: Fraction) -> None:
    epsilon = guarantee.epsilon_for_gamma(gamma)
    with localcontext() as context:
        context.prec = 50
        assert Decimal(epsilon) >= (Decimal(gamma.numerator) / Decimal(gamma.denominator)).ln()
    assert math.exp(epsilon) == pytest.approx(float(gamma), rel=1e-12)


@given(
    st.fractions(Fraction(1, 100), Fraction(1, 2), max_denominator=1000),
    st.fractions(Fraction(51, 100), Fraction(99, 100), max_denominator=1000),
)
def test_rho_both_ways(rho1: Fraction, rho2: Fraction) -> None:
    gamma = guarantee.gamma_for_rho(rho1, rho2)
    assert guarantee.posterior_at_most(rho1, gamma) == rho2


@given(st.floats(0.01, 8), st.integers(2, 100))
def test_exposure_both_ways(epsilon: float, values: int) -> None:
    success = guarantee.exposure_at_most(epsilon, values)
    assert success > 1 / values
    assert guarantee.epsilon_for_exposure(success, values) == pytest.approx(epsilon, rel=1e-6)


def test_exposure_extremes() -> None:
    assert guarantee.epsilon_for_exposure(1, 5) == math.inf
    assert guarantee.epsilon_for_exposure(0.1, 5) == 0
    assert guarantee.exposure_at_most(0.5, 15) == pytest.approx(
        0.105, abs=5e-4
    )  # spec: at most, for 0.5-DP


def test_ten_percent_at_epsilon_one() -> None:
    end = guarantee.posterior_at_most(Fraction(1, 10), guarantee.gamma_above_epsilon(Fraction(1)))
    assert guarantee.percent_at_most(end) == "23.2 %"


def test_percent_rounds_so_that_the_sentence_is_true(subtests: pytest.Subtests) -> None:
    for number, most, least in [
        (Fraction(1, 10), "10 %", "10 %"),
        (Fraction(23201, 100000), "23.3 %", "23.2 %"),
        (Fraction(1, 10**6), "0.0001 %", "0.0001 %"),
        (Fraction(1, 3 * 10**6), "0.0000334 %", "0.0000333 %"),
        (Fraction(99999, 100000), "100 %", "99.9 %"),
        (Fraction(1), "100 %", "100 %"),
    ]:
        with subtests.test(number=number, most=most, least=least):
            assert guarantee.percent_at_most(number) == most
            assert guarantee.percent_at_least(number) == least


def test_bounds_are_rounded_up() -> None:
    assert guarantee.at_most(math.e) == "2.719"
    assert guarantee.at_most(1) == "1"
    assert guarantee.at_most(0.1) == "0.1"
    assert guarantee.percent_at_most(0.1) == guarantee.percent_at_least(0.1) == "10 %"
    assert guarantee.at_most(Fraction(100004, 100000)) == "1.001"
    assert guarantee.at_most(12344) == "12350"
    assert Fraction(guarantee.float_at_least(Fraction(1, 3))) >= Fraction(1, 3)


@given(st.fractions(Fraction(1, 10**6), 100, max_denominator=10**6))
def test_gamma_above_and_below(epsilon: Fraction) -> None:
    below, above = guarantee.gamma_for_epsilon(epsilon), guarantee.gamma_above_epsilon(epsilon)
    with localcontext() as context:
        context.prec = 200
        exact = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        assert Decimal(below.numerator) / Decimal(below.denominator) <= exact
        assert Decimal(above.numerator) / Decimal(above.denominator) >= exact
    assert above - below == Fraction(2, 2**64)


def test_numbers_are_read_as_they_are_written() -> None:
    import numpy as np

    assert guarantee.read_positive("X", "x", 0.1) == Fraction(1, 10)
    assert guarantee.read_positive("X", "x", np.float64(0.1)) == Fraction(1, 10)
    assert guarantee.read_positive("X", "x", Fraction(1, 3)) == Fraction(1, 3)
    assert guarantee.read_positive("X", "x", ExactText("1/3")) == Fraction(1, 3)
    assert guarantee.read_share("X", "x", ExactText("0.25")) == Fraction(1, 4)


def test_bad_numbers(subtests: pytest.Subtests) -> None:
    texts = ["x", "", "1", "0.5", "1/3", ExactText("1/0")]
    for value in [0, -1, True, None, float("nan"), float("inf"), [1], *texts]:
        with (
            subtests.test(value=value),
            pytest.raises(ParameterError, match="The 'x' parameter of X must be a number above 0"),
        ):
            guarantee.read_positive("X", "x", value)


def test_round_trip() -> None:
    promise = guarantee.Guarantee(
        "ε-DP", {"epsilon": 1.0}, "the whole release", "replace one person", "central", "proof",
        "A sentence.", ("One limit.",),
    )  # fmt: skip
    assert guarantee.Guarantee.from_dict(promise.to_dict()) == promise
    assert str(promise) == "A sentence."
