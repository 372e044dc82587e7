"""Answers of a database: an estimate, and what was really answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from scumble.database.asking import Asked
from scumble.database.average_law import Average
from scumble.database.memory import COUNT, Given
from scumble.database.plan import Piece
from scumble.database.space import Space
from scumble.estimate import LEVEL, Estimate, Exact, Law, Unknown
from scumble.noise.laws import DiscreteLaplace, NoiseSum

NOISY = "noisy count; interval from the law of its noise"
SUMMED = "noisy sum; interval from the law of its noise"
MADE = "made of earlier answers; interval from the law of their noise"
RATIO = "ratio of a noisy sum and a noisy count; Fieller interval"
BEFORE = "no count was given out yet: what the size of the table says"
NOTHING = "no value satisfies the condition"


@dataclass(frozen=True)
class Between:
    """Nothing is known but limits."""

    low: float
    high: float

    @property
    def stderr(self) -> float:
        return (self.high - self.low) / 2

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.low, self.high


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
        return f"relaxed to {self.answered} (error {self.distance:.3g}, {self.numbers} answers)"


@dataclass(frozen=True)
class Reader:
    """Turns pieces into estimates with the numbers that were given out."""

    space: Space
    noise: Fraction
    rows: int

    def estimate(
        self, asked: Asked, pieces: Sequence[Piece], given: Mapping[int, Given]
    ) -> LiveEstimate:
        made = {kind: [p for p in pieces if p["kind"] == kind] for kind in asked.kinds}
        parts = [self._part(made[kind], given) for kind in asked.kinds]
        fate = self._fate_of(pieces)
        notes = (*asked.query.notes, *fate.pop("notes"))
        if not pieces:
            empty = asked.query.aggregate == "mean"  # the average of nothing is nothing
            law: Law = Unknown() if empty else Exact()
            return LiveEstimate(float("nan") if empty else 0.0, law, NOTHING, notes, **fate)
        if asked.query.aggregate == "mean":
            return self._mean(asked, parts, notes, fate)
        [(value, law)] = parts
        method = SUMMED if asked.kinds != (COUNT,) else NOISY
        if isinstance(law, Between):
            method = BEFORE
        elif fate["status"] == "relaxed":
            method = MADE
        return LiveEstimate(value, law, method, notes, **fate)

    def _mean(
        self, asked: Asked, parts: list[tuple[float, Law]], notes: tuple[str, ...], fate: Any
    ) -> LiveEstimate:
        (total, of_total), (count, of_count) = parts
        values = asked.amounts.values if asked.amounts else ()
        law = Average(
            total, count, of_total.stderr**2, of_count.stderr**2, int(min(values)), int(max(values))
        )
        return LiveEstimate(law.value, law, RATIO, (*notes, *law.notes), **fate)

    def _part(self, pieces: Sequence[Piece], given: Mapping[int, Given]) -> tuple[float, Law]:
        """The weighted sum of numbers, and its law; all of one kind have noise of one scale."""
        weights: dict[int, float] = {}
        for piece in pieces:
            if not piece["terms"]:
                return self._before(piece)
            for number, weight in piece["terms"]:
                weights[number] = weights.get(number, 0) + weight
        value = sum(weight * given[number].value for number, weight in weights.items())
        times = max((given[number].times for number in weights), default=1)
        terms: dict[float, int] = {}
        for weight in weights.values():
            if weight:
                terms[abs(weight)] = terms.get(abs(weight), 0) + 1
        if not terms:
            return float(value), Exact()
        return float(value), NoiseSum(DiscreteLaplace(self.noise * times), terms)

    def _before(self, piece: Piece) -> tuple[float, Law]:
        """Without any count: the box's share of the space, of all rows."""
        share = 1.0
        for size, (low, high) in zip(self.space.sizes, piece["asked"], strict=True):
            share *= (high - low + 1) / size
        return self.rows * share, Between(0.0, float(self.rows))

    def _fate_of(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        kinds = {piece["status"] for piece in pieces}
        status = next((s for s in ("relaxed", "answered", "repeated") if s in kinds), "answered")
        moved = [piece for piece in pieces if piece["status"] == "relaxed"]
        listed = [self.space.sql(np.array(piece["region"], np.int64)) for piece in pieces]
        notes = [self._moved(piece) for piece in moved[:3] if piece["terms"]]
        return {
            "status": status,
            "answered": " OR ".join(dict.fromkeys(listed)) if len(listed) <= 20 else "",
            "distance": max((piece["error"] for piece in pieces), default=0.0),
            "numbers": len({number for piece in pieces for number, _ in piece["terms"]}),
            "notes": notes,
        }

    def _moved(self, piece: Piece) -> str:
        """Which ends of which attributes were moved."""
        ends = []
        boxes = zip(self.space.names, piece["asked"], piece["region"], strict=True)
        for name, wanted, got in boxes:
            pairs = zip(("lower", "upper"), wanted, got, strict=True)
            sides = [side for side, before, after in pairs if before != after]
            if sides:
                ends.append(f"the {' and '.join(sides)} end of {name}")
        return f"moved {', '.join(ends)}" if ends else "exactly the box that was asked for"
