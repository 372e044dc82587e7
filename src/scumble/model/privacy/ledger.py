"""Privacy accounts: a promise, what was charged to it, and the refusal of what would break it."""

from __future__ import annotations

from fractions import Fraction

from scumble.model.errors import PromiseError
from scumble.model.privacy.accounting import Loss


class Account:
    """The privacy loss that one table may suffer, and what has been used of it.

    A promise of pure ε pays for pure losses only; a promise of ρ pays for both kinds, all exactly.
    """

    def __init__(self, promise: Loss) -> None:
        self.promise = promise
        self.charges: list[tuple[str, Loss]] = []

    @property
    def used(self) -> Fraction:
        return sum((self._amount(cost) for _, cost in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        return self._amount(self.promise) - self.used

    def charge(self, reason: str, cost: Loss) -> None:
        """Take `cost` from what is left, or refuse and take nothing."""
        if self.promise.pure and not cost.pure:
            raise PromiseError(
                f"The {reason} would cost {cost}, which no promise of a pure ε pays for. Promise "
                "an ε together with a δ, or use noise with a pure ε."
            )
        if self._amount(cost) > self.left:
            letter = "ε" if self.promise.pure else "ρ"
            raise PromiseError(
                f"The {reason} would cost {letter} = {float(self._amount(cost)):g}, but only "
                f"{letter} = {float(self.left):g} is left of the promised "
                f"{float(self._amount(self.promise)):g}. Ask for less, or promise more."
            )
        self.charges.append((reason, cost))

    def _amount(self, loss: Loss) -> Fraction:
        return loss.epsilon if self.promise.pure else loss.concentrated
