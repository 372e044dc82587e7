"""Total: what several losses come to together, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scumble.model.privacy import concentrated
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.guarantee import at_least


@dataclass(frozen=True)
class Total:
    """Losses of the same people, one after the other."""

    losses: tuple[Loss, ...] = ()

    def plus(self, loss: Loss) -> Total:
        return Total((*self.losses, loss))

    @property
    def pure(self) -> bool:
        return all(loss.pure for loss in self.losses)

    @property
    def epsilon(self) -> Fraction:
        """The sum of the pure losses."""
        return sum((loss.epsilon for loss in self.losses), Fraction(0))

    @property
    def rho(self) -> Fraction:
        """The sum of the losses that are not pure."""
        return sum((loss.rho for loss in self.losses), Fraction(0))

    @property
    def concentrated(self) -> Fraction:
        """The sum of all as ρ, a pure one being ε²/2."""
        return sum((loss.concentrated for loss in self.losses), Fraction(0))

    def at(self, delta: Fraction) -> Fraction:
        """An ε with which all together are (ε, δ)-DP, by the best of two ways to add up.

        Pure losses add to each other, and to the ε of the others together; or all are taken as ρ,
        which is less where there are many small ones.
        """
        if not self.losses:
            return Fraction(0)
        others = Fraction(0) if self.pure else _epsilon(self.rho, delta)
        return min(self.epsilon + others, _epsilon(self.concentrated, delta))


def _epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """An ε for ρ and δ; a short number where one will do, such as the ε that ρ was made of."""
    found = Fraction(concentrated.epsilon_for(rho, delta))
    short = Fraction(at_least(found, digits=6))
    return short if short and concentrated.rho_for(short, delta) >= rho else found


def steps(loss: Loss, count: int) -> Loss:
    """The loss between tables that are so many steps apart: ε grows with their number, ρ with its
    square (Bun and Steinke, TCC 2016, proposition 1.9).
    """
    return Loss(count * loss.epsilon, count**2 * loss.rho)
