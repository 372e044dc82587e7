"""The reader: what was decided, and the numbers that were given out, as estimates for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from scumble.database.asking import Asked
from scumble.database.average_law import Average
from scumble.database.live import Between, LiveEstimate
from scumble.database.memory import COUNT, Given
from scumble.database.plan import Piece
from scumble.database.space import Boxes, Space
from scumble.estimate import Estimates, Exact, Law, Unknown
from scumble.noise.laws import DiscreteLaplace, NoiseSum

NOISY = "noisy count; interval from the law of its noise"
SUMMED = "noisy sum; interval from the law of its noise"
MADE = "made of earlier answers; interval from the law of their noise"
RATIO = "ratio of a noisy sum and a noisy count; Fieller interval"
BEFORE = "no count was given out yet: what the size of the table says"
NOTHING = "no value satisfies the condition"
ALL = "the number of rows, which is not hidden"
TWICE = "the boxes that were really counted overlap: rows in several of them count as often"

_LISTED = 20  # boxes in what is said about an answer
_MOVED = 3  # boxes of which the moved ends are told


@dataclass(frozen=True)
class Reader:
    """Turns pieces into estimates; `rows` is None where their number is not public."""

    space: Space
    noise: Fraction
    rows: int | None

    def read(
        self, asked: Asked, groups: Sequence[Mapping[str, Any]], given: Mapping[int, Given]
    ) -> LiveEstimate | Estimates:
        """One estimate, or one for each group."""
        found = [
            (group.key, self.estimate(asked, told["pieces"], given))
            for group, told in zip(asked.groups, groups, strict=True)
        ]
        if not asked.query.groups:
            [(_, estimate)] = found
            return estimate
        attributes = [self.space.attributes[self.space.names.index(n)] for n in asked.query.groups]
        return Estimates([(each.name, each.arrow_type) for each in attributes], found)

    def estimate(
        self, asked: Asked, pieces: Sequence[Piece], given: Mapping[int, Given]
    ) -> LiveEstimate:
        fate = self._fate_of(pieces)
        notes = (*asked.query.notes, *fate.pop("notes"))
        if not pieces:
            empty = asked.query.aggregate == "mean"  # the average of nothing is nothing
            law: Law = Unknown() if empty else Exact()
            return LiveEstimate(float("nan") if empty else 0.0, law, NOTHING, notes, **fate)
        parts = [
            self._part([piece for piece in pieces if piece["kind"] == kind], given)
            for kind in asked.kinds
        ]
        if asked.query.aggregate == "mean":
            ratio = _average(asked, parts, given, pieces)
            return LiveEstimate(ratio.value, ratio, RATIO, (*notes, *ratio.notes), **fate)
        [(value, law)] = parts
        method = _method(law, asked, fate["status"])
        return LiveEstimate(value, law, method, notes, **fate)

    def _part(self, pieces: Sequence[Piece], given: Mapping[int, Given]) -> tuple[float, Law]:
        """The weighted sum of numbers, and its law; all of one kind have noise of one scale."""
        if any(not piece["terms"] and "rows" not in piece for piece in pieces):
            return self._before(pieces)
        weights: dict[int, float] = {}
        value: float = sum(piece.get("rows", 0) for piece in pieces) * (self.rows or 0)
        for piece in pieces:
            for number, weight in piece["terms"]:
                weights[number] = weights.get(number, 0) + weight
        value += sum(weight * given[number].value for number, weight in weights.items())
        times = max((given[number].times for number in weights), default=1)
        terms: dict[float, int] = {}
        for weight in weights.values():
            if weight:
                terms[abs(weight)] = terms.get(abs(weight), 0) + 1
        if not terms:
            return float(value), Exact()
        return float(value), NoiseSum(DiscreteLaplace(self.noise * times), terms)

    def _before(self, pieces: Sequence[Piece]) -> tuple[float, Law]:
        """Without any count for a box: the boxes' share of the space, of all rows."""
        if self.rows is None:
            return float("nan"), Unknown()
        share = 0.0
        for piece in pieces:
            sides = zip(self.space.sizes, piece["asked"], strict=True)
            share += float(np.prod([(high - low + 1) / size for size, (low, high) in sides]))
        value = self.rows * min(share, 1.0)
        return value, Between(value, 0.0, float(self.rows))

    def _fate_of(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        kinds = {piece["status"] for piece in pieces}
        status = next((s for s in ("relaxed", "answered", "repeated") if s in kinds), "answered")
        moved = [piece for piece in pieces if piece["status"] == "relaxed" and piece["terms"]]
        notes = [self._moved(piece) for piece in moved[:_MOVED]]
        # Unless ends were moved, only the sum and the count of an average share a region.
        regions = [piece["region"] for piece in pieces]
        if not moved:
            regions = list({str(region): region for region in regions}.values())
        boxes = np.array(regions, np.int64).reshape(-1, len(self.space), 2)
        apart = not moved or _apart(boxes)
        notes += [] if apart else [TWICE]
        listed = map(self.space.sql, boxes) if len(boxes) <= _LISTED else ()
        return {
            "status": status,
            "answered": (" OR " if apart else " + ").join(listed) if len(boxes) else "FALSE",
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


def _method(law: Law, asked: Asked, status: str) -> str:
    if isinstance(law, (Between, Unknown)):
        return BEFORE
    if isinstance(law, Exact):
        return ALL
    if status == "relaxed":
        return MADE
    return NOISY if asked.kinds == (COUNT,) else SUMMED


def _average(
    asked: Asked,
    parts: Sequence[tuple[float, Law]],
    given: Mapping[int, Given],
    pieces: Sequence[Piece],
) -> Average:
    (total, of_total), (count, of_count) = parts
    amounts = asked.amounts.values if asked.amounts is not None else np.zeros(1, np.int64)
    numbers = {number for piece in pieces for number, _ in piece["terms"]}
    counts = sum(given[number].kind == COUNT for number in numbers)
    return Average(
        total,
        count,
        of_total.stderr**2,
        of_count.stderr**2,
        (len(numbers) - counts, counts),
        int(amounts.min()),
        int(amounts.max()),
    )


def _apart(boxes: Boxes) -> bool:
    """Whether no two boxes have a point in common."""
    for place, box in enumerate(boxes[:-1]):
        others = boxes[place + 1 :]
        meet = (others[:, :, 0] <= box[:, 1]) & (box[:, 0] <= others[:, :, 1])
        if meet.all(axis=1).any():
            return False
    return True
