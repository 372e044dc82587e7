"""Plans of answers: which numbers are past answers, which are new, and which boxes are relaxed.

A plan depends on earlier questions and answers, never on the table, and does not change the state.
It is made on a snapshot, while others may ask and are answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from scumble.model.errors import ParameterError, PromiseError
from scumble.model.query import Expression
from scumble.private.database.questions.amounts import Amounts, Integers, Summand
from scumble.private.database.questions.decomposition import rejoin_over
from scumble.private.database.questions.question import Group, Question
from scumble.private.database.relaxation import (
    Combination,
    Compound,
    Distance,
    candidates,
    combine,
    relax,
)
from scumble.private.database.space import Box, Boxes
from scumble.private.database.state import COUNT, Batch, Snapshot, of_batch
from scumble.private.database.trackers import Accepted
from scumble.private.journal.entries import check_word


@dataclass
class AnswerPlan:
    """The decision about a question, batch by batch. Answers about batches add up."""

    snapshot: Snapshot
    options: AskOptions
    grouped: bool = False  # whether the questions have a GROUP BY
    new: list[tuple[int, str, Box]] = field(default_factory=list)  # batch, kind and box
    changes: bool = False  # whether the journal needs an entry

    def groups(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return the pieces of every group of all questions, for all batches.

        The questions are answered together or not at all: a piece that cannot be answered raises
        `PromiseError`. If they are `grouped`, a group whose sums, averages and quantiles cannot
        all be answered gets none of them, and is not charged, as long as another group gets its
        own.
        """
        snapshot = self.snapshot
        snapshot.batches[0].batch.quota(self.options.analyst)  # reject unknown analysts first
        may_omit = self.grouped and self.options.relaxes(snapshot.state.terms.relax)
        omitted: dict[GroupName, str] | None = {} if may_omit else None
        while True:
            before = len(omitted or ())
            self.new, self.changes = [], False
            found = self._groups(questions, omitted)
            if not omitted or len(omitted) == before:
                return found
            wanted = (question for question in questions if _may_be_omitted(question))
            if all(_name(of, group) in omitted for of in wanted for group in of.groups):
                raise PromiseError(next(iter(omitted.values())))

    def _groups(
        self, questions: Sequence[Question], omitted: dict[GroupName, str] | None
    ) -> list[dict[str, Any]]:
        """Return the pieces of every group, those of `omitted` groups without terms.

        Groups that cannot be answered either are added to them.
        """
        snapshot = self.snapshot
        found: list[dict[str, Any]] = [
            {"key": place, "pieces": []}
            for place in range(sum(len(each.groups) for each in questions))
        ]
        batches = len(snapshot.batches)
        left = max(MOST_RELAXED, batches)
        for number in range(1, batches + 1):
            first = snapshot.past + len(self.new)
            part = BatchPlan(snapshot, number, first, self.options, left, omitted)
            for group, pieces in zip(found, part.pieces(questions), strict=True):
                group["pieces"] += pieces
            left -= part.relaxed
            self.new += [(number, kind, box) for kind, box in part.new]
            self.changes = self.changes or part.changes
        return found


Piece = dict[str, Any]
HasRoom = Callable[[Boxes, int], bool]  # of a tracker
NumberName = int | tuple[int, str]  # a number of a question, or one of those that it is made of
# The condition of a question, its grouping attributes, and their values.
GroupName = tuple[tuple[Expression, ...], tuple[str, ...], tuple[Any, ...]]

