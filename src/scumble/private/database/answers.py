"""Estimates from the pieces of a decision and the past answers that they are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database.plan import Piece
from scumble.private.database.questions.amounts import Summand
from scumble.private.database.questions.question import Group, Question
from scumble.private.database.space import Boxes, Space
from scumble.private.database.state import COUNT, PastAnswer, batch_of
from scumble.public.estimate import (
    LEVEL,
    NOT_ANSWERED,
    Estimate,
    Estimates,
    Exact,
    Law,
    Scaled,
    Unknown,
    scaled,
)
from scumble.public.estimation.bounds import note_impossible
from scumble.public.estimation.interval_laws import FiellerRatio, clipped

NOISY = "noisy count; interval from the law of its noise"
SUMMED = "noisy sum; interval from the law of its noise"
MADE = "made of earlier answers; interval from the law of their noise"
RATIO = "ratio of a noisy sum and a noisy count"
SHARE = "share of noisy counts in their total"
BEFORE = "no count was given out yet: what the size of the table says"
PARTLY = "no count was given out yet about some batches: what their size says, and noisy counts"
NO_SUM = "the promise is used up here, and only counts are relaxed"
NOTHING = "no value satisfies the condition"
ALL = "the number of rows, which is not hidden"
OTHER = "relaxed: value and limits are for the condition that was answered, not the one asked"
MADE_OF = "made of the answers"
TWICE = "the boxes that were really counted overlap: rows in several of them count as often"

_LISTED = 20  # most boxes in the condition of an answer
_MOVED = 3  # most boxes whose moved ends are in notes
_TERMS = 6  # most earlier answers in the note of what a box is made of


@dataclass(frozen=True)
class EstimateBuilder:
    """Builds estimates from pieces.

    A piece is about the rows of one batch; the pieces of a group are added up. `noise` is the scale
    of a count's noise. `rows` is the number of rows of each batch, or None if it is not public.
    """

    space: Space
    noise: Fraction
    rows: Sequence[int] | None
    _laws: dict[object, NoiseSum] = field(default_factory=dict, init=False, compare=False)

    def read(
        self,
        question: Question,
        groups: Sequence[Mapping[str, Any]],
        answers: Mapping[int, PastAnswer],
    ) -> DatabaseEstimate | Estimates:
        """Return one estimate, or one for each group. `answers` are past answers by number."""
        found = [
            (group.key, self.estimate(question, group, notes["pieces"], answers))
            for group, notes in zip(question.groups, groups, strict=True)
        ]
        aliases = question.query.aliases
        if not question.query.groups:
            [(_, estimate)] = found
            return replace(estimate, alias=aliases[-1]) if aliases else estimate
        attributes = [
            self.space.attributes[self.space.names.index(n)] for n in question.query.groups
        ]
        types = [(each.name, each.arrow_type) for each in attributes]
        return Estimates(types, found, question.query.notes, aliases)

    def estimate(
        self,
        question: Question,
        group: Group,
        pieces: Sequence[Piece],
        answers: Mapping[int, PastAnswer],
    ) -> DatabaseEstimate:
        if question.strict and any(piece["status"] == "relaxed" for piece in pieces):
            return _not_answered(question.query.notes)
        by_number = _by_number(group, pieces)
        # The condition of an average is that of its count, which comes last.
        fields = self._status_fields(pieces, answers, by_number[-1])
        notes = (*question.query.notes, *fields.pop("notes"))
        if question.summands[-1].amounts is not None and group.asked:
            fields["answered"] = self._sql(group.asked[-1], disjoint=True)  # sums are not relaxed
        if question.joint and fields["answered"]:
            boxes = [] if fields["answered"] == "TRUE" else [fields["answered"]]
            clauses = [*boxes, *(clause.sql for clause in question.joint)]
            fields["answered"] = " AND ".join(f"({clause})" for clause in clauses)
        if not len(group.boxes):
            empty = question.query.aggregate != "count"  # the sum or average of no rows is NULL
            law: Law = Unknown() if empty else Exact()
            return DatabaseEstimate(float("nan") if empty else 0.0, law, NOTHING, notes, **fields)
        parts = [
            self._part(summand, each, answers)
            for summand, each in zip(question.summands, by_number, strict=True)
        ]
        if question.query.aggregate == "mean":
            weights = [
                {
                    number: weight * float(summand.factor)
                    for number, weight in _weights(each).items()
                }
                for summand, each in zip(question.summands, by_number, strict=True)
            ]
            (total, _), (count, _) = parts
            of, of_count = question.summands[0], self._noise_weights(weights[1], answers)
            sums = (total, weights[0]), (count, weights[1])
            ratio = self._quotient(*sums, of_count, of.limits, answers)
            return _averaged(ratio, float(of.offset), notes, fields)
        [(value, law)] = parts
        method = _method(law, question, fields["status"])
        as_asked = fields["status"] != "relaxed" and isinstance(law, NoiseSum)
        if as_asked and (question.query.aggregate == "count" or _is_count(question)):
            most = sum(map(self._rows, {batch_of(piece) for piece in pieces}))
            law = CountLaw(law, math.inf if self.rows is None else most)
        return note_impossible(DatabaseEstimate(value, law, method, notes, **fields))

    def weighted(
        self,
        parts: Sequence[tuple[float, Sequence[Piece]]],
        answers: Mapping[int, PastAnswer],
    ) -> DatabaseEstimate:
        """Return Σ weight · count, given the pieces of each count, which are not relaxed."""
        if any(piece["status"] == "relaxed" for _, pieces in parts for piece in pieces):
            return _not_answered()
        value, weights = self._weighted(parts, answers)
        law = self._law(weights, 1, _common_scale(weights.values()))
        every = [piece for _, pieces in parts for piece in pieces]
        fields = self._status_fields(every, answers)
        notes = tuple(fields.pop("notes"))
        return DatabaseEstimate(value, law, SUMMED, notes, **fields)

    def shares(
        self,
        above: Sequence[Sequence[tuple[float, Sequence[Piece]]]],
        below: Sequence[tuple[float, Sequence[Piece]]],
        limits: tuple[float, float],
        answers: Mapping[int, PastAnswer],
    ) -> Iterator[DatabaseEstimate]:
        """Yield each of the sums `above` by the sum `below`, which may have counts in common.

        `limits` are the least and the largest quotient.
        """
        whole, in_whole = self._weighted(below, answers)
        of_whole = self._noise_weights(in_whole, answers)
        # The public number of rows is part of no answer, and has no status.
        noisy = [piece for _, each in below for piece in each if "rows" not in piece]
        together = self._status_fields(noisy, answers) if noisy else None
        for parts in above:
            total, weights = self._weighted(parts, answers)
            share = self._quotient((total, weights), (whole, in_whole), of_whole, limits, answers)
            fields = self._status_fields([piece for _, each in parts for piece in each], answers)
            notes = tuple(fields.pop("notes"))
            fields["status"] = _joint_status(fields, together or fields)
            fields["numbers"] = len({*in_whole, *weights})
            found = share.estimate(SHARE, notes)
            if not whole and not in_whole:  # there are no rows
                found = Estimate(math.nan, Unknown(), NOTHING, notes)
            given = DatabaseEstimate(found.value, found.law, found.method, found.notes, **fields)
            yield note_impossible(given, *limits)

    def _quotient(
        self,
        total: tuple[float, Mapping[int, float]],
        count: tuple[float, Mapping[int, float]],
        of_count: Weights,
        limits: tuple[float, float],
        answers: Mapping[int, PastAnswer],
    ) -> Average:
        """Return the law of the quotient of two sums, each with the weights of its answers."""
        (value, weights), (number, others) = total, count
        both = [each for each in weights if each in others]
        return Average(
            value,
            number,
            self._noise_weights(weights, answers),
            of_count,
            *limits,
            sum(weights[each] * others[each] for each in both),
            sum(weights[each] * others[each] * self._variance(answers[each]) for each in both),
        )

    def _weighted(
        self, parts: Sequence[tuple[float, Sequence[Piece]]], answers: Mapping[int, PastAnswer]
    ) -> tuple[float, dict[int, float]]:
        """Return Σ weight · count, and the weights of the past answers in it."""
        value, weights = 0.0, dict[int, float]()
        for weight, pieces in parts:
            value += weight * self._rows_in(pieces)
            for number, times in _weights(pieces).items():
                weights[number] = weights.get(number, 0.0) + weight * times
        value += sum(weight * answers[number].value for number, weight in weights.items())
        return value, weights

    def _part(
        self, summand: Summand, pieces: Sequence[Piece], answers: Mapping[int, PastAnswer]
    ) -> tuple[float, Law]:
        """Return the sum over all batches, and its error law."""
        batches = _by_batch(pieces).values()
        known = [piece for each in batches if not _unanswered(each) for piece in each]
        value, law = self._sum(known, answers)
        value, law = self._with_unanswered(
            value, law, [each for each in batches if _unanswered(each)]
        )
        if summand.factor != 1:
            value = value * summand.factor.numerator / summand.factor.denominator
            law = law if isinstance(law, Exact) else Scaled(law, float(summand.factor))
        return value, law

    def _sum(self, pieces: Sequence[Piece], answers: Mapping[int, PastAnswer]) -> tuple[float, Law]:
        """Return a weighted sum of past answers."""
        weights = _weights(pieces)
        value: float = self._rows_in(pieces)
        value += sum(weight * answers[number].value for number, weight in weights.items())
        scales = {answers[number].times for number in weights} or {1}
        if len(scales) == 1:
            return float(value), self._law(weights, scales.pop())
        return float(value), MixedNoise(self._noise_weights(weights, answers))

    def _noise_weights(
        self, weights: Mapping[int, float], answers: Mapping[int, PastAnswer]
    ) -> Weights:
        found = Weights(0.0, 0.0, 0.0)
        for number, weight in weights.items():
            variance = self._variance(answers[number])
            found = found.plus(Weights(1.0, 1.0, variance).times(weight))
        return found

    def _variance(self, answer: PastAnswer) -> float:
        return self._law({0: 1}, answer.times).stderr ** 2

    def _law(self, weights: Mapping[int, float], times: int, scale: int = 1) -> Law:
        """Return the law of a weighted sum of noises with `times` the scale of a count's.

        The weights are whole numbers after multiplication by `scale`, as far as that is known.
        """
        terms: dict[float, int] = {}
        for weight in weights.values():
            if weight:
                size = abs(weight * scale)
                size = float(round(size)) if scale > 1 else size
                terms[size] = terms.get(size, 0) + 1
        if not terms:
            return Exact()
        key = (times, *sorted(terms.items()))  # many groups have one law
        law = self._laws.get(key)
        if law is None:
            law = self._laws[key] = NoiseSum(DiscreteLaplace(self.noise * times), terms)
        return law if scale == 1 else Scaled(law, 1 / scale)

    def _rows_in(self, pieces: Sequence[Piece]) -> float:
        """Return the public numbers of rows in pieces, times their weights there."""
        known = [piece for piece in pieces if "rows" in piece]
        return sum(float(piece["rows"]) * self._rows(batch_of(piece)) for piece in known)

    def _with_unanswered(
        self, value: float, law: Law, unanswered: Sequence[Sequence[Piece]]
    ) -> tuple[float, Law]:
        """Add the batches that no past answer is about to a sum over the others.

        Their part is estimated by the volume of the boxes times the number of rows. It lies between
        0 and the number of rows.
        """
        if not unanswered:
            return value, law
        if self.rows is None:
            return float("nan"), Unknown()
        guess = most = 0.0
        for pieces in unanswered:
            rows = self._rows(batch_of(pieces[0]))
            guess += rows * min(sum(self._share(piece["asked"]) for piece in pieces), 1.0)
            most += rows
        return value + guess, Bounds(value + guess, value, value + most, law)

    def _rows(self, batch: int) -> int:
        return 0 if self.rows is None else self.rows[batch - 1]

    def _share(self, box: Sequence[Sequence[int]]) -> float:
        """The share of all points that is in a box."""
        sides = zip(self.space.sizes, box, strict=True)
        return float(np.prod([(high - low + 1) / size for size, (low, high) in sides]))

    def _status_fields(
        self,
        pieces: Sequence[Piece],
        answers: Mapping[int, PastAnswer],
        about: Sequence[Piece] | None = None,
    ) -> dict[str, Any]:
        """Return what is said of pieces. The condition is that of the pieces `about`."""
        kinds = {piece["status"] for piece in pieces}
        status = next((s for s in ("relaxed", "answered", "repeated") if s in kinds), "answered")
        moved = [piece for piece in pieces if piece["status"] == "relaxed" and piece["terms"]]
        batches = _by_batch(pieces if about is None else about)
        other = [OTHER] if any(piece["error"] for piece in moved) else []
        notes = [
            note
            for piece in moved[:_MOVED]
            for note in self._relaxed(piece, answers, several=len(batches) > 1)
        ]
        regions = {number: self._regions(of_batch) for number, of_batch in batches.items()}
        overlap = [] if all(disjoint for _, disjoint in regions.values()) else [TWICE]
        conditions = {number: self._sql(*found) for number, found in regions.items()}
        return {
            "status": status,
            "answered": _condition(conditions),
            "distance": max((piece["error"] for piece in pieces), default=0.0),
            "numbers": len({number for piece in pieces for number, _ in piece["terms"]}),
            "notes": [*other, *notes, *overlap],
        }

    def _regions(self, pieces: Sequence[Piece]) -> tuple[Boxes, bool]:
        """Return the boxes that were counted in a batch, and whether they are disjoint."""
        regions = [piece["region"] for piece in pieces]
        moved = any(piece["status"] == "relaxed" and piece["terms"] for piece in pieces)
        if not moved:  # then only the sum and the count of an average share a region
            regions = list({str(region): region for region in regions}.values())
        boxes = np.array(regions, np.int64).reshape(-1, len(self.space), 2)
        return boxes, not moved or _disjoint(boxes)

    def _sql(self, boxes: Boxes, disjoint: bool) -> str:
        """The condition of some boxes; empty if there are too many."""
        listed = map(self.space.sql, boxes) if len(boxes) <= _LISTED else ()
        return (" OR " if disjoint else " + ").join(listed)

    def _relaxed(
        self, piece: Piece, answers: Mapping[int, PastAnswer], *, several: bool
    ) -> list[str]:
        """The notes about a relaxed piece: which ends moved, and which answers it is made of."""
        where = f"batch {batch_of(piece)}: " if several else ""
        notes = [self._moved(piece)]
        if len(piece["terms"]) > 1:
            notes.append(self._made_of(piece["terms"], answers))
        return [where + note for note in notes]

    def _moved(self, piece: Piece) -> str:
        ends, others = [], []
        boxes = zip(self.space.attributes, piece["asked"], piece["region"], strict=True)
        for attribute, wanted, got in boxes:
            pairs = zip(("lower", "upper"), wanted, got, strict=True)
            sides = [side for side, before, after in pairs if before != after]
            if sides and attribute.ordered:
                ends.append(f"the {' and '.join(sides)} end of {attribute.name}")
            elif sides:
                others.append(attribute.name)
        found = [f"moved {', '.join(ends)}"] if ends else []
        found += [f"counted other values of {', '.join(others)}"] if others else []
        return ", ".join(found) or "exactly the box that was asked for"

    def _made_of(
        self, terms: Sequence[tuple[int, float]], answers: Mapping[int, PastAnswer]
    ) -> str:
        """Return the boxes of answers with their signs and weights, the largest first."""
        found = ""
        ordered = sorted(terms, key=lambda term: (term[1] < 0, -abs(term[1])))
        for number, weight in ordered[:_TERMS]:
            sign, times = " - " if weight < 0 else " + ", f"{abs(weight):.3g} × "
            box = self.space.sql(answers[number].box)
            found += f"{sign}{times.removeprefix('1 × ')}({box})"
        more = f" and {len(terms) - _TERMS} more" if len(terms) > _TERMS else ""
        return f"{MADE_OF} {found.removeprefix(' + ')}{more}"


def _not_answered(notes: tuple[str, ...] = ()) -> DatabaseEstimate:
    """Return the estimate of a group for which the promise is used up."""
    return DatabaseEstimate(math.nan, Unknown(), NO_SUM, notes, status="relaxed", numbers=0)


def _joint_status(*parts: Mapping[str, Any]) -> str:
    """Return the status of a number that is computed from several."""
    statuses = {part["status"] for part in parts}
    return next(each for each in ("relaxed", "answered", "repeated") if each in statuses)


def _by_batch(pieces: Sequence[Piece]) -> dict[int, list[Piece]]:
    found: dict[int, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(batch_of(piece), []).append(piece)
    return found


def _by_number(group: Group, pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces of each number of a group. Those of a batch lie together, in order."""
    found: list[list[Piece]] = [[] for _ in group.parts]
    for of_batch in _by_batch(pieces).values():
        start = 0
        for place, boxes in enumerate(group.parts):
            found[place] += of_batch[start : start + len(boxes)]
            start += len(boxes)
    return found


