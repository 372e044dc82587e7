"""A plan for a question: which numbers are there, which are to be given out, and what can only be
approached. It looks at earlier questions and answers, never at the table, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scumble.private.database.batch_plan import MOST_RELAXED, BatchPlan, Piece
from scumble.private.database.given import COUNT
from scumble.private.database.manner import Manner
from scumble.private.database.question import Asked
from scumble.private.database.space import Box
from scumble.private.database.state import Memory


@dataclass
class Plan:
    """What is decided about a question, batch by batch: the answers about them add up."""

    memory: Memory
    analyst: str | None
    manner: Manner
    new: list[tuple[int, str, Box]] = field(default_factory=list)  # batch, kind and box
    changes: bool = False  # whether the ledger has to know about it

    def groups(self, asked: Asked) -> list[dict[str, Any]]:
        """The pieces of every group of a question, those of all batches together."""
        self.memory.batches[0].quota(self.analyst)  # who is unknown is told so first
        found: list[dict[str, Any]] = [
            {"key": place, "pieces": []} for place in range(len(asked.groups))
        ]
        batches = len(self.memory.batches)
        left = max(MOST_RELAXED, batches)
        for number in range(1, batches + 1):
            first = len(self.memory.given) + len(self.new)
            part = BatchPlan(self.memory, number, first, self.analyst, self.manner, left)
            for group, pieces in zip(found, _pieces(part, asked), strict=True):
                group["pieces"] += pieces
            left -= part.relaxed
            self.new += [(number, kind, box) for kind, box in part.new]
            self.changes = self.changes or part.changes
        return found


def _pieces(plan: BatchPlan, asked: Asked) -> list[list[Piece]]:
    """For each group of a question the answers about one batch."""
    # The sum and the count of an average are of the same rows, or it is no average.
    strict = asked.kinds != (COUNT,)
    return [
        [plan.piece(kind, box, strict=strict) for kind in asked.kinds for box in group.boxes]
        for group in asked.groups
    ]
