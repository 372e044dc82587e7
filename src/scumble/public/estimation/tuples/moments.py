"""Unbiased sums over the true tuples that satisfy a question, and what is known of their errors.

Let Q be the tuples that satisfy the question and g the amount that is added up. All that a count, a
sum and an average need are the three sums Σ g^j over the true tuples in Q, for j = 0, 1 and 2: the
variances and the covariance of the estimates of the first two are linear in the three.
"""

from __future__ import annotations

from typing import Protocol

from scumble.public.estimate import Law
from scumble.public.estimation.rows.tally import Floats


class Moments(Protocol):
    """What the estimator of one kind of presence finds, for all groups at once."""

    @property
    def sums(self) -> Floats:
        """Unbiased estimates of the three sums: one row for each power, one column per group."""
        ...

    def variance(self, power: int) -> Floats:
        """The unbiased estimate of the variance of a sum, but never less than the variance surely
        is.
        """
        ...

    @property
    def covariance(self) -> Floats:
        """An unbiased estimate of the covariance of the sums of power 0 and 1."""
        ...

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        """What one tuple can change the error of the sum of g - `shift` by at most, if g is between
        `low` and `high` for every tuple in Q.
        """
        ...

    def count_law(self, group: int, possible: int) -> Law | None:
        """The exact law of a count, where it is known, if so many tuples are in Q."""
        ...
