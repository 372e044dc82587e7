"""A plan for a question: which numbers are there, which are to be given out, and what can only be
approached. It looks at earlier questions and answers, never at the table, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scumble.database.asking import Asked
from scumble.database.manner import Manner
from scumble.database.memory import COUNT, Memory
from scumble.database.regression import MOST, Combination, combine
from scumble.database.relaxation import Compound, Distance, relax
from scumble.database.space import Box, Boxes
from scumble.errors import PromiseError

Piece = dict[str, Any]

NO_SUMS = (
    "The promise is used up for this part of the table: a sum or an average cannot be answered any "
    "more. Ask for a count, or for another part."
)
REFUSED = "The promise is used up for this part of the table, and relaxation is off."
MOST_RELAXED = 50  # boxes of one question: all others wait meanwhile


@dataclass
class Plan:
    """What is decided so far. A piece is the answer for one box: the numbers it is made of with
    their weights, the region that they make up, and how far this is from the box.
    """

    memory: Memory
    analyst: str | None
    manner: Manner
    new: list[tuple[str, Box]] = field(default_factory=list)
    changes: bool = False  # whether the ledger has to know about it
    _counts: list[int] = field(default_factory=list)  # which of the new ones are counts
    _places: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _boxes: Boxes = field(init=False)  # of the new ones, with room for more
    _approached: int = 0  # boxes that were relaxed

    def __post_init__(self) -> None:
        self._boxes = np.empty((16, *self.memory.space.whole.shape), np.int64)

    def groups(self, asked: Asked) -> list[dict[str, Any]]:
        """The pieces of every group of a question."""
        self.memory.quota(self.analyst)  # who is unknown is told so first
        # The sum and the count of an average are of the same rows, or it is no average.
        strict = asked.kinds != (COUNT,)
        return [
            {
                "key": place,
                "pieces": [
                    self._piece(kind, box, strict) for kind in asked.kinds for box in group.boxes
                ],
            }
            for place, group in enumerate(asked.groups)
        ]

    def admits(self, box: Box) -> bool:
        """Whether one more number for a box is within the promise, with all that is planned."""
        new = self._boxes[: len(self.new)]
        meet = (new[:, :, 0] <= box[:, 1]) & (box[:, 0] <= new[:, :, 1])
        planned = int(meet.all(axis=1).sum())
        if planned and self.memory.terms.tracker == "disjoint":
            return False
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
        return np.concatenate([self.memory.boxes, self._boxes[self._counts]])

    def _piece(self, kind: str, box: Box, strict: bool) -> Piece:
        memory = self.memory
        if kind == COUNT and memory.terms.sized and (box == memory.space.whole).all():
            return {**_piece(kind, box, "answered", {}), "rows": 1}  # public: it costs nothing
        number = memory.find(kind, box)
        if number is None:
            number = self._places.get((kind, box.tobytes()))
        if number is not None:
            return _piece(kind, box, "repeated", {number: 1})
        if self.admits(box):
            return _piece(kind, box, "answered", {self._buy(kind, box): 1})
        if strict:
            raise PromiseError(NO_SUMS)
        if self.manner.relax == "refuse" or not memory.terms.relax:
            raise PromiseError(REFUSED)
        known = memory.relaxed.get((self.manner.name, box.tobytes()))
        if known is not None and known["error"] <= self.manner.most_error:
            return known
        self._approached += 1
        if self._approached > MOST_RELAXED:
            raise PromiseError(
                f"The promise is used up for more than {MOST_RELAXED} parts of this question. Ask "
                "for fewer groups, or for one box at a time."
            )
        piece = {**self._relaxed(box), "manner": self.manner.name}
        self.changes = self.changes or bool(piece["terms"])
        return piece

    def _buy(self, kind: str, box: Box) -> int:
        at, number = len(self.new), len(self.memory.given) + len(self.new)
        if at == len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[at] = box
        if kind == COUNT:
            self._counts.append(at)
        self.new.append((kind, box))
        self._places[kind, box.tobytes()] = number
        self.changes = True
        return number

    def _number(self, count: int) -> int:
        """The number, among all that is given out, of a count."""
        known = len(self.memory.boxes)
        if count < known:
            return self.memory.number(count)
        return len(self.memory.given) + self._counts[count - known]

    def _relaxed(self, box: Box) -> Piece:
        distance = Distance.over(self.memory.space.sizes, self.manner.weights)
        if self.manner.prefer == "exact":
            exact = self._combined(box, distance)
            if exact is not None:
                return self._combination(box, box, 0.0, exact)
        start = len(self.new)
        compound = relax(box, self, distance, self.memory.terms.relax)
        if compound is None or np.array_equal(compound.region, self.memory.space.whole):
            # There are no counts to make it of, or only such that tell what everybody knows.
            self._forget(start)
            return _piece(COUNT, box, "relaxed", {})
        if compound.error > self.manner.most_error:
            raise PromiseError(self._too_far(compound))
        if self.manner.relax == "regression":
            better = self._combined(compound.region, distance)
            if better is not None and better.squares < compound.size:
                return self._combination(box, compound.region, compound.error, better)
        terms = {self._number(count): sign for count, sign in compound.signs().items()}
        return _piece(COUNT, box, "relaxed", terms, compound.region, compound.error)

    def _forget(self, start: int) -> None:
        """Take back the numbers that were planned from a place on."""
        for kind, box in self.new[start:]:
            del self._places[kind, box.tobytes()]
        del self.new[start:]
        self._counts = [at for at in self._counts if at < start]

    def _combined(self, box: Box, distance: Distance) -> Combination | None:
        """The best combination of the counts nearest to a box."""
        boxes = self.boxes
        if not len(boxes):
            return None
        nearest = np.argsort(distance(boxes, box), kind="stable")[:MOST]
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
            f"{compound.error:.3g}: allow that much with max_relaxation_error."
        )


def _piece(
    kind: str,
    box: Box,
    status: str,
    terms: Mapping[int, float],
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
