"""Privacy accounting: privacy losses, the privacy unit, the budget account of one release,
conversions between zCDP, Gaussian DP and (ε, δ), and the calibration of Gaussian noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from scumble.model.errors import ParameterError, PromiseError
from scumble.model.laws.base import normal_cdf, normal_quantile
from scumble.model.laws.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    RoundedNormal,
)


@dataclass(frozen=True)
class PrivacyLoss:
    """An exact privacy loss: either a pure ε, or the ρ of zero-concentrated differential privacy.

    With `delta`, ε bounds the loss but for a probability of δ: (ε, δ)-DP, where δ does not get
    smaller with a larger ε, as that of Gaussian noise does. A ρ that is `normal` is that of normal
    noise, μ-Gaussian DP with μ² = 2ρ (Dong, Roth, Su, JRSS B 2022), from which ρ-zCDP follows.

    Losses of the same kind add up. ε-DP implies ρ-zCDP with ρ = ε²/2 (Bun and Steinke, TCC 2016,
    proposition 1.4). No ρ implies a pure ε.
    """

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    normal: bool = False

    def __post_init__(self) -> None:
        epsilon, rho = self.epsilon.numerator, self.rho.numerator  # their signs
        if min(epsilon, rho) < 0 or (epsilon > 0) == (rho > 0):
            given = f"epsilon = {self.epsilon}, rho = {self.rho}"
            raise ParameterError(
                f"A privacy loss is either an epsilon or a rho above 0. Got {given}."
            )
        if self.normal and not self.rho:
            raise ParameterError("Only a rho is the loss of normal noise.")
        if self.delta and not (self.epsilon and 0 < self.delta < 1):
            raise ParameterError(
                "A privacy loss has a delta between 0 and 1 only beside an epsilon. "
                f"Got {self.delta}."
            )

    @property
    def pure(self) -> bool:
        """Whether the loss is a pure ε."""
        return not self.rho and not self.delta

    @property
    def as_rho(self) -> Fraction:
        """The loss as the ρ of zCDP: ρ itself, or ε²/2; but for a probability of δ."""
        return self.rho or self.epsilon**2 / 2

    def __str__(self) -> str:
        if self.rho:
            return f"ρ = {float(self.rho):g}" + (" (normal noise)" if self.normal else "")
        also = f", δ = {float(self.delta):g}" if self.delta else ""
        return f"ε = {float(self.epsilon):g}{also}"


Neighbours = Literal["replace", "add_remove"]


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit: one person, who has at most `rows` rows.

    Neighbouring tables differ in the rows of one person, which are replaced, or added or removed.
    With `column`, the identifier of people, at most `rows` rows of each person are kept. Without
    it the bound is an assumption of the owner.

    With an `amount` r above 0, sums of amounts are measured and not counts: a row adds an integer
    from -r to r to its cell, and so at most r times its column of the matrix of a design. An added
    or removed row changes a norm of the sums by at most r times the largest column. A replaced row
    takes a·u away and adds b·v, with the columns u and v of its two cells and |a|, |b| <= r: at
    most 2r times the largest column, by the triangle inequality. u = v, a = r and b = -r attain it,
    so that what is known of columns of different cells, such as the signs of their inner products,
    lowers the sensitivity of counts alone.

    With `sided`, a row adds no negative number: it divides `amount` among several sides of its
    cell, as a steps above the lower limit and `amount` - a steps below the upper one, and each side
    is measured with the same design. Divided by `amount` that is a mean of rows that are in one
    side each, so that a norm of the change of all sides, which is convex, is at most `amount` times
    that of counts, with cells on different sides. Such cells have inner products of 0.
    """

    neighbours: Neighbours
    rows: int = 1
    column: str | None = None
    amount: int = 0
    sided: bool = False

    @property
    def keeps_rows(self) -> bool:
        """Whether neighbouring tables have the same number of rows: a person has one row, which is
        replaced by another. Of people named by a column, some may have no row that is counted. Sums
        of amounts differ in any case.
        """
        one = self.rows == 1 and self.column is None
        return self.neighbours == "replace" and one and not self.amount

    @property
    def sensitivity(self) -> int:
        """The L1 sensitivity of the counts, or of the sums on all sides, of disjoint cells."""
        return self.rows * max(self.amount, 1) * (2 if self.neighbours == "replace" else 1)

    def squared_sensitivity(self, *, nonnegative_gram: bool) -> int:
        """Return the squared L2 sensitivity of a group of sums whose columns have squared L2 norm
        at most 1. `nonnegative_gram` states that no two columns have a negative inner product.

        Replacing a row subtracts one column and adds another. The squared L2 norm of their
        difference is at most 2 if their inner product is not negative (as where no entry is
        negative), and at most 4 otherwise. Of amounts with signs it is 4 times that of the largest.
        """
        if self.amount and not self.sided:
            return self.sensitivity**2
        square = (self.rows * max(self.amount, 1)) ** 2
        if self.neighbours == "add_remove":
            return square
        return square * (2 if nonnegative_gram else 4)


