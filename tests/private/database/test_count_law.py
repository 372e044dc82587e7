"""Intervals of counts hold what a count can be, and the truth as often as before."""

import math
from fractions import Fraction

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database.answers import CountLaw

LAW = NoiseSum(DiscreteLaplace(Fraction(20)), {1.0: 1})


def test_nothing_possible_is_cut_off(subtests):
    for value in [-200, -30, 0, 5, 95, 130, 400]:
        with subtests.test(value=value):
            low, high = LAW.interval(value, 0.95)
            cut_low, cut_high = CountLaw(LAW, 100).interval(value, 0.95)
            assert cut_low <= value <= cut_high
            for truth in range(101):
                assert (cut_low <= truth <= cut_high) >= (low <= truth <= high)
            assert cut_low >= min(0, value)
            assert cut_high <= max(100, value)


def test_limits_inside_stay_as_they_are():
    assert CountLaw(LAW, math.inf).interval(500, 0.9) == LAW.interval(500, 0.9)
    assert CountLaw(LAW, math.inf).stderr == LAW.stderr
