"""Limit: how much one person may lose in all, and what of it is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from scumble.model.privacy import concentrated
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.guarantee import at_most
from scumble.private.ledger.total import Total

_GRID = 1 << 64  # a square root is rounded down to a multiple of its inverse
# A hundred times what floating point can lose below; the rest is for releases whose noise is within
# a factor of e^(2^-80) of Gaussian noise (Marginals), as many as a million of them.
_SLACK = 1e-12
_STEPS = 200


@dataclass(frozen=True)
class Limit:
    """ε, or (ε, δ): kept also by an owner who looks at each release before choosing the next.

    Without δ the sum of pure losses is at most ε. With δ this will do as well; or else the Rényi
    divergences of one order α, fixed in advance, may add up to `room`. A pure release has at most
    min(ε, αε²/2) of it and a concentrated one αρ.

    Proof: let L be the loss of all releases, and ε that of the limit. The δ of all is the mean of
    max(0, 1 - e^(ε-L)), which is at most c·e^((α-1)(L-ε)) with c = (1-1/α)^α/(α-1) (Canonne,
    Kamath, Steinke, NeurIPS 2020, proposition 12). If all were pure and add up to at most ε, L is
    at most ε, and that is 0. Else their divergences D add up to at most the room, which is so small
    that c·e^((α-1)(L-ε)) ≤ δ·e^((α-1)(L-D)); and e^((α-1)(L-D)) has a mean of at most 1 however
    each release was chosen after the others (Rényi filter: Feldman, Zrnic, NeurIPS 2021).

    The order is the best one for Gaussian noise alone. If a part of ε is kept for `pure` releases,
    it is the best for Gaussian noise with the rest.
    """

    epsilon: Fraction
    delta: Fraction | None = None
    pure: Fraction = Fraction(0)

    @cached_property
    def order(self) -> Fraction:
        """α: where the largest ρ is allowed by ε less what is kept for pure releases."""
        left, log = float(self.epsilon - self.pure), math.log(float(self.delta or 1))
        low, high = -30.0, 60.0
        golden = (math.sqrt(5) - 1) / 2
        for _ in range(_STEPS):
            one, other = high - golden * (high - low), low + golden * (high - low)
            if _rho(one, left, log) >= _rho(other, left, log):
                high = other
            else:
                low = one
        return 1 + Fraction(math.exp((low + high) / 2))

    @cached_property
    def room(self) -> Fraction:
        """What the divergences may add up to: ε + (ln δ - ln c)/(α - 1), rounded down."""
        if self.delta is None:
            return Fraction(0)
        return self.epsilon + Fraction(_beyond(float(self.order - 1), math.log(float(self.delta))))

    def divergence(self, loss: Loss) -> Fraction:
        """Of the order of this limit, at most."""
        most = self.order * loss.concentrated
        return min(loss.epsilon, most) if loss.pure else most

    def allows(self, total: Total) -> bool:
        return (total.pure and total.epsilon <= self.epsilon) or self._rest(total) >= 0

    def left_epsilon(self, total: Total) -> Fraction:
        """The largest pure loss, to 64 binary places, that still fits."""
        added = self.epsilon - total.epsilon if total.pure else Fraction(0)
        rest = max(self._rest(total), Fraction(0))
        return max(added, rest, _root(2 * rest / self.order) if rest else rest)

    def left_rho(self, total: Total) -> Fraction:
        """The largest concentrated loss that still fits."""
        return max(self._rest(total), Fraction(0)) / self.order if self.delta else Fraction(0)

    def left_gaussian(self, total: Total) -> Fraction:
        """An ε, nearly the largest, that still fits for Gaussian noise with the δ of the limit."""
        rho = self.left_rho(total)
        if self.delta is None or rho == 0:
            return Fraction(0)
        found = min(Fraction(concentrated.epsilon_for(rho, self.delta)), self.epsilon)
        while concentrated.rho_for(found, self.delta) > rho:
            found *= 1 - Fraction(1, 10**6)
        return found

    def used(self, total: Total) -> Fraction:
        """The ε that is used, at the δ of the limit; what is allowed is never more than all."""
        found = total.epsilon if self.delta is None else total.at(self.delta)
        return min(found, self.epsilon) if self.allows(total) else found

    def __str__(self) -> str:
        also = "" if self.delta is None else f", δ = {at_most(self.delta)}"
        return f"ε = {at_most(self.epsilon)}{also}"

    def _rest(self, total: Total) -> Fraction:
        """What is left of the room; below 0 if there is none, or was none from the start."""
        if self.delta is None:
            return Fraction(-1)
        return self.room - sum(map(self.divergence, total.losses), Fraction(0))


def _beyond(more: float, log: float) -> float:
    """(ln δ - ln c)/(α - 1) for α = 1 + `more`, rounded down."""
    constant = concentrated.log_constant(more)
    size = abs(log) + abs(constant) + 1
    return (log - constant - _SLACK * size) / more


def _rho(place: float, epsilon: float, log: float) -> float:
    """The ρ that is allowed by ε and the order 1 + e^place."""
    more = math.exp(place)
    return (epsilon + _beyond(more, log)) / (1 + more)


def _root(number: Fraction) -> Fraction:
    return Fraction(math.isqrt(number.numerator * _GRID**2 // number.denominator), _GRID)
