"""Loss: what a look at private rows costs, or all looks together may cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scumble.model.errors import ParameterError


@dataclass(frozen=True)
class Loss:
    """A privacy loss, exactly: pure ε, or ρ of zero-concentrated differential privacy; never both.

    Pure losses add up, concentrated ones too. A pure ε is a concentrated loss of ε²/2 (Bun and
    Steinke, TCC 2016, proposition 1.4); no concentrated loss is a pure one.
    """

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if min(self.epsilon, self.rho) < 0 or (self.epsilon > 0) == (self.rho > 0):
            given = f"epsilon = {self.epsilon}, rho = {self.rho}"
            raise ParameterError(f"A loss is either an epsilon or a rho above 0. Got {given}.")

    @property
    def pure(self) -> bool:
        return self.rho == 0

    @property
    def concentrated(self) -> Fraction:
        """The loss as ρ."""
        return self.epsilon**2 / 2 if self.pure else self.rho

    def __str__(self) -> str:
        return f"ε = {float(self.epsilon):g}" if self.pure else f"ρ = {float(self.rho):g}"
