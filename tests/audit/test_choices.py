"""The probabilities of private choices, against enumeration of all noise."""

from __future__ import annotations

import math
from itertools import permutations, product

import pytest

from scumble.audit.choices import log_p_flipped, log_p_top

SCORES = (3, 1, 1)


def _enumerated(k: int, scale: float, reach: int = 60) -> dict[tuple[int, ...], float]:
    """The probabilities of all lists of k; ties are broken by a uniform order."""
    a = math.exp(-1 / scale)
    found = dict.fromkeys(permutations(range(3), k), 0.0)
    orders = list(permutations(range(3)))
    for noise in product(range(reach), repeat=3):
        values = [s + z for s, z in zip(SCORES, noise, strict=True)]
        chance = (1 - a) ** 3 * a ** sum(noise) / len(orders)
        for order in orders:
            ranked = sorted(range(3), key=lambda i: (-values[i], order[i]))
            found[tuple(ranked[:k])] += chance
    return found


@pytest.mark.parametrize("k", [1, 2])
def test_the_largest_after_geometric_noise(k: int) -> None:
    expected = _enumerated(k, 1.5, 40)
    assert sum(math.exp(log_p_top(SCORES, each, 1.5)) for each in expected) == pytest.approx(1)
    for chosen, chance in expected.items():
        assert math.exp(log_p_top(SCORES, chosen, 1.5)) == pytest.approx(chance, abs=1e-9)


def test_permute_and_flip_over_all_orders() -> None:
    scale = 0.7
    accepted = [math.exp((score - max(SCORES)) / scale) for score in SCORES]
    expected = [0.0] * 3
    for order in permutations(range(3)):
        left = 1 / 6
        for place in order:
            expected[place] += left * accepted[place]
            left *= 1 - accepted[place]
    for place, chance in enumerate(expected):
        assert math.exp(log_p_flipped(SCORES, place, scale)) == pytest.approx(chance)
