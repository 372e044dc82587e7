"""Answers of a database: an estimate, and what was really answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scumble.public.estimate import LEVEL, Estimate, Law


@dataclass(frozen=True)
class Between:
    """Nothing is known but limits, which may have noise."""

    value: float
    low: float
    high: float
    noise: Law

    @property
    def stderr(self) -> float:
        """No error is larger, but for the noise."""
        return max(self.value - self.low, self.high - self.value) + self.noise.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        below, above = self.noise.interval(0.0, level)
        return self.low + below, self.high + above


@dataclass(frozen=True)
class Possible:
    """The law of a count: its limits are cut to what a count can be, and reach to the estimate if
    that lies outside. A truth that was between the limits is so still.
    """

    law: Law
    most: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(value, level)
        return min(max(low, 0.0), value), max(min(high, self.most), value)


@dataclass(frozen=True, repr=False)
class LiveEstimate(Estimate):
    """An estimate with what became of the question.

    `status` is "answered", "repeated" (it was answered before and cost nothing) or "relaxed":
    `answered` is then the condition whose count this is, at the relaxation error `distance` from
    the question, made of `numbers` numbers.
    """

    status: str = "answered"
    answered: str = ""
    distance: float = 0.0
    numbers: int = 1

    @property
    def fate(self) -> str:
        return "not answered" if self.status == "relaxed" and not self.numbers else self.status

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        more = {
            "status": self.status,
            "answered": self.answered,
            "distance": self.distance,
            "numbers": self.numbers,
        }
        return {**super().to_dict(level), **more}

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  {self._fate()}"

    def _fate(self) -> str:
        if self.status != "relaxed":
            return f"{self.status} as asked"
        if not self.numbers:
            return "not answered: the promise is used up here, and no count helps"
        made = f"made of {self.numbers} number{'s' if self.numbers > 1 else ''}"
        if not self.distance:
            return f"exactly as asked, {made}"
        where = self.answered or "other boxes"
        return f"relaxed to {where} (error {self.distance:.3g}, {made})"
