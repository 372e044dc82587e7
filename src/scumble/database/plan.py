"""A plan for a question: which numbers are there, which are to be given out, and what can only be
approached. It looks at earlier questions and answers, never at the table, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from scumble.database.asking import Asked
from scumble.database.memory import COUNT, Memory
from scumble.database.regression import Combination, combine
from scumble.database.relaxation import Compound, Distance, relax
from scumble.database.space import Boxes
from scumble.errors import PromiseError

Box = Boxes
Piece = dict[str, Any]
_NEAREST = 256


@dataclass(frozen=True)
class Manner:
    """How an analyst wants to be answered when the promise is used up."""

    relax: Literal["regression", "compound", "refuse"] = "regression"
    prefer: Literal["near", "exact"] = "near"  # a near box, or the box itself with a larger error
    most_error: float = float("inf")
    weights: tuple[float, ...] | None = None


@dataclass
class Plan:
    """What is decided so far. A piece is the answer for one box: the numbers it is made of with
    their weights, the region that they make up, and how far this is from the box.
    """

    memory: Memory
    analyst: str | None
    manner: Manner
    new: list[tuple[str, Box]] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)  # which of the new ones are counts

    def groups(self, asked: Asked) -> list[dict[str, Any]]:
        """The pieces of every group of a question."""
        self.memory.quota(self.analyst)  # who is unknown is told so first
        return [
            {
                "key": place,
                "pieces": [self._piece(kind, box) for kind in asked.kinds for box in group.boxes],
            }
            for place, group in enumerate(asked.groups)
        ]

    def _piece(self, kind: str, box: Box) -> Piece:
        number = self.memory.find(kind, box)
        if number is not None:
            return _piece(kind, box, "repeated", {number: 1})
        known = self.memory.relaxed.get((kind, box.tobytes()))
        if known is not None and known["error"] <= self.manner.most_error:
            return known
        if self.admits(box):
            return _piece(kind, box, "answered", {self._buy(kind, box): 1})
        if kind != COUNT:
            raise PromiseError(
                "The promise is used up for this part of the table: a sum or an average cannot be "
                "answered any more. Ask for a count, or for another part."
            )
        return self._relaxed(box)

    def admits(self, box: Box) -> bool:
        """Whether one more number for a box is within the promise, with all that is planned."""
        planned = sum(bool(_meet(box, other)) for _, other in self.new)
        return self.memory.room(box, 1 + planned, self.analyst)

    def ask(self, box: Box) -> int:
        """Plan to give out a count; its place among all counts."""
        self._buy(COUNT, box)
        return len(self.memory.boxes) + len(self._counts) - 1

    @property
    def boxes(self) -> Boxes:
        """The boxes of all counts, those that are planned last."""
        if not self._counts:
            return self.memory.boxes
        return np.concatenate([self.memory.boxes, [self.new[at][1] for at in self._counts]])

    def _buy(self, kind: str, box: Box) -> int:
        if kind == COUNT:
            self._counts.append(len(self.new))
        self.new.append((kind, box))
        return len(self.memory.given) + len(self.new) - 1

    def _number(self, count: int) -> int:
        """The number, among all that is given out, of a count."""
        known = len(self.memory.boxes)
        if count < known:
            return self.memory.number(count)
        return len(self.memory.given) + self._counts[count - known]

    def _relaxed(self, box: Box) -> Piece:
        most = self.memory.terms.relax
        if self.manner.relax == "refuse" or not most:
            raise PromiseError(
                "The promise is used up for this part of the table, and relaxation is off."
            )
        distance = Distance.over(self.memory.space.sizes, self.manner.weights)
        if self.manner.prefer == "exact":
            exact = self._combined(box, distance)
            if exact is not None:
                return self._combination(box, box, 0.0, exact)
        planned = len(self.new), len(self._counts)
        compound = relax(box, self, distance, most)
        if compound is None:
            return _piece(COUNT, box, "relaxed", {}, region=self.memory.space.whole)
        if compound.error > self.manner.most_error:
            del self.new[planned[0] :], self._counts[planned[1] :]
            raise PromiseError(self._too_far(compound))
        if self.manner.relax == "regression":
            better = self._combined(compound.region, distance)
            if better is not None and better.squares < compound.size:
                return self._combination(box, compound.region, compound.error, better)
        terms = {self._number(count): sign for count, sign in compound.signs().items()}
        return _piece(COUNT, box, "relaxed", terms, compound.region, compound.error)

    def _combined(self, box: Box, distance: Distance) -> Combination | None:
        """The best combination of the counts nearest to a box."""
        boxes = self.boxes
        if not len(boxes):
            return None
        errors = distance(boxes, box)
        nearest = np.argsort(errors, kind="stable")[:_NEAREST]
        return combine(box, boxes, nearest)

    def _combination(self, box: Box, region: Box, error: float, found: Combination) -> Piece:
        pairs = zip(found.answers, found.weights, strict=True)
        terms = {self._number(count): weight for count, weight in pairs}
        return _piece(COUNT, box, "relaxed", terms, region, error)

    def _too_far(self, compound: Compound) -> str:
        nearest = self.memory.space.sql(compound.region)
        return (
            "The promise is used up for this part of the table. The nearest question that can "
            f"be answered is SELECT COUNT(*) FROM t WHERE {nearest}, at a relaxation error of "
            f"{compound.error:.3g}; allow that much, or ask it."
        )


def _piece(
    kind: str,
    box: Box,
    status: str,
    terms: dict[int, Any],
    region: Box | None = None,
    error: float = 0.0,
) -> Piece:
    """As the ledger keeps it."""
    return {
        "kind": kind,
        "asked": box.tolist(),
        "status": status,
        "terms": [[number, weight] for number, weight in terms.items()],
        "region": (box if region is None else region).tolist(),
        "error": error,
    }


def _meet(box: Box, other: Box) -> bool:
    """Whether two boxes have a point in common."""
    return bool(((box[:, 0] <= other[:, 1]) & (other[:, 0] <= box[:, 1])).all())
