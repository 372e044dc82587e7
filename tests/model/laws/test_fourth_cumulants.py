"""The fourth cumulants of the noise laws, by summation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace


def test_fourth_cumulant(subtests: pytest.Subtests) -> None:
    for law in [
        *(DiscreteLaplace(Fraction(scale)) for scale in ("1/9", "1/3", "2", "7")),
        *(DiscreteGaussian(Fraction(square)) for square in ("1/20", "1/5", "1", "3", "5", "90")),
    ]:
        with subtests.test(law=law):
            k = np.arange(-500.0, 501)
            shares = np.array([law.pmf(int(each)) for each in k])
            second, fourth = float(shares @ k**2), float(shares @ k**4)
            assert law.fourth == pytest.approx(fourth - 3 * second**2, rel=1e-9, abs=1e-9)


def test_rounding_makes_none_negative() -> None:
    """Roots are taken of it, and that of a negative number is no real one."""
    laws = [DiscreteGaussian(Fraction(tenths, 10)) for tenths in range(1, 300)]
    assert min(law.fourth for law in laws) >= 0
