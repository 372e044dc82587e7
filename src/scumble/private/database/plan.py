"""Plans of answers: which numbers are past answers, which are new, and which boxes are relaxed.

A plan depends on earlier questions and answers, never on the table, and does not change the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError, PromiseError
from scumble.private.database.questions.question import Question
from scumble.private.database.relaxation import (
    Combination,
    Compound,
    Distance,
    combine,
    nearest,
    relax,
)
from scumble.private.database.space import Box, Boxes
from scumble.private.database.state import COUNT, Batch, DatabaseState, of_batch


@dataclass
class AnswerPlan:
    """The decision about a question, batch by batch. Answers about batches add up."""

    state: DatabaseState
    analyst: str | None
    options: AnswerOptions
    new: list[tuple[int, str, Box]] = field(default_factory=list)  # batch, kind and box
    changes: bool = False  # whether the journal needs an entry

    def groups(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return the pieces of every group of all questions, for all batches.

        The questions are answered together or not at all: a piece that cannot be answered raises
        `PromiseError`.
        """
        self.state.batches[0].quota(self.analyst)  # reject unknown analysts first
        found: list[dict[str, Any]] = [
            {"key": place, "pieces": []}
            for place in range(sum(len(each.groups) for each in questions))
        ]
        batches = len(self.state.batches)
        left = max(MOST_RELAXED, batches)
        for number in range(1, batches + 1):
            first = len(self.state.past_answers) + len(self.new)
            part = BatchPlan(self.state, number, first, self.analyst, self.options, left)
            pieces_of_groups = [each for question in questions for each in _pieces(part, question)]
            for group, pieces in zip(found, pieces_of_groups, strict=True):
                group["pieces"] += pieces
            left -= part.relaxed
            self.new += [(number, kind, box) for kind, box in part.new]
            self.changes = self.changes or part.changes
        return found


def _meets(boxes: Boxes, box: Box) -> npt.NDArray[np.bool_]:
    """Return which of some boxes meet a box."""
    meet = (boxes[:, :, 0] <= box[:, 1]) & (box[:, 0] <= boxes[:, :, 1])
    return np.asarray(meet.all(axis=1))


def _pieces(plan: BatchPlan, question: Question) -> list[list[Piece]]:
    """Return for each group of a question the pieces about one batch."""
    strict = question.strict
    return [
        [plan.piece(kind, box, strict=strict) for kind in question.kinds for box in group.boxes]
        for group in question.groups
    ]


Piece = dict[str, Any]
HasRoom = Callable[[Boxes, int], bool]  # of a tracker

NO_SUMS = (
    "{} is used up for this part of {}: a sum or an average cannot be answered any more. "
    "Ask for a count, or for another part."
)
REFUSED = "{} is used up for this part of {}, and relaxation is off."
_MOST_PARTS = 2_000  # of a box that are looked at to find room
MOST_RELAXED = 50  # boxes of one question; other requests wait meanwhile
TOO_MANY = (
    f"The promise is used up for more than {MOST_RELAXED} parts of this question. Ask for fewer "
    "groups, or for one box at a time."
)


