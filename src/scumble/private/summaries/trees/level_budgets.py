"""Budgets of the levels of a tree: more to levels of which a range touches more nodes.

A range that is a sum of nodes takes about n nodes of a level, those along its border. The variance
of the sum is Σ n/ε², so that ε should grow as the cube root of n (with Gaussian noise: Σ n/ρ, and
ρ as its square root). In one dimension n is the same on every level and so is ε; in two dimensions
n doubles from level to level (Cormode, Procopiuc, Srivastava, Shen and Yu, ICDE 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

_GRID = 1 << 20  # shares are multiples of this part of the whole


def touched(sizes: Sequence[int], level: int) -> float:
    """How many nodes of a level a range touches, up to a factor: the border of a box in a grid of
    2^level pieces per attribute, or as many as it has codes.
    """
    pieces = [min(1 << level, size) for size in sizes]
    return sum(prod(pieces) / piece for piece in pieces)


def level_shares(weights: Sequence[float], power: float) -> list[Fraction]:
    """Shares of a budget that add up to 1, by a power of the weights of levels."""
    raised = [weight**power for weight in weights]
    shares = [Fraction(max(int(each / sum(raised) * _GRID), 1), _GRID) for each in raised[:-1]]
    return [*shares, 1 - sum(shares, Fraction(0))]
