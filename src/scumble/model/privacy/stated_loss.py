"""The privacy loss of the noise that a release of measurements states.

Readers take the stated noise at its word. So its loss must be within the promise: a release with
less noise than its promise needs was not made by scumble, or was changed. The noise of private
choices (splits, items, sets of attributes) is not stated, so that of releases with such choices
the loss of what is stated is a part of the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw, RoundedNormal
from scumble.model.privacy.accounting import (
    PrivacyLoss,
    PrivacyUnit,
    analytic_delta,
    epsilon_for,
    normal_epsilon_for,
)


@dataclass(frozen=True)
class StatedLoss:
    """The ε of Laplace noise, the ρ of discrete Gaussian noise and that of rounded normal noise
    (`normal`), of all numbers of a release together.

    `delta` is the probability with which a key of one person is named, `gaussian` the variance of
    all Gaussian noise of keys together, for a change of squared length 1: it costs an (ε, δ).
    """

    epsilon: float = 0.0
    rho: float = 0.0
    normal: float = 0.0
    delta: float = 0.0
    gaussian: float = math.inf

    def __add__(self, other: StatedLoss) -> StatedLoss:
        return StatedLoss(
            self.epsilon + other.epsilon,
            self.rho + other.rho,
            self.normal + other.normal,
            self.delta + other.delta,
            min(self.gaussian, other.gaussian),
        )

    def needed_epsilon(self, delta: float) -> float:
        """Return the least ε of an (ε, δ) that this loss keeps; infinite without a δ for ρ."""
        if not self.all_rho:
            return self.epsilon
        if not delta:
            return math.inf
        if self.all_rho == self.normal and not self.epsilon:
            return normal_epsilon_for(self.normal, delta)
        return epsilon_for(self.all_rho + self.epsilon**2 / 2, delta)

    @property
    def all_rho(self) -> float:
        """The ρ of all Gaussian noise."""
        return self.rho + self.normal

    def needed_delta(self, epsilon: float) -> float:
        """Return the least δ beside this ε that names of keys and their counts need."""
        if self.gaussian == math.inf:
            return self.delta
        return max(self.delta, analytic_delta(self.gaussian, sensitivity=1.0, epsilon=epsilon))


def add_losses(losses: Iterable[StatedLoss]) -> StatedLoss:
    """Return the loss of several measurements of the same rows."""
    return sum(losses, StatedLoss())


def joint_loss(sides: Sequence[StatedLoss]) -> StatedLoss:
    """Return the loss of all sides of amounts together: the largest (see `PrivacyUnit.sided`)."""
    return StatedLoss(
        max(each.epsilon for each in sides),
        max(each.rho for each in sides),
        max(each.normal for each in sides),
    )


def of_loss(loss: PrivacyLoss) -> StatedLoss:
    """Return the ε and ρ of a computed loss."""
    rho, normal = (0, loss.rho) if loss.normal else (loss.rho, 0)
    return StatedLoss(float(loss.epsilon), float(rho), float(normal))


def counts_loss(law: NoiseLaw, unit: PrivacyUnit, touched: int | Fraction = 1) -> StatedLoss:
    """Return the loss of counts of which a row changes `touched` by one."""
    if isinstance(law, DiscreteLaplace):
        return StatedLoss(float(unit.sensitivity * touched / law.scale))
    square = unit.squared_sensitivity(nonnegative_gram=True)
    rho = square * touched / (2 * law.parameter)
    return of_loss(PrivacyLoss(rho=Fraction(rho), normal=isinstance(law, RoundedNormal)))


def number_loss(law: DiscreteLaplace | None, unit: PrivacyUnit) -> StatedLoss:
    """Return the loss of one number, to which every row adds 0 or 1, also if rows are replaced.

    An exact number, without a law, is the same in neighbouring tables: `unit` must keep it.
    """
    if law is None:
        return StatedLoss(0.0 if unit.keeps_rows else math.inf)
    return StatedLoss(float(unit.rows / law.scale))