@dataclass
class BatchPlan:
    """The decision about one batch so far.

    A piece is the answer for one box: the answers it is made of with their weights (`terms`), the
    box whose count they add up to (`region`), and its distance from the box of the question
    (`error`).
    """

    state: DatabaseState
    number: int  # of the batch
    first: int  # the number of the next new answer
    analyst: str | None
    options: AnswerOptions
    most_relaxed: int  # boxes that may be relaxed
    new: list[tuple[str, Box]] = field(default_factory=list)
    changes: bool = False  # whether the journal needs an entry
    relaxed: int = 0  # boxes that were relaxed
    _batch: Batch = field(init=False)
    _counts: list[int] = field(default_factory=list)  # indices of the new answers that are counts
    _places: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _relaxed_pieces: dict[bytes, Piece] = field(default_factory=dict)  # by box
    _layers: list[int] = field(default_factory=list)  # of the new answers: see `_buy`
    _boxes: Boxes = field(init=False)  # of the new answers; longer than needed

    def __post_init__(self) -> None:
        self._batch = self.state.batches[self.number - 1]
        self._boxes = np.empty((16, *self.state.space.whole.shape), np.int64)

    def piece(self, kind: str, box: Box, *, strict: bool) -> Piece:
        """Return the piece for one box. With `strict` the box is not relaxed, but refused."""
        state, batch = self.state, self._batch
        if kind == COUNT and state.terms.sized and (box == state.space.whole).all():
            return {**self._piece(kind, box, "answered", {}), "rows": 1}  # public, hence free
        number = batch.find(kind, box)
        if number is None:
            number = self._places.get((kind, box.tobytes()))
        if number is not None:
            return self._piece(kind, box, "repeated", {number: 1})
        known = self._known_relaxed(box) if kind == COUNT and not strict else None
        if known is not None:
            return known
        if self.admits(box):
            return self._piece(kind, box, "answered", {self._buy(kind, box): 1})
        if strict:
            raise PromiseError(NO_SUMS.format(self._what(box), self._where))
        if self.options.relax == "refuse" or not state.terms.relax:
            raise PromiseError(REFUSED.format(self._what(box), self._where))
        known = batch.relaxed.get((self.options.name, box.tobytes()))
        if known is not None and known["error"] <= self.options.most_error:
            return known
        self.relaxed += 1
        if self.relaxed > self.most_relaxed:
            raise PromiseError(TOO_MANY)
        piece = {**self._relaxed(box), "manner": self.options.name}
        self.changes = self.changes or bool(piece["terms"])
        self._relaxed_pieces[box.tobytes()] = piece
        return piece

    def _known_relaxed(self, box: Box) -> Piece | None:
        """Return the relaxed piece that the same analyst got for a box, if any.

        It is found before there is room for the box, and so the answer to a repeated question is
        the same: `admits` may find room that it did not see among many boxes planned with this one.
        """
        if self.options.relax == "refuse":
            return None
        past = self._batch.relaxed_for.get((self.analyst, self.options.name, box.tobytes()))
        known = self._relaxed_pieces.get(box.tobytes(), past)
        return None if known is None or known["error"] > self.options.most_error else known

    def admits(self, box: Box) -> bool:
        """Whether one more answer for a box fits within ε, together with those planned."""
        if self.state.terms.tracker == "disjoint" and self._meeting(box):
            return False
        known = (self._batch.tracker, self._batch.quota(self.analyst))
        return all(self._fits(box, tracker.has_room) for tracker in known if tracker)

    def _fits(self, box: Box, has_room: HasRoom) -> bool:
        """Whether each point of a box has room for one more answer and those planned about it."""
        return self._parts_fit(box, 0, self._meeting(box), has_room, iter(range(_MOST_PARTS)))

    def _parts_fit(
        self, box: Box, depth: int, planned: list[int], has_room: HasRoom, parts: Iterator[int]
    ) -> bool:
        """Whether there is room in a box that lies in `depth` planned boxes and meets `planned`.

        Where the number of layers is too large a bound of the others that a point lies in, the part
        inside each planned box is looked at. `parts` counts them: if it ends, there is no room.
        """
        layers = len({self._layers[at] for at in planned})
        if has_room(box[np.newaxis], 1 + depth + layers):
            return True
        if next(parts, None) is None or not has_room(box[np.newaxis], 1 + depth):
            return False
        for place, at in enumerate(planned):
            low, high = self._boxes[at].T
            part = np.stack([np.maximum(box[:, 0], low), np.minimum(box[:, 1], high)], axis=1)
            others = planned[place + 1 :]
            meet = _meets(self._boxes[others], part)
            inside = [other for other, yes in zip(others, meet, strict=True) if yes]
            if not self._parts_fit(part, depth + 1, inside, has_room, parts):
                return False
        return True

    def _meeting(self, box: Box) -> list[int]:
        """Return the planned answers that meet a box."""
        found: list[int] = np.flatnonzero(_meets(self._boxes[: len(self.new)], box)).tolist()
        return found

    def _what(self, box: Box) -> str:
        """Return what is used up for a box that is not admitted, as the subject of a sentence."""
        whole = self._fits(box, self._batch.tracker.has_room)
        return "The analyst's quota" if whole else "The promise"

    def ask(self, box: Box) -> int:
        """Plan a new count, and return its index among all counts."""
        self._buy(COUNT, box)
        return len(self._batch.boxes) + len(self._counts) - 1

    @property
    def boxes(self) -> Boxes:
        """The boxes of all counts, the planned ones last."""
        if not self._counts:
            return self._batch.boxes
        return np.concatenate([self._batch.boxes, self._boxes[self._counts]])

    def _buy(self, kind: str, box: Box) -> int:
        at, number = len(self.new), self.first + len(self.new)
        # The boxes of one layer are disjoint: no point lies in more planned boxes than layers.
        taken = {self._layers[other] for other in self._meeting(box)}
        self._layers.append(next(layer for layer in count() if layer not in taken))
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
        """Return the number, among all answers, of the count at an index."""
        known = len(self._batch.boxes)
        if count < known:
            return self._batch.number(count)
        return self.first + self._counts[count - known]

    def _relaxed(self, box: Box) -> Piece:
        distance = Distance.over(self.state.space.sizes, self.options.weights)
        if self.options.prefer == "exact":
            exact = self._combined(box, distance)
            if exact is not None:
                return self._combination(box, box, 0.0, exact)
        start = len(self.new)
        compound = relax(box, self, distance, self.state.terms.relax)
        if compound is None or np.array_equal(compound.region, self.state.space.whole):
            # There are no counts to use, or only the public number of rows.
            self._forget(start)
            return self._piece(COUNT, box, "relaxed", {})
        if compound.error > self.options.most_error:
            raise PromiseError(self._too_far(compound))
        if self.options.relax == "regression":
            better = self._combined(compound.region, distance)
            if better is not None and better.squares < compound.size:
                return self._combination(box, compound.region, compound.error, better)
        terms = {self._number(count): sign for count, sign in compound.signs().items()}
        return self._piece(COUNT, box, "relaxed", terms, compound.region, compound.error)

    def _forget(self, start: int) -> None:
        """Drop the new answers that were planned from an index on."""
        for kind, box in self.new[start:]:
            del self._places[kind, box.tobytes()]
        del self.new[start:]
        del self._layers[start:]
        self._counts = [at for at in self._counts if at < start]

    def _combined(self, box: Box, distance: Distance) -> Combination | None:
        """Return the best combination of the counts nearest to a box, if there is one."""
        boxes = self.boxes
        if not len(boxes):
            return None
        return combine(box, boxes, nearest(distance(boxes, box)))

    def _combination(self, box: Box, region: Box, error: float, found: Combination) -> Piece:
        pairs = zip(found.answers, found.weights, strict=True)
        terms = {self._number(count): weight for count, weight in pairs}
        return self._piece(COUNT, box, "relaxed", terms, region, error)

    def _too_far(self, compound: Compound) -> str:
        nearest = self.state.space.sql(compound.region)
        return (
            f"The promise is used up for this part of {self._where}. The nearest question that can "
            f"be answered is SELECT COUNT(*) FROM t WHERE {nearest}, at a relaxation error of "
            f"{compound.error:.3g}: allow that much by max_relaxation_error (on the command line, "
            "--max-relaxation-error)."
        )

    @property
    def _where(self) -> str:
        return "the table" if len(self.state.batches) == 1 else f"batch {self.number}"

    def _piece(
        self,
        kind: str,
        box: Box,
        status: str,
        terms: Mapping[int, float],
        region: Box | None = None,
        error: float = 0.0,
    ) -> Piece:
        """Return a piece as the journal stores it."""
        return {
            "kind": kind,
            "asked": box.tolist(),
            "status": status,
            "terms": [[number, weight] for number, weight in terms.items()],
            "region": (box if region is None else region).tolist(),
            "error": error,
            **of_batch(self.number),
        }


