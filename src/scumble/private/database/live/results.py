"""What a live database returns: answers with what they cost, forecasts, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from scumble.model.errors import ParameterError
from scumble.public.estimate import Estimate, Estimates, format_number
from scumble.public.estimate_table import EstimateTable


@dataclass(frozen=True, repr=False)
class LiveAnswer:
    """The estimate that answers a question, and what it cost.

    `status` is "known" (free: nothing was measured), "answered" (the accuracy was reached) or
    "limited" (it was not: the promise, a quota or `largest_purchase` forbids it; `needed` is what
    it would have cost). `half_width` is the largest one of all numbers, at the level asked for.
    `charged` and `needed` are shares of what is for purchases, at one point. `fresh` has the new
    measurements alone, by group: their intervals hold whatever was seen before.
    """

    estimate: Estimate | Estimates | EstimateTable
    status: str
    half_width: float
    charged: float = 0.0
    fresh: Mapping[tuple[Any, ...], Estimate] = field(default_factory=dict)
    needed: float = 0.0

    def __repr__(self) -> str:
        half = format_number(self.half_width, self.half_width)
        paid = f"charged {100 * self.charged:.2g} %" if self.charged else "free"
        return f"{self.estimate!r}\n  {self.status}: half-width {half}, {paid}"


@dataclass(frozen=True, repr=False)
class LiveCost:
    """What would become of a question; nothing was charged.

    `half_width` is the largest one now, and `affordable` the one after what would be bought, which
    costs `charged`; the accuracy asked for would cost `needed`, and `room` may be spent at once
    (all as shares of what is for purchases). `status` is that of the answer.
    """

    status: str
    half_width: float
    affordable: float
    charged: float
    needed: float
    room: float

    def __repr__(self) -> str:
        now = f"half-width {format_number(self.half_width, self.half_width)}"
        if self.status == "known":
            return f"known: {now}, free"
        then = format_number(self.affordable, self.affordable)
        needed = f"; needed: {100 * self.needed:.2g} %" if self.status == "limited" else ""
        return f"{self.status}: {now} now, {then} for {100 * self.charged:.2g} %{needed}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LiveCost:
        """Return what a server told; a width that JSON cannot say is null there."""
        given: dict[str, Any] = {name: inf if each is None else each for name, each in data.items()}
        return cls(**given)


@dataclass(frozen=True)
class LiveStatus:
    """How much of the promise of a live database is used.

    `used` is the share of what is for purchases that is used at the most used point. `known`,
    `answered` and `limited` count the entries of the journal by status; `purchases` are the counts
    that were measured. `quotas` has the used share of each analyst's quota.
    """

    epsilon: float
    delta: float
    mu: float
    used: float
    known: int
    answered: int
    limited: int
    purchases: int
    points: int
    quotas: Mapping[str, float]


@dataclass(frozen=True)
class LiveUsage:
    """What an analyst asked and bought, as counts; with a quota, the share of what is for purchases
    that it allows at one point, and how much of that is used.
    """

    analyst: str | None
    known: int
    answered: int
    limited: int
    purchases: int
    quota: float | None = None
    used: float | None = None


def read_within(within: Any) -> float | str | None:
    """Return a half-width as it is stored: a number, or a share of the rows as text."""
    if within is None:
        return None
    share = isinstance(within, str) and within.strip().endswith("%")
    try:
        number = float(within.strip()[:-1] if share else within)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(within, bool) or not (isfinite(number) and number > 0):
        allowed = "a number above 0, as 50, or for counts a share of the rows, as '0.1%'"
        raise ParameterError.of("ask", "within", allowed, within)
    return f"{number}%" if share else number
