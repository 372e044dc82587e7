"""Live databases that charge too little, on purpose: tests must refute them."""

from __future__ import annotations

from fractions import Fraction

from scumble.private.database.live.terms import LiveTerms


class WholeUnderReplace(LiveTerms):
    """Lets a point use all of μ², where a replaced row moves between two points."""

    @property
    def precision(self) -> Fraction:
        return (self.mu2 - self.base_mu2) / self.unit.rows**2


class PlainContribution(LiveTerms):
    """Divides by c and not by c², where shifts of the rows of a person add up."""

    @property
    def precision(self) -> Fraction:
        squares = self.unit.squared_sensitivity(nonnegative_gram=True) // self.unit.rows
        return (self.mu2 - self.base_mu2) / squares


class SignedOnce(LiveTerms):
    """Charges a signed sum once under replace, where a row may move from one sign to the other."""

    def variance(self, units: int, largest: int = 1, *, signed: bool = False) -> Fraction:
        return super().variance(units, largest)