def cost_of_sums(
    laws: Sequence[NoiseLaw],
    norms: Sequence[tuple[int, int]],
    unit: PrivacyUnit,
    *,
    nonnegative_gram: bool,
) -> PrivacyLoss:
    """Return the privacy loss of groups of noisy sums of counts.

    Group k has noise of `laws[k]`; the columns of its matrix have an L1 norm and a squared L2 norm
    of at most `norms[k]`.

    One person changes a group by at most `sensitivity` columns. Laplace noise of scale b then costs
    ε = sensitivity · (L1 norm) / b for the group; Gaussian noise of parameter σ² costs ρ = squared
    sensitivity · (squared L2 norm) / 2σ². The costs of groups add up; those of rounded normal noise
    alone are a loss of normal noise.
    """
    square = unit.squared_sensitivity(nonnegative_gram=nonnegative_gram)
    epsilon = rho = Fraction(0)
    for law, (absolute, squares) in zip(laws, norms, strict=True):
        if isinstance(law, DiscreteLaplace):
            epsilon += unit.sensitivity * absolute / law.scale
        else:
            rho += square * squares / (2 * law.parameter)
    if not rho:
        return PrivacyLoss(epsilon)
    normal = all(isinstance(law, RoundedNormal) for law in laws)
    return PrivacyLoss(rho=rho + epsilon**2 / 2, normal=normal)


class BudgetAccount:
    """The privacy loss that a release may have in all, and the charges against it.

    A promise of pure ε pays for pure losses only. A promise of ρ pays for both kinds, and one of
    normal noise for normal noise only. A promise of (ε, δ) pays for losses of ε with or without δ;
    both add up. All sums are exact.
    """

    def __init__(self, promise: PrivacyLoss) -> None:
        self.promise = promise
        self.charges: list[tuple[str, PrivacyLoss]] = []
        self._left = self._amount(promise)

    @property
    def used(self) -> Fraction:
        """The sum of all charges, in the unit of the promise (ε or ρ)."""
        return self._amount(self.promise) - self._left

    @property
    def left(self) -> Fraction:
        """The part of the promise that is not used, in the unit of the promise (ε or ρ)."""
        return self._left

    def charge(self, reason: str, cost: PrivacyLoss) -> None:
        """Charge `cost` for the measurement `reason`; raise PromiseError, and charge nothing, if
        too little is left.
        """
        if self.promise.pure and not cost.pure:
            raise PromiseError(
                f"The {reason} would cost {cost}, which no promise of a pure ε pays for. Promise "
                "an ε together with a δ, or use noise with a pure ε."
            )
        if self.promise.normal and not cost.normal:
            raise PromiseError(
                f"The {reason} would cost {cost}, and this promise pays for normal noise only."
            )
        if (cost.delta or self.promise.delta) and not self._pays_delta(cost):
            raise PromiseError(
                f"The {reason} would cost {cost}, which the promise of {self.promise} does not pay "
                "for. Ask for less, or promise more."
            )
        amount = self._amount(cost)
        if amount > self._left:
            letter = "ρ" if self.promise.rho else "ε"
            raise PromiseError(
                f"The {reason} would cost {letter} = {float(amount):g}, but only "
                f"{letter} = {float(self._left):g} is left of the promised "
                f"{float(self._amount(self.promise)):g}. Ask for less, or promise more."
            )
        self._left -= amount  # first: a charge that is interrupted here stays paid
        self.charges.append((reason, cost))

    def _pays_delta(self, cost: PrivacyLoss) -> bool:
        """Return whether enough δ is left, and the cost has no ρ beside it."""
        spent = sum((each.delta for _, each in self.charges), cost.delta)
        return spent <= self.promise.delta and not cost.rho

    def _amount(self, loss: PrivacyLoss) -> Fraction:
        return loss.as_rho if self.promise.rho else loss.epsilon