def _is_count(question: Question) -> bool:
    """Whether a sum is a count of rows, as SUM(1) is."""
    [summand] = question.summands
    return summand.kind == COUNT and summand.factor == 1


def _averaged(
    ratio: Average, offset: float, notes: tuple[str, ...], fields: Mapping[str, Any]
) -> DatabaseEstimate:
    """Return an average, to which an offset is added."""
    shifted = scaled(ratio.estimate(RATIO, notes), 1.0, offset)
    least, most = (limit + offset for limit in ratio.limits)
    given = DatabaseEstimate(shifted.value, shifted.law, RATIO, shifted.notes, **fields)
    return note_impossible(given, least, most)


def _unanswered(pieces: Sequence[Piece]) -> bool:
    """Whether a piece has no past answer, and is not the public number of rows."""
    return any(not piece["terms"] and "rows" not in piece for piece in pieces)


def _condition(answered: Mapping[int, str]) -> str:
    """The conditions that were answered, by batch, as one. If they differ, `batch` is written as if
    it were a column.
    """
    if not answered:
        return "FALSE"
    batches: dict[str, list[int]] = {}
    for number, condition in answered.items():
        batches.setdefault(condition, []).append(number)
    if len(batches) == 1:
        return next(iter(batches))
    if "" in batches or len(batches) > _LISTED:
        return ""
    return " OR ".join(
        f"{_among(numbers)} AND ({condition})" for condition, numbers in batches.items()
    )


