"""Every bag that a pool may give, with its exact probability: the slow way, in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, prod

from scumble.model.evidence.channels import PoolLaw

Counts = tuple[int, ...]

# Weights, k and closeness (None: nothing is drawn again): all shapes, small enough to list.
SMALL = [
    ((1, 1), 2, None),
    ((1, 1, 1), 5, None),
    ((1, 2, 3), 4, None),
    ((1, 1, 4, 2), 3, None),
    ((1, 1, 1), 4, 2),
    ((1, 1, 1), 6, 2),
    ((2, 3, 4), 5, 3),
    ((1, 2, 2, 1), 3, 3),
    ((3, 1, 2, 3, 1), 6, 2),
]


def pool_law(weights: Counts, k: int, closeness: int | None) -> PoolLaw:
    caps = None if closeness is None else tuple(min(k, k * w // closeness) for w in weights)
    return PoolLaw(weights, k, caps)


def drawn(law: PoolLaw, draws: int) -> dict[Counts, Fraction]:
    """How often each value comes in so many draws."""
    found = {}
    for bag in combinations_with_replacement(range(law.values), draws):
        counts = tuple(bag.count(value) for value in range(law.values))
        orders = factorial(draws) // prod(map(factorial, counts))
        found[counts] = orders * prod((law.shares[value] for value in bag), start=Fraction(1))
    return found


def bags(law: PoolLaw, true: int) -> tuple[dict[Counts, Fraction], Fraction]:
    """The law of the bags of a true value, and the probability that the first draws will do."""
    caps = law.caps or (law.size,) * law.values
    found = {}
    for counts, chance in drawn(law, law.size - 1).items():
        bag = tuple(count + (value == true) for value, count in enumerate(counts))
        if all(count <= cap for count, cap in zip(bag, caps, strict=True)):
            found[bag] = chance
    total = sum(found.values(), Fraction(0))
    return {bag: chance / total for bag, chance in found.items()}, total