class PaidTogether(BudgetAccount):
    """The account of a further side of amounts (see `PrivacyUnit.sided`): the charges of `account`
    since the first side paid for all of them, so that this one may be measured alike only.
    """

    def __init__(self, account: BudgetAccount, first: int) -> None:
        super().__init__(account.promise)
        self._paid = account.charges[first:]

    def charge(self, reason: str, cost: PrivacyLoss) -> None:
        """Take the next charge of the first side; PromiseError if this is another one."""
        if not self._paid or self._paid.pop(0) != (reason, cost):
            raise PromiseError(f"The {reason} is not what was paid for all sides of the amounts.")


# --- conversions between zCDP and (ε, δ) ---------------------------------------------------------
#
# Every function returns a valid bound. The formulas are theorems for any order α > 1, so an order
# that is not optimal only makes the bound looser. A margin for rounding errors is added.

_SLACK = 1e-9  # far more than floating point can lose in the formulas below
_CONVERSION_STEPS = 200


def log_delta(rho: float, epsilon: float) -> float:
    """Return the logarithm of a δ such that ρ-zCDP implies (ε, δ)-DP.

    Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12 with the divergence αρ:
    δ = exp((α - 1)(αρ - ε)) / (α - 1) · (1 - 1/α)^α.
    """
    least = _least(lambda order: _log_delta(rho, epsilon, order))
    return min(least + _SLACK * (1 + abs(least)), 0.0)


