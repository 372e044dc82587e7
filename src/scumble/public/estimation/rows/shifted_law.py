"""The error law of an estimate to which a known number was added."""

from __future__ import annotations

from dataclasses import dataclass

from scumble.public.estimate import Law


@dataclass(frozen=True)
class Shifted:
    """`law` is that of the estimate without the known `offset`."""

    law: Law
    offset: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(value - self.offset, level)
        return low + self.offset, high + self.offset
