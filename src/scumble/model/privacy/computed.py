"""Numbers of promises that follow from what a release shows.

All is computed from the evidence alone, by other formulas than the mechanisms use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scumble.model.privacy.guarantee import Guarantee, posterior_at_most

SLACK = 1e-9  # relative: promises are rounded to floats


@dataclass(frozen=True)
class Computed:
    """A number of a promise: the one that follows from the evidence, and the promised one."""

    found: float
    claimed: float
    what: str
    name: str = ""

    @property
    def broken(self) -> bool:
        return self.found > self.claimed * (1 + SLACK)


def at_most(promise: Guarantee, name: str, found: float, what: str) -> Computed:
    """Return what was found for the parameter `name` of a promise, which is an upper limit."""
    return Computed(found, promise.parameters[name], what, name)


def worst(numbers: Iterable[Computed]) -> Computed:
    """Return a number that is beyond the promised one; the first one if none is."""
    found = list(numbers)
    return next((number for number in found if number.broken), found[0])


def compute_exposure(promise: Guarantee, success: float | Fraction, values: int) -> Computed:
    """Return the success of the best guess of one of `values` values, which the promise names."""
    what = "the success of the best guess of a value"
    wrong = promise.parameters["values"] != values
    return at_most(promise, "p", math.inf if wrong else float(success), what)


def total_ratio(ratios: Sequence[Fraction | None]) -> Fraction | None:
    """Return the amplification of all channels together; None if one is unbounded."""
    known = [ratio for ratio in ratios if ratio is not None]
    return math.prod(known, start=Fraction(1)) if len(known) == len(ratios) else None


def exposure_by_ratio(ratio: Fraction | None, values: int) -> Fraction:
    """Return the largest success of a guess of one of some values under an amplification."""
    return Fraction(1) if ratio is None else ratio / (ratio + values - 1)


def compute_by_ratios(promise: Guarantee, ratios: Sequence[Fraction | None]) -> Computed | None:
    """Return the number of a promise about perturbed rows; None if it is about something else.

    `ratios` has the amplification of each channel; None in it means unbounded.
    """
    if promise.statement == "γ-amplification within a sub-table":
        gammas = [math.inf if ratio is None else float(ratio) for ratio in ratios]
        gamma = max(gammas, default=math.inf)
        return at_most(promise, "gamma", gamma, "the amplification within a sub-table")
    if promise.statement == "ε-LDP" and ratios:  # of all channels together
        loss = math.fsum(math.inf if ratio is None else math.log(ratio) for ratio in ratios)
        whole = total_ratio(ratios)
        factor = math.inf if whole is None else float(whole)
        return worst(
            (
                at_most(promise, "epsilon", loss, "the loss of one row's sensitive values"),
                at_most(promise, "gamma", factor, "the amplification of all sensitive values"),
            )
        )
    if promise.statement == "(ρ1, ρ2)-privacy":  # the highest posterior of a single value
        prior = Fraction(promise.parameters["rho1"])
        ends = [1.0 if r is None else float(posterior_at_most(prior, r)) for r in ratios]
        what = f"the posterior of a prior of {float(prior):.3g}"
        return at_most(promise, "rho2", max(ends), what) if ends else None
    return None
