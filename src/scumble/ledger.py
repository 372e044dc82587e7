"""Privacy accounts: a promise, what was charged to it, and the refusal of what would break it.

Losses are exact fractions of pure ε and add up; an account never learns about any other kind of
loss, so there is nothing here that it cannot compose.
"""

from __future__ import annotations

from fractions import Fraction

from scumble.errors import ParameterError, PromiseError


class Account:
    """The privacy loss that one table may suffer, and what has been used of it."""

    def __init__(self, promise: Fraction) -> None:
        if promise <= 0:
            raise ParameterError.of("Account", "promise", "a number above 0", promise)
        self.promise = promise
        self.charges: list[tuple[str, Fraction]] = []

    @property
    def used(self) -> Fraction:
        return sum((cost for _, cost in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        return self.promise - self.used

    def charge(self, reason: str, cost: Fraction) -> None:
        """Take `cost` from what is left, or refuse and take nothing."""
        if cost <= 0:
            raise ParameterError.of("Account.charge", "cost", "a number above 0", cost)
        if cost > self.left:
            raise PromiseError(
                f"The {reason} would cost ε = {float(cost):g}, but only ε = {float(self.left):g} "
                f"is left of the promised {float(self.promise):g}. Ask for less, or promise more."
            )
        self.charges.append((reason, cost))