def _among(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"batch = {listed}" if len(numbers) == 1 else f"batch IN ({listed})"


def _method(law: Law, question: Question, status: str) -> str:
    if isinstance(law, Bounds) and law.noise.stderr:
        return PARTLY
    if isinstance(law, (Bounds, Unknown)):
        return BEFORE
    if isinstance(law, Exact):
        return ALL
    if status == "relaxed":
        return MADE
    return NOISY if question.query.aggregate == "count" else SUMMED


def _weights(pieces: Sequence[Piece]) -> dict[int, float]:
    """Return the weights of the past answers that pieces are made of, by number."""
    weights: dict[int, float] = {}
    for piece in pieces:
        for number, weight in piece["terms"]:
            weights[number] = weights.get(number, 0) + weight
    return weights


def _common_scale(weights: Iterable[float]) -> int:
    """Return a number up to 1000 by which weights become whole; 1 if there is none."""
    sizes = np.unique(np.abs(np.fromiter(weights, np.float64)))
    for scale in range(1, 1001):
        if (np.abs(sizes * scale - np.rint(sizes * scale)) < 1e-9).all():
            return scale
    return 1


def _disjoint(boxes: Boxes) -> bool:
    """Whether no two boxes have a point in common."""
    for place, box in enumerate(boxes[:-1]):
        others = boxes[place + 1 :]
        meet = (others[:, :, 0] <= box[:, 1]) & (box[:, 0] <= others[:, :, 1])
        if meet.all(axis=1).any():
            return False
    return True


# --- estimates and their error laws ---------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """The law of a number of which only noisy limits are known."""

    value: float
    low: float
    high: float
    noise: Law

    @property
    def stderr(self) -> float:
        """A bound of the error without noise, plus the standard error of the noise."""
        return max(self.value - self.low, self.high - self.value) + self.noise.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        below, above = self.noise.interval(0.0, level)
        return self.low + below, self.high + above


@dataclass(frozen=True)
class CountLaw:
    """The law of a count. Intervals are clipped to the possible counts, from 0 to `most`.

    They are extended to the estimate if it lies outside. A true count that was inside stays inside.
    """

    law: Law
    most: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest count that there can be."""
        return 0.0, self.most

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return clipped(self.law.interval(value, level), value, 0.0, self.most)


@dataclass(frozen=True, repr=False, eq=False)
class DatabaseEstimate(Estimate):
    """An estimate with the status of its question.

    `status` is "answered", "repeated" (it was answered before, and cost nothing) or "relaxed".
    `answered` is the condition whose count this is. A relaxed answer has the relaxation error
    `distance` from the question, and is made of `numbers` past answers.
    """

    status: str = "answered"
    answered: str = ""
    distance: float = 0.0
    numbers: int = 1

    @property
    def counted_instead(self) -> str:
        """The condition that a relaxed answer is about, unless it is that of the question."""
        if self.status != "relaxed" or not (self.distance and self.numbers):
            return ""
        return self.answered or "other boxes"

    @property
    def status_label(self) -> str:
        return NOT_ANSWERED if self.status == "relaxed" and not self.numbers else self.status

    def derived(
        self, value: float, law: Law, method: str, notes: tuple[str, ...], parts: Sequence[Estimate]
    ) -> DatabaseEstimate:
        """Return an estimate computed from others: relaxed if one of them is, and so on.

        `answered` has the condition of each relaxed part.
        """
        known = [each for each in parts if isinstance(each, DatabaseEstimate)]
        statuses = {each.status for each in known}
        status = next((s for s in ("relaxed", "answered", "repeated") if s in statuses), "answered")
        relaxed = [each.answered for each in known if each.status == "relaxed"]
        missing = math.isnan(value) and any(each.reason == NOT_ANSWERED for each in parts)
        return DatabaseEstimate(
            value,
            law,
            method,
            notes,
            status=status,
            answered="; ".join(filter(None, relaxed)),
            distance=max(each.distance for each in known),
            numbers=0 if missing else sum(each.numbers for each in known),
        )

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        more = {
            "status": self.status,
            "answered": self.answered,
            "distance": self.distance,
            "numbers": self.numbers,
        }
        return {**super().to_dict(level), **more}

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  {self._status_sentence()}"

    def _status_sentence(self) -> str:
        if self.status != "relaxed":
            return f"{self.status} as asked"
        if not self.numbers:
            return "not answered: the promise is used up here, and no count helps"
        made = f"made of {self.numbers} number{'s' if self.numbers > 1 else ''}"
        if not self.distance:
            return f"exactly as asked, {made}"
        moved = f"limits moved by {self.distance:.3g} of the ranges"
        return f"relaxed to {self.counted_instead} ({moved}, {made}): not what was asked"


_MARGIN = 1.01


@dataclass(frozen=True)
class Weights:
    """Discrete Laplace noises in a weighted sum: Σ |w|, Σ w², and the variance of the sum."""

    total: float
    squares: float
    variance: float

    def times(self, factor: float) -> Weights:
        square = factor * factor
        return Weights(abs(factor) * self.total, square * self.squares, square * self.variance)

    def plus(self, other: Weights) -> Weights:
        return Weights(
            self.total + other.total,
            self.squares + other.squares,
            self.variance + other.variance,
        )

    def reach(self, level: float) -> float:
        """Return a bound that the sum keeps with probability `level`.

        Discrete Laplace noise is a difference of two rounded-down exponential times, so it is
        within 1 of Laplace noise of the same scale, which has at most 1/6 more variance. And a sum
        of independent Laplace noises, measured by its standard deviation, reaches at a given level
        as far as the normal law or as far as one Laplace noise, whichever is farther: at 91 %,
        where the two cross, it is beyond both by less than a thousandth, for which there is a
        margin.
        """
        normal = NormalDist().inv_cdf((1 + level) / 2)
        laplace = -math.log(1 - level) / math.sqrt(2)
        deviation = math.sqrt(self.variance + self.squares / 6)
        return _MARGIN * max(normal, laplace) * deviation + self.total


@dataclass(frozen=True)
class MixedNoise:
    """The law of a weighted sum of discrete Laplace noises of several scales."""

    weights: Weights

    @property
    def stderr(self) -> float:
        return math.sqrt(self.weights.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        reach = self.weights.reach(level)
        return value - reach, value + reach


@dataclass(frozen=True)
class Average(FiellerRatio):
    """The law of `total / count`, each a sum of numbers with discrete Laplace noise.

    `least` and `most` are the limits of the values that are averaged. `products` is Σ v w over the
    noises that are in the total, with weight v, and in the count, with weight w, and `covariance`
    that of the total and the count.
    """

    total: float
    count: float
    of_total: Weights
    of_count: Weights
    least: float
    most: float
    products: float = 0.0
    covariance: float = 0.0

    @property
    def parts(self) -> tuple[float, float]:
        return self.total, self.count

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.least), float(self.most)

    @property
    def count_variance(self) -> float:
        return self.of_count.variance

    def variance(self, ratio: float) -> float:
        return self._difference(ratio).variance

    def half_width(self, ratio: float, level: float) -> float:
        """A bound that the error of total - ratio · count keeps with probability `level`."""
        return self._difference(ratio).reach(level)

    def _difference(self, ratio: float) -> Weights:
        """Return the noises of total - ratio · count, with a bound of Σ |w|."""
        both = self.of_total.plus(self.of_count.times(ratio))
        squares = max(both.squares - 2 * ratio * self.products, 0.0)
        return Weights(both.total, squares, max(both.variance - 2 * ratio * self.covariance, 0.0))