# --- options of the analyst -----------------------------------------------------------------------

Relax = Literal["regression", "compound", "refuse"]
Prefer = Literal["near", "exact"]


@dataclass(frozen=True)
class AnswerOptions:
    """What an analyst wants when ε is used up.

    `relax` is the method of relaxation, `prefer` a near box or the box itself, `most_error` the
    largest relaxation error, `weights` the cost of moving the limits of each attribute.
    """

    relax: Relax = "regression"
    prefer: Prefer = "near"
    most_error: float = math.inf
    weights: tuple[float, ...] | None = None

    @classmethod
    def read(
        cls,
        relax: Relax,
        prefer: Prefer,
        error: float,
        weights: Mapping[str, float] | None,
        names: Sequence[str],
    ) -> AnswerOptions:
        """Return the options for these parameters, checked; raises `ParameterError`."""
        if relax not in get_args(Relax):
            raise ParameterError.of(
                "answer", "relax", f"one of {', '.join(get_args(Relax))}", relax
            )
        if prefer not in get_args(Prefer):
            raise ParameterError.of(
                "answer", "prefer", f"one of {', '.join(get_args(Prefer))}", prefer
            )
        if not isinstance(error, (int, float)) or not error >= 0:
            raise ParameterError.of("answer", "max_relaxation_error", "a number from 0 on", error)
        return cls(relax, prefer, float(error), None if weights is None else _read(weights, names))

    @property
    def name(self) -> str:
        """The options that decide which relaxed answer a box gets, as text."""
        weights = () if self.weights is None else self.weights
        return " ".join([self.relax, self.prefer, *map(repr, weights)])


def _read(weights: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    for name, weight in weights.items():
        if name not in names:
            raise ParameterError.of("answer", "weights", f"by names of {', '.join(names)}", name)
        if not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
            raise ParameterError.of("answer", "weights", "numbers from 0 on", weight)
    return tuple(float(weights.get(name, 1.0)) for name in names)