NO_SUMS = (
    "{} is used up for this part of {}: a sum, an average, a quantile or a share cannot be "
    "answered any more. Ask for a count, or for another part."
)
REFUSED = "{} is used up for this part of {}, and relaxation is off."
_MOST_PARTS = 20_000  # of the boxes of a question that are looked at to find room, in a second
_FEW = 100  # boxes of a number that are compared with each other
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

    The boxes of one number of a question, for all groups, are disjoint: no point lies in more new
    boxes than there are numbers. Where that leaves room, new boxes are not compared with each
    other, and so a question by 10,000 groups is planned in one pass. Elsewhere they are in layers
    of disjoint boxes.
    """

    snapshot: Snapshot
    number: int  # of the batch
    first: int  # the number of the next new answer
    options: AskOptions
    most_relaxed: int  # boxes that may be relaxed
    omitted: dict[GroupName, str] | None = None  # groups without sums, and why; None: refuse all
    new: list[tuple[str, Box]] = field(default_factory=list)
    changes: bool = False  # whether the journal needs an entry
    relaxed: int = 0  # boxes that were relaxed
    _batch: Batch = field(init=False)
    _past: Boxes = field(init=False)  # of all past counts
    _counts: list[int] = field(default_factory=list)  # indices of the new answers that are counts
    _places: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _relaxed_pieces: dict[bytes, Piece] = field(default_factory=dict)  # by box
    _layers: list[int] = field(default_factory=list)  # of the first new answers: see `_layer`
    _asked: list[NumberName] = field(default_factory=list)  # the number that each new answer is for
    _answers: dict[NumberName, int] = field(default_factory=dict)  # how many are for each number
    _numbers: int = 0  # of all questions so far
    _parts: Iterator[int] = field(default_factory=lambda: iter(range(_MOST_PARTS)))
    _boxes: Accepted = field(init=False)  # of the new answers

    def __post_init__(self) -> None:
        self._batch, self._past = self.snapshot.batches[self.number - 1]
        self._boxes = Accepted(len(self.snapshot.state.space))

    def pieces(self, questions: Sequence[Question]) -> list[list[Piece]]:
        """Return for each group of all questions the pieces about this batch.

        Boxes for which there is no room are relaxed once all others are planned: what is planned
        helps them, whether it comes before or after them in the questions.
        """
        found: list[list[Piece | None]] = []
        waiting: list[tuple[list[Piece | None], int, Box]] = []
        for question in questions:
            first = self._numbers
            self._numbers += len(question.summands)
            for group in question.groups:
                pieces = self._of_group(question, group, first)
                boxes = [box for _, box in question.numbers(group)]
                for place, (piece, box) in enumerate(zip(pieces, boxes, strict=True)):
                    if piece is None:
                        waiting.append((pieces, place, box))
                found.append(pieces)
        self._relax_all([box for _, _, box in waiting])
        for pieces, place, box in waiting:
            pieces[place] = self._relaxed_pieces[box.tobytes()]
        return [[piece for piece in pieces if piece is not None] for pieces in found]

    def _of_group(self, question: Question, group: Group, first: int) -> list[Piece | None]:
        """Return the pieces of one group; None for those to be relaxed.

        `first` is the number of the question's first number. Nothing is planned for an omitted
        group.
        """
        omitted = self.omitted if _may_be_omitted(question) else None
        name, start = _name(question, group), len(self.new)
        if omitted is None or name not in omitted:
            try:
                return self._planned(question, group, first)
            except _NoRoomError as refusal:
                if omitted is None:
                    raise PromiseError(str(refusal)) from None
                self._forget(start)
                omitted[name] = str(refusal)
        return [self._piece(of.kind, box, "relaxed", {}) for of, box in question.numbers(group)]

    def _planned(self, question: Question, group: Group, first: int) -> list[Piece | None]:
        pieces: list[Piece | None] = []
        asked = group.asked or group.parts
        numbers = zip(question.summands, group.parts, asked, strict=True)
        for number, (summand, boxes, wider) in enumerate(numbers, first):
            whole = _by_part(summand, boxes, wider)
            for box in boxes:
                pieces.append(self.piece(summand, box, number, whole, strict=question.strict))
        return pieces

    def piece(
        self, summand: Summand, box: Box, number: int, whole: Mapping[bytes, Boxes], *, strict: bool
    ) -> Piece | None:
        """Return the piece for one box; None if it is to be relaxed. With `strict` it is refused.

        The box is disjoint from all others of its number. `whole` has the boxes that were asked, by
        the part of a sum of columns that they are joined to.
        """
        state, kind = self.snapshot.state, summand.kind
        if kind == COUNT and self._is_public(box):
            return {**self._piece(kind, box, "answered", {}), "rows": 1}  # public, hence free
        answer = self._find(kind, box, summand.amounts)
        if answer is not None:
            return self._piece(kind, box, "repeated", {answer: 1})
        made = self._made_of_columns(summand, box, number, whole)
        if made is not None:
            return made
        known = self._known_relaxed(box) if kind == COUNT and not strict else None
        if known is not None:
            return known
        if self.admits(box, number):
            return self._piece(kind, box, "answered", {self._buy(kind, box, number): 1})
        if strict:
            raise _NoRoomError(NO_SUMS.format(self._what(box), self._where))
        if not self.options.relaxes(state.terms.relax):
            raise PromiseError(REFUSED.format(self._what(box), self._where))
        return None

    def _relax_all(self, boxes: Sequence[Box]) -> None:
        """Relax boxes. Those that no count helps are tried again after more counts are planned."""
        waiting = {box.tobytes(): box for box in boxes}
        for name in waiting:
            known = self._usable(self._batch.relaxed.get((self.options.name, name)))
            if known is not None:
                self._relaxed_pieces[name] = known
        waiting = {name: box for name, box in waiting.items() if name not in self._relaxed_pieces}
        self.relaxed += len(waiting)
        if self.relaxed > self.most_relaxed:
            raise PromiseError(TOO_MANY)
        before = -1
        while waiting and len(self.new) > before:
            before = len(self.new)
            for name, box in list(waiting.items()):
                piece = {**self._relaxed(box), "manner": self.options.name}
                self._relaxed_pieces[name] = piece
                if piece["terms"]:
                    self.changes = True
                    del waiting[name]

    def _is_public(self, box: Box) -> bool:
        """Whether the count of a box is the number of rows, which is not hidden."""
        state = self.snapshot.state
        return state.terms.sized and bool((box == state.space.whole).all())

    def _find(self, kind: str, box: Box, amounts: Amounts | None = None) -> int | None:
        """Return the number of the answer for exactly this box, given or planned, if any.

        A sum of `amounts` may have been given for a wider box in which rows add no more.
        """
        for same in [box] if amounts is None else amounts.equal_boxes(box):
            number = self._batch.find(kind, same)
            if number is not None and number < self.snapshot.past:
                return number
        return self._places.get((kind, box.tobytes()))

    def _made_of_columns(
        self, summand: Summand, box: Box, number: int, whole: Mapping[bytes, Boxes]
    ) -> Piece | None:
        """Return a sum by those of columns, squares and products, if all were given for its rows.

        They are for the boxes that were asked, or another with the same sum; where there are
        several, the one for which all were given first. A sum of squares or products is made of
        nothing else: what was not given is bought, unless a column has only one value there.
        """
        if summand.amounts is None or not summand.columns:
            return None
        regions = self._same_sum(summand.amounts, box, whole)
        found = [made for each in regions if (made := self._columns(summand, each)) is not None]
        made = min(found, key=lambda made: max(made[0]), default=None)
        if made is None and summand.squares:
            ends = regions[0][:, summand.amounts.axes]
            if (ends[..., 0] < ends[..., 1]).all(axis=1).any():
                made = self._columns(summand, regions[0], number)
        if made is None:
            return None
        terms, rows = made
        piece = self._piece(summand.kind, box, "repeated" if found else "answered", terms)
        return {**piece, "rows": rows} if rows else piece

    def _same_sum(self, amounts: Amounts, box: Box, whole: Mapping[bytes, Boxes]) -> list[Boxes]:
        """Return boxes that together have the same sum of columns, without missing values.

        The first are those that were asked.
        """
        attributes, found = self.snapshot.state.space.attributes, dict[bytes, Boxes]()
        asked = whole.get(box.tobytes(), box[np.newaxis])
        for each in (asked, *(same[np.newaxis] for same in amounts.equal_boxes(box))):
            known = each.copy()
            for axis in amounts.axes:
                last = attributes[axis].size - 1 - attributes[axis].missing
                known[:, axis, 1] = np.minimum(known[:, axis, 1], last)
            found[known.tobytes()] = known
        return list(found.values())

    def _columns(
        self, summand: Summand, boxes: Boxes, number: int | None = None
    ) -> tuple[dict[int, float], float] | None:
        """Return the numbers that make up a sum, by their weights, and that of the public count.

        None if one was not given. For the `number` of a question those are bought.
        """
        terms: dict[int, float] = {}
        rows = 0.0
        for column in summand.columns:
            codes = {} if column.amounts is None else column.amounts.codes
            weight = _plain(column.weight)
            # Each box by itself, as where it alone is asked about; none where the column is 0.
            parts = (part for box in boxes for part in rejoin_over(box[np.newaxis], codes))
            for part in parts:
                if column.kind == COUNT and self._is_public(part):
                    rows = weight
                    continue
                answer = self._find(column.kind, part, column.amounts)
                if answer is None:
                    if number is None:
                        return None
                    own = (number, column.kind)  # its boxes are disjoint, as those of the number
                    if not self.admits(part, own):
                        raise _NoRoomError(NO_SUMS.format(self._what(part), self._where))
                    answer = self._buy(column.kind, part, own)
                terms[answer] = weight
        return (terms, rows) if terms else None

    def _known_relaxed(self, box: Box) -> Piece | None:
        """Return the relaxed piece that the same analyst got for a box, if any.

        It is found before there is room for the box, and so the answer to a repeated question is
        the same: `admits` may find room that it did not see among many boxes planned with this one.
        """
        if self.options.relax == "refuse":
            return None
        analyst, name = self.options.analyst, self.options.name
        return self._usable(self._batch.relaxed_for.get((analyst, name, box.tobytes())))

    def _usable(self, past: Piece | None) -> Piece | None:
        """Return a past relaxed piece if it is near enough, and was made before the snapshot."""
        if past is None or past["error"] > self.options.max_relaxation_error:
            return None
        known = self.snapshot.past
        return past if all(number < known for number, _ in past["terms"]) else None

    def admits(self, box: Box, number: NumberName | None = None) -> bool:
        """Whether one more answer for a box fits within ε, together with those planned.

        The box is disjoint from those of the number of a question that it is for, if any.
        """
        if self.snapshot.state.terms.tracker == "disjoint" and self._meeting(box):
            return False
        known = (self._batch.tracker, self._batch.quota(self.options.analyst))
        return all(self._fits(box, tracker.has_room, number) for tracker in known if tracker)

    def _fits(self, box: Box, has_room: HasRoom, number: NumberName | None = None) -> bool:
        """Whether each point of a box has room for one more answer and those planned about it."""
        others = len(self._answers) - (number in self._answers)
        if has_room(box[np.newaxis], 1 + others):
            return True
        if not others:
            return False
        return self._parts_fit(box, 0, self._meeting(box), has_room)

    def _parts_fit(self, box: Box, depth: int, planned: list[int], has_room: HasRoom) -> bool:
        """Whether there is room in a box that lies in `depth` planned boxes and meets `planned`.

        Where the number of layers is too large a bound of the others that a point lies in, the part
        inside each planned box is looked at. When too many were, there is no room.
        """
        layers = len({self._layer(at) for at in planned})
        if has_room(box[np.newaxis], 1 + depth + layers):
            return True
        if not has_room(box[np.newaxis], 1 + depth):
            return False
        for place, at in enumerate(planned):
            low, high = self._boxes.faces[:, :, at].T
            part = np.stack([np.maximum(box[:, 0], low), np.minimum(box[:, 1], high)], axis=1)
            inside = self._meeting(part, planned[place + 1 :])
            if next(self._parts, None) is None:
                return False
            if not self._parts_fit(part, depth + 1, inside, has_room):
                return False
        return True

    def _layer(self, at: int) -> int:
        """Return the layer of a planned answer: the first without an earlier one that meets it."""
        for new in range(len(self._layers), at + 1):
            meeting = self._meeting(self.new[new][1])
            taken = {self._layers[other] for other in meeting if other < new}
            self._layers.append(next(layer for layer in count() if layer not in taken))
        return self._layers[at]

    def _meeting(self, box: Box, among: Sequence[int] | None = None) -> list[int]:
        """Return the planned answers, all or some, that meet a box."""
        found: list[int] = self._boxes.meeting(box, among).tolist()
        return found

    def _what(self, box: Box) -> str:
        """Return what is used up for a box that is not admitted, as the subject of a sentence."""
        whole = self._fits(box, self._batch.tracker.has_room)
        return "The analyst's quota" if whole else "The promise"

    def ask(self, box: Box) -> int:
        """Plan a new count, and return its index among all counts."""
        self._buy(COUNT, box, ~len(self.new))  # it is for no number of a question
        return len(self._past) + len(self._counts) - 1

    @property
    def boxes(self) -> Boxes:
        """The boxes of all counts, the planned ones last."""
        if not self._counts:
            return self._past
        return np.concatenate([self._past, self._boxes.boxes[self._counts]])

    def _buy(self, kind: str, box: Box, number: NumberName) -> int:
        at, answer = len(self.new), self.first + len(self.new)
        self._asked.append(number)
        self._answers[number] = self._answers.get(number, 0) + 1
        self._boxes.append(box, 1)
        if kind == COUNT:
            self._counts.append(at)
        self.new.append((kind, box))
        self._places[kind, box.tobytes()] = answer
        self.changes = True
        return answer

    def _number(self, count: int) -> int:
        """Return the number, among all answers, of the count at an index."""
        known = len(self._past)
        if count < known:
            return self._batch.number(count)
        return self.first + self._counts[count - known]

    def _relaxed(self, box: Box) -> Piece:
        weights = self.options.weights
        distance = Distance.over(
            self.snapshot.state.space.sizes, None if weights is None else [*weights.values()]
        )
        if self.options.prefer != "near":
            exact = self._combined(box, distance)
            if exact is not None:
                return self._combination(box, box, 0.0, exact)
        start = len(self.new)
        compound = relax(box, self, distance, self.snapshot.state.terms.relax)
        if compound is None or np.array_equal(compound.region, self.snapshot.state.space.whole):
            # There are no counts to use, or only the public number of rows.
            self._forget(start)
            return self._piece(COUNT, box, "relaxed", {})
        if compound.error > self.options.max_relaxation_error:
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
        for number in self._asked[start:]:
            self._answers[number] -= 1
        del self._asked[start:]
        self._answers = {number: size for number, size in self._answers.items() if size}
        self._boxes.forget(start)
        self._counts = [at for at in self._counts if at < start]

    def _combined(self, box: Box, distance: Distance) -> Combination | None:
        """Return the best combination of the counts nearest to a box, if there is one."""
        boxes = self.boxes
        if not len(boxes):
            return None
        return combine(box, boxes, candidates(box, boxes, distance))

    def _combination(self, box: Box, region: Box, error: float, found: Combination) -> Piece:
        pairs = zip(found.answers, found.weights, strict=True)
        terms = {self._number(count): weight for count, weight in pairs}
        return self._piece(COUNT, box, "relaxed", terms, region, error)

    def _too_far(self, compound: Compound) -> str:
        near = self.snapshot.state.space.sql(compound.region)
        return (
            f"The promise is used up for this part of {self._where}. A question near it that can "
            f"be answered is SELECT COUNT(*) FROM t WHERE {near}, at a relaxation error of "
            f"{compound.error:.3g}: allow that much by max_relaxation_error (on the command line, "
            "--max-relaxation-error)."
        )

    @property
    def _where(self) -> str:
        return "the table" if len(self.snapshot.batches) == 1 else f"batch {self.number}"

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
        asked = box.tolist()
        return {
            "kind": kind,
            "asked": asked,
            "status": status,
            "terms": [[number, weight] for number, weight in terms.items()],
            "region": asked if region is None else region.tolist(),
            "error": error,
            **of_batch(self.number),
        }


class _NoRoomError(Exception):
    """There is no room for a sum, or for a number that it is made of."""


def _name(question: Question, group: Group) -> GroupName:
    names = question.query.groups
    return question.query.clauses, names, group.key[: len(names)]  # without the number of a part


def _may_be_omitted(question: Question) -> bool:
    """Whether groups of a question can go without their numbers: no other group needs them."""
    return question.strict and (question.by_number or not question.exactly)


def _by_part(summand: Summand, parts: Boxes, asked: Boxes) -> dict[bytes, Boxes]:
    """Return the boxes that were asked by the part of a sum of columns that they are joined to."""
    if summand.amounts is None or not summand.columns:
        return {}
    codes, found = summand.amounts.codes, dict[bytes, Boxes]()
    cut = [rejoin_over(box[np.newaxis], codes) for box in asked]
    places = [place for place, box in enumerate(cut) if len(box)]
    alone = {cut[place].tobytes(): asked[[place]] for place in places}
    few = np.concatenate([parts[:0], *(cut if len(places) <= _FEW else [])])
    for part in parts:
        name = part.tobytes()
        inside = (part[:, 0] <= few[..., 0]) & (few[..., 1] <= part[:, 1])
        within = [place for place, is_in in enumerate(inside.all(axis=1)) if is_in]
        if name in alone:
            found[name] = alone[name]
        elif sum(_size(few[place], codes) for place in within) == _size(part, codes):
            found[name] = asked[[places[place] for place in within]]
    return found


def _size(box: Box, codes: Mapping[int, Integers]) -> int:
    """Return how many points of a box have the codes of some axes; it ends with such codes."""
    sides = [high - low + 1 for low, high in box.tolist()]
    for axis, known in codes.items():
        low, high = np.searchsorted(known, box[axis]).tolist()
        sides[axis] = high - low + 1
    return math.prod(sides)


def _plain(weight: Fraction) -> float:
    """Return a weight as the journal stores it: whole numbers without a point."""
    return weight.numerator if weight.denominator == 1 else float(weight)


# --- options of the analyst -----------------------------------------------------------------------

Relax = Literal["regression", "compound", "refuse"]
Prefer = Literal["near", "exact"]


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """Who asks a database, and what is wanted when ε is used up.

    `relax` says what happens where earlier answers do not add up to the box of the question: a box
    nearby by the best linear combination of earlier answers ("regression"), or by the paper's sum
    of a few ("compound"), or a refusal ("refuse"). With `prefer="near"` the box nearby comes first,
    since its error may be smaller. A relaxation error above `max_relaxation_error` is refused.
    `weights` is the cost of moving the limits of each attribute (1 by default).
    """

    analyst: str | None = None
    relax: Relax = "regression"
    prefer: Prefer | None = None
    max_relaxation_error: float = math.inf
    weights: Mapping[str, float] | None = None

    def checked(self, names: Sequence[str]) -> AskOptions:
        """Return the options with a weight for each name, or none; raises `ParameterError`."""
        check_word("analyst", self.analyst)
        for name, choices in (("relax", get_args(Relax)), ("prefer", get_args(Prefer))):
            given = getattr(self, name)
            if given not in choices and not (name == "prefer" and given is None):
                allowed = f"one of {', '.join(choices)}"
                raise ParameterError.of("ask", name, allowed, getattr(self, name))
        error, weights = self.max_relaxation_error, self.weights
        if not isinstance(error, (int, float)) or not error >= 0:
            raise ParameterError.of("ask", "max_relaxation_error", "a number from 0 on", error)
        for name, weight in (weights or {}).items():
            if name not in names:
                allowed = f"by names of {', '.join(names)}"
                raise ParameterError.of("ask", "weights", allowed, name)
            if not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
                raise ParameterError.of("ask", "weights", "numbers from 0 on", weight)
        if weights is not None:
            weights = {name: float(weights.get(name, 1.0)) for name in names}
        return replace(self, max_relaxation_error=float(error), weights=weights)

    def relaxes(self, most: int) -> bool:
        """Whether a question may get another answer than asked, of at most so many answers."""
        return self.relax != "refuse" and most > 0

    @property
    def name(self) -> str:
        """The options that decide which relaxed answer a box gets, as text."""
        # Journals have "near" where the analyst said nothing: that was the default before.
        prefer = {None: "near", "near": "nearby", "exact": "exact"}[self.prefer]
        return " ".join([self.relax, prefer, *map(repr, (self.weights or {}).values())])


DEFAULTS = AskOptions()
