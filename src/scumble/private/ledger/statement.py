"""The statement of a ledger about its total, and the refusal of a release, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scumble.model.errors import PromiseError, named
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import at_least, at_most, float_at_least, float_at_most
from scumble.private.ledger.cost import Bill
from scumble.private.ledger.terms import LedgerTerms, Limit, Total


@dataclass(frozen=True)
class LedgerStatement:
    """Totals by part, for a δ if there is one; how many releases are counted and are not."""

    terms: LedgerTerms
    totals: Mapping[str | None, Total]
    delta: Fraction | None
    counted: int
    uncounted: int

    @property
    def worst(self) -> str | None:
        """The part with the largest total; None where there are no parts."""
        return max(self.totals, key=lambda part: self._size(self.totals[part]))

    @property
    def total(self) -> Total:
        """The largest total."""
        return self.totals[self.worst]

    @property
    def epsilon(self) -> Fraction | None:
        """An upper bound of the total as ε; None if this takes a δ and there is none."""
        return self._epsilon(self.total)

    def _epsilon(self, total: Total) -> Fraction | None:
        limit = self.terms.limit
        if self.delta is None:
            return total.epsilon if total.pure else None
        if total.delta >= self.delta:
            return None
        if limit is not None and self.delta == limit.delta:
            return limit.used(total)
        return total.at(self.delta)

    def _size(self, total: Total) -> Fraction:
        """The number by which totals are compared: ε if all are pure or there is a δ, else ρ."""
        if self.delta is None and not all(each.pure for each in self.totals.values()):
            return total.as_rho
        return self._epsilon(total) or Fraction(0)

    @property
    def pure(self) -> bool:
        """Whether the loss holds with δ = 0."""
        return self.total.pure and self.epsilon == self.total.epsilon

    def __str__(self) -> str:
        return self._sum() + self._more()

    def _sum(self) -> str:
        if not self.counted:
            return "Nothing is charged yet."
        costs = "1 release costs" if self.counted == 1 else f"{self.counted} releases cost together"
        if self.epsilon is None:
            lost = self.total.delta
            beside = f" beside δ = {at_most(lost)}" if lost else ""
            above = f" above {at_most(lost)}" if lost else ""
            total = at_most(self.total.as_rho)
            return f"{costs} ρ = {total}{beside} (zCDP; name a δ{above} to have it as ε)."
        also = "" if self.pure or self.delta is None else f", δ = {at_most(self.delta)}"
        whom = "" if self.worst is None else f" for people with {self.terms.parts} = {self.worst}"
        return f"{costs} ε = {at_most(self.epsilon)}{also}{whom}."

    def _more(self) -> str:
        if not self.uncounted:
            return ""
        if self.uncounted == 1:
            return " 1 more is not counted: what it tells comes on top."
        return f" {self.uncounted} more are not counted: what they tell comes on top."

    def by_part(self) -> str:
        """The losses of the parts that were published and of all others, the largest first."""
        parts = sorted(self.totals, key=lambda part: -self._size(self.totals[part]))
        found = {"all others" if part is None else part: self.totals[part] for part in parts}
        return "; ".join(f"{name}: {self._number(total)}" for name, total in found.items())

    def _number(self, total: Total) -> str:
        epsilon = self._epsilon(total)
        return f"ρ = {at_most(total.as_rho)}" if epsilon is None else f"ε = {at_most(epsilon)}"

    def left(self) -> str:
        """What the limit still allows beside the largest total: pure ε, or Gaussian noise."""
        limit = self.terms.limit
        if limit is None:
            return "no limit"
        pure, gaussian = limit.left_epsilon(self.total), limit.left_gaussian(self.total)
        found = [f"ε = {at_least(pure)}"] if pure else []
        if gaussian and limit.delta is not None:
            found.append(f"ε = {at_least(gaussian)} with δ = {at_most(limit.delta)}")
        return ", or ".join(found) or "nothing"

    def why(self) -> str:
        """Why the total is no plain sum, or the rest no plain difference; empty if both are."""
        limit, both = self.terms.limit, bool(self.total.epsilon and self.total.rho)
        if limit is not None and limit.adds_normal(self.total):
            return (
                "All noise is normal: the squares of its losses add up exactly, whatever is chosen "
                "after looking."
            )
        if limit is not None and limit.delta is not None and self.counted:
            return (
                "The total is what these releases cost as they are. What is left is counted at one "
                f"order, α = {float(limit.order):.3g}, that was fixed when the ledger was made, so "
                "that the limit holds whatever is chosen after looking: there a pure ε takes the "
                "smaller of ε and αε²/2, Gaussian noise takes αρ, and so the total and what is "
                "left need not add up to the limit. Pure releases alone may add up to all of it."
            )
        if both and self.epsilon is not None:
            return (
                "Pure losses add up as ε, Gaussian noise as ρ. Together they are stated in the "
                "better of two ways: the sum of ε and the ε of ρ, or all as ρ, a pure ε as ε²/2."
            )
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Numbers for programs: losses rounded up, what is left rounded down."""
        limit, epsilon = self.terms.limit, self.epsilon
        delta = None if epsilon is None else 0 if self.pure else self.delta
        return {
            "counted": self.counted,
            "not counted": self.uncounted,
            "epsilon": None if epsilon is None else float_at_least(epsilon),
            "delta": None if delta is None else float_at_least(Fraction(delta)),
            "part": self.worst,
            "rho": float_at_least(self.total.as_rho),
            "left epsilon": limit and _down(limit.left_epsilon(self.total)),
            "left rho": limit and _down(limit.left_rho(self.total)),
            "left epsilon with delta": limit and _down(limit.left_gaussian(self.total)),
        }