def epsilon_for(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return an ε such that ρ-zCDP implies (ε, δ)-DP."""
    loss, log = float(rho), math.log(float(delta))

    def bound(order: float) -> float:
        return order * loss + (log_constant(order - 1) - log) / (order - 1)

    return max(_least(bound), 0.0) * (1 + _SLACK)


@lru_cache(maxsize=256)
def rho_for(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """Return the largest ρ found by bisection such that ρ-zCDP implies (ε, δ)-DP.

    >>> round(float(rho_for(1, 1e-9)), 6)
    0.014973
    """
    target, log = float(epsilon), math.log(float(delta))
    low, _ = _bisect(lambda rho: log_delta(rho, target) <= log, 0.0, target)
    return Fraction(low)


def loss_tail_bound(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return the privacy loss that ρ-zCDP exceeds with probability at most δ: ρ + 2√(ρ ln(1/δ)).

    Bun, Steinke, TCC 2016, lemma 3.5. It bounds the growth of an attacker's odds, which the ε of an
    (ε, δ) statement does not.
    """
    loss = float(rho)
    return (loss + 2 * math.sqrt(loss * -math.log(float(delta)))) * (1 + _SLACK)


def _log_delta(rho: float, epsilon: float, order: float) -> float:
    return (order - 1) * (order * rho - epsilon) + log_constant(order - 1)


def log_constant(more: float) -> float:
    """The logarithm of (1 - 1/α)^α / (α - 1) for the order α = 1 + `more`, written so that nothing
    cancels, be α close to 1 or large.
    """
    return -(math.log1p(more) + more * math.log1p(1 / more))


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the ends of a short interval: `holds` is true at the first, and not at the second."""
    for _ in range(_CONVERSION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _least(bound: Callable[[float], float]) -> float:
    """The least value over orders 1 + e^x; the bounds fall and then rise along x."""
    low, high = -30.0, 60.0
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_CONVERSION_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(1 + math.exp(left)) <= bound(1 + math.exp(right)):
            high = right
        else:
            low = left
    return bound(1 + math.exp((low + high) / 2))


# --- normal noise: μ-Gaussian DP with μ² = 2ρ -----------------------------------------------------
#
# Normal noise that a row shifts by at most μ in units of its standard deviation is (ε, δ)-DP if and
# only if δ is at least Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) (Balle and Wang, ICML 2018, theorem 8).
# This also holds if the shift of each number depends on the numbers before, as long as the squares
# of all shifts add up to at most μ² whatever happens (docs/decisions/0036-normal-noise.md).


def normal_delta(rho: Fraction | float, epsilon: Fraction | float) -> float:
    """Return the least δ, rounded up, of the loss ρ of normal noise at ε."""
    mu, target = math.sqrt(2 * rho), float(epsilon)
    near = normal_cdf(mu / 2 - target / mu)
    far = normal_cdf(-mu / 2 - target / mu)
    if far < sys.float_info.min:  # digits are lost below it, so that nothing is taken away
        return near * (1 + _SLACK)
    far = math.exp(target + math.log(far))
    return max(near - far, 0.0) + _LOST * (1 + target / mu) ** 2 * (near + far)


@lru_cache(maxsize=256)
def normal_rho_for(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """Return the largest ρ of normal noise, found by bisection, that keeps (ε, δ).

    >>> round(float(2 * normal_rho_for(1, 1e-9)) ** 0.5, 5)
    0.18197
    """
    high = 1.0
    while normal_delta(high, epsilon) <= delta:
        high *= 2
    low, _ = _bisect(lambda rho: rho > 0 and normal_delta(rho, epsilon) <= delta, 0.0, high)
    return Fraction(low)


def normal_epsilon_for(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return the least ε, rounded up, that the loss ρ of normal noise keeps with δ."""
    low, high = 0.0, 1.0
    if normal_delta(rho, low) <= delta:
        return low
    while normal_delta(rho, high) > delta:
        low, high = high, 2 * high
    _, high = _bisect(lambda epsilon: normal_delta(rho, epsilon) > delta, low, high)
    return high


def normal_tail_bound(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return the privacy loss that normal noise of the loss ρ exceeds with probability at most δ.

    The loss is normal with mean ρ and variance 2ρ.
    """
    reach = -normal_quantile(float(delta)) * math.sqrt(2 * rho)
    return (float(rho) + max(reach, 0.0)) * (1 + _SLACK)


# --- calibration of Gaussian noise to (ε, δ) -----------------------------------------------------
#
# Exact for discrete noise; by the analytic formula for continuous noise, for comparison. Bounds are
# rounded so that they hold: a δ is rounded up by more than the rounding error, and a variance is
# accepted only if its rounded δ is small enough.

_LOST = 1e-12  # ten times the relative error of sums of exponentials down to e^-700
_WIDE = 4096  # beyond this variance an expansion replaces the sum; its relative error is below
_NEXT = 1e-3  # a quarter of this times the sixth power of (bound / variance)
_CALIBRATION_STEPS = 40  # bisections: a variance is found to a part in 10^11
_GRID = 40  # bits of a variance


def discrete_delta(variance: Fraction, *, sensitivity: int, epsilon: Fraction) -> float:
    """Return the smallest δ, rounded up, for which an integer plus discrete Gaussian noise of
    parameter `variance` is (ε, δ)-DP, if one person changes the integer by at most `sensitivity`.

    Canonne, Kamath, Steinke, NeurIPS 2020, theorem 7: δ = P(Y > εσ²/Δ - Δ/2) - e^ε P(Y > εσ²/Δ +
    Δ/2). A smaller change has a smaller δ: the likelihood ratio of shifted noise is monotone, so
    that the best tests between two shifts are thresholds, which detect larger shifts more easily.
    """
    law = DiscreteGaussian(variance)
    middle = epsilon * variance / sensitivity
    near = _above(law, middle - Fraction(sensitivity, 2))
    far = math.exp(epsilon) * _above(law, middle + Fraction(sensitivity, 2))
    lost = _LOST
    if variance > _WIDE:
        lost += _NEXT * float(epsilon / sensitivity + sensitivity / (2 * variance)) ** 6
    return max(near - far, 0.0) + lost * (near + far)


def discrete_variance(*, sensitivity: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest parameter of discrete Gaussian noise, found by search, that gives
    (ε, δ)-DP.
    """

    def holds(variance: Fraction) -> bool:
        return discrete_delta(variance, sensitivity=sensitivity, epsilon=epsilon) <= delta

    return _smallest(holds, Fraction(sensitivity * sensitivity))


def analytic_delta(variance: float, *, sensitivity: float, epsilon: float) -> float:
    """Return the smallest δ for which continuous Gaussian noise of this variance is (ε, δ)-DP.

    Balle and Wang, ICML 2018, theorem 8.
    """
    ratio = sensitivity / math.sqrt(variance)
    near, far = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
    return max(normal_cdf(near) - math.exp(epsilon) * normal_cdf(far), 0.0)


def analytic_variance(*, sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest variance of continuous Gaussian noise that gives (ε, δ)-DP."""

    def holds(variance: Fraction) -> bool:
        found = analytic_delta(float(variance), sensitivity=sensitivity, epsilon=epsilon)
        return found <= delta

    return float(_smallest(holds, Fraction(sensitivity) ** 2))


def _above(law: DiscreteGaussian, bound: Fraction) -> float:
    """Return P(Y > bound), as a lower tail (by symmetry), which keeps its digits."""
    return law.cdf(-(math.floor(bound) + 1))


def _smallest(holds: Callable[[Fraction], bool], unit: Fraction) -> Fraction:
    """Return nearly the smallest variance for which `holds` is true, rounded to few digits. The
    search doubles or halves `unit`, then bisects.
    """
    high = unit
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    for _ in range(_CALIBRATION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    grid = 1 << max(_GRID - math.frexp(float(high))[1], 0)
    short = Fraction(math.ceil(high * grid), grid)
    return short if holds(short) else high
