"""What a published count, or its absence, tells about a key, by exact enumeration of the noise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from scumble.families.keys.design import KeyLevel, OpenKeys
from scumble.families.keys.publish import laplace_threshold
from scumble.model.evidence.evidence import design_from_dict
from scumble.model.laws import DiscreteGaussian, DiscreteLaplace, KeyNoise

OPTIMAL = KeyNoise(Fraction(2), Fraction(1, 1000))
LAPLACE = DiscreteLaplace(Fraction(2))
LEVELS = [
    KeyLevel(1, OPTIMAL, False, OPTIMAL, OPTIMAL.reach),
    KeyLevel(1, LAPLACE, False, LAPLACE, laplace_threshold(Fraction(2), Fraction(1, 1000)) - 1),
]


def test_limits_hold_given_that_the_key_is_published(subtests: pytest.Subtests) -> None:
    for miss, level in product([0.05, 0.3, 1e-4], LEVELS):
        with subtests.test(miss=miss, level=level):
            limits = {v: level.limits(v, miss) for v in range(level.threshold + 1, 160)}
            for people in range(1, 60):
                shown = {v: level.noise.pmf(v - people) for v in limits}
                total = math.fsum(shown.values())
                hit = math.fsum(
                    p for v, p in shown.items() if limits[v][0] <= people <= limits[v][1]
                )
                assert hit >= (1 - miss) * total - 1e-12


@pytest.mark.parametrize("level", LEVELS)
def test_limits_and_absence_hold_together_for_a_key_named_before(level):
    """The interval of one key: nine tenths of the miss if published, a tenth if not."""
    miss = 0.05
    most = level.most_unseen(miss / 10)
    limits = {v: level.limits(v, 0.9 * miss) for v in range(level.threshold + 1, 130)}
    chances = {x: level.noise.pmf(x) for x in range(-70, 71)}
    for people in range(1, 60):
        wrong = 0.0
        for x, chance in chances.items():
            count = people + x
            if count > level.threshold:
                low, high = limits[count]
                wrong += chance * (not low <= people <= high)
            else:
                wrong += chance * (people > most)
        assert wrong <= miss + 1e-12


@pytest.mark.parametrize("level", LEVELS)
def test_absence_tells_no_less_than_it_could(level):
    most = int(level.most_unseen(0.05))
    absent = [
        math.fsum(level.noise.pmf(x) for x in range(-200, level.threshold - n + 1))
        for n in (most, most + 1)
    ]
    assert absent[0] > 0.05 >= absent[1]


def test_a_count_near_the_threshold_may_be_of_one_person():
    level = LEVELS[0]
    assert level.limits(level.threshold + 1, 0.05)[0] == 1
    far = 5 * level.threshold
    low, high = level.limits(far, 0.05)  # nothing was selected there
    assert (low, high) == (far - level.noise.quantile(0.975), far - level.noise.quantile(0.025))


def test_counts_that_are_measured_again_have_the_limits_of_their_noise():
    noise = DiscreteGaussian(Fraction(100))
    level = KeyLevel(1, noise, True)
    half = noise.half_width(0.95)
    assert level.limits(50, 0.05) == (50 - half, 50 + half)
    assert level.limits(-70, 0.05) == (0, 0)
    assert level.most_unseen(0.05) == math.inf


def test_designs_are_read_back_and_checked():
    design = OpenKeys("optimal", 2, True, "count", (LEVELS[0], KeyLevel(2, LAPLACE, True)))
    assert design_from_dict(design.to_dict()) == design
    names = OpenKeys("sips", 3, True, None, (KeyLevel(1, None, True),))
    assert design_from_dict(names.to_dict()) == names
    with pytest.raises(ValueError, match="more and more"):
        design_from_dict({**design.to_dict(), "levels": []})
    with pytest.raises(ValueError, match="counts have noise"):
        design_from_dict({**names.to_dict(), "count": "count"})
    broken = {**LEVELS[0].to_dict(), "selection": LAPLACE.to_dict()}
    with pytest.raises(ValueError, match="noise of the selection"):
        design_from_dict({**design.to_dict(), "levels": [broken]})