def _down(number: Fraction) -> float:
    return float_at_most(number) if number else 0.0


def refuse(bill: Bill, totals: Mapping[str | None, Total], limit: Limit) -> None:
    """Raise `PromiseError` if a bill exceeds the limit for one of the totals that it adds to."""
    if bill.loss is None:
        raise PromiseError(
            f"A ledger with a limit takes no release whose loss it cannot add up. {bill.remark} "
            "Nothing was charged."
        )
    concerned = (
        list(totals.values()) if bill.part is None else [totals.get(bill.part, totals[None])]
    )
    full = [total for total in concerned if not limit.allows(total.plus(bill.loss))]
    if not full:
        return
    if not bill.loss.pure and limit.delta is None:
        raise PromiseError(
            f"The promise of this release has a δ, and the ledger allows a pure ε only: leave "
            f"{named('delta')} out, or use a ledger with one. Nothing was charged."
        )
    if not bill.loss.normal and any(limit.adds_normal(each) for each in full):
        raise PromiseError(
            f"This release would cost {_cost(bill.loss)}, and the ledger began with normal noise: "
            "it takes releases with normal noise only. Use the method dyadic, or publish releases "
            f"of both kinds with a ledger that has {named('pure')}. Nothing was charged."
        )
    for each in full:
        _refuse_delta(bill.loss, each, limit)
    total = min(full, key=limit.left_epsilon)
    how = f" ({bill.remark.rstrip('.')})" if bill.remark else ""
    raise PromiseError(
        f"This release would cost {_cost(bill.loss)}{how}, but {_rest(bill.loss, total, limit)} "
        f"left of the limit {limit} of the ledger. Ask for less. Nothing was charged."
    )


def _refuse_delta(loss: PrivacyLoss, total: Total, limit: Limit) -> None:
    """Raise `PromiseError` if there is no room for the δ of a loss of (ε, δ)."""
    if not loss.delta:
        return
    if total.losses and not total.begins_with_delta:
        raise PromiseError(
            "A release with a δ of its own, as those of Keys have, is charged to a ledger that "
            "began with one, and keeps half of its δ for them. Publish keys first, or use another "
            "ledger. Nothing was charged."
        )
    left = limit.kept_delta - total.delta
    if loss.delta > left:
        rest = f"only δ = {at_least(left)} is" if left > 0 else "nothing is"
        raise PromiseError(
            f"This release would cost {_cost(loss)}, but of the δ of the ledger, of which half is "
            f"for such releases, {rest} left. Ask for less. Nothing was charged."
        )


def _cost(loss: PrivacyLoss) -> str:
    if loss.rho:
        return f"ρ = {at_most(loss.rho)}"
    also = f", δ = {at_most(loss.delta)}" if loss.delta else ""
    return f"ε = {at_most(loss.epsilon)}{also}"


def _rest(loss: PrivacyLoss, total: Total, limit: Limit) -> str:
    """What is left for a loss of this kind, as a clause."""
    left = limit.left_rho(total) if loss.rho else limit.left_epsilon(total)
    if not left:
        return "nothing is"
    if not loss.rho:
        return f"only ε = {at_least(left)} is"
    fits = at_least(limit.left_gaussian(total))
    return f"only ρ = {at_least(left)} (ε = {fits} with that δ) is"
