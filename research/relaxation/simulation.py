"""The statistical database in memory: only its tracker, noise and relaxation. Its decisions are
those of the real database, and experiments with many queries are fast.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt

from research.relaxation.survey import Survey
from scumble.private.database.relaxation import (
    Combination,
    Compound,
    Distance,
    candidates,
    combine,
    relax,
)
from scumble.private.database.space import Box, Boxes
from scumble.private.database.trackers import HistogramTracker, Tracker, make_tracker
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

_AHEAD = 256
PAPER = "paper"  # the histogram with the paper's own rule for splits


@dataclass(frozen=True)
class Setting:
    """The parameters of the paper's Table 2, and which tracker decides."""

    tracker: str = "histogram"
    buckets: int = 100_000  # θ
    epsilon: Fraction = Fraction(3, 10)
    noise: int = 2000  # λ
    most: int = 3  # ξ, the size of a compound; 0: no relaxation

    @property
    def limit(self) -> int:
        """The most accepted queries that may cover a point."""
        return floor(self.epsilon * self.noise / 2)


class SplitOnce(HistogramTracker):
    """The paper's rule to the letter: a bucket that becomes full is split once, full parts stay."""

    def _cover(self, box: Box, units: int, most: int, *, helpful: bool) -> None:
        from scumble.private.database.tracker_kernels import cover_buckets, split

        late = cover_buckets(self._index, box, units, most, self._due)
        if late and self._index.sizes[1] < len(self._index.where):
            known, never = self._accepted, 1 << 62  # no part is above that, so none is due again
            split(self._index, known.faces, known.units, len(known), self._due, late, never, False)


@dataclass
class Past:
    """The queries that were accepted, with the noise of each."""

    tracker: Tracker
    axes: int
    noise: Fraction
    source: Keystream
    noises: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._drawn: list[int] = []
        self._boxes = np.empty((1024, self.axes, 2), np.int64)

    @property
    def boxes(self) -> Boxes:
        return self._boxes[: len(self.noises)]

    def admits(self, box: Box) -> bool:
        return self.tracker.has_room(box[np.newaxis])

    def ask(self, box: Box) -> int:
        """Accept a box; its number."""
        number = len(self.noises)
        if number == len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[number] = box
        self.tracker.add(box[np.newaxis])
        self.noises.append(self._draw())
        return number

    def _draw(self) -> int:
        """The next noise; many are drawn at a time, since one alone takes nearly as long."""
        if not self._drawn:
            self._drawn = discrete_laplace(self.source, self.noise, _AHEAD).tolist()
        return self._drawn.pop()


@dataclass(frozen=True)
class Relaxed:
    """A query that was relaxed: its number, its compound, how many answers there were then."""

    query: int
    compound: Compound
    known: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of a workload: which queries were answered as asked, which were relaxed, and the
    boxes and noises of all accepted queries, patches included.
    """

    answered: npt.NDArray[np.bool_]
    relaxed: tuple[Relaxed, ...]
    boxes: Boxes
    noises: npt.NDArray[np.int64]
    seconds: float  # of the processor

    @property
    def capacity(self) -> int:
        """The number of queries that were answered as asked."""
        return int(self.answered.sum())

    @property
    def error(self) -> float:
        """The mean relaxation error of the queries that were relaxed."""
        return _mean([each.compound.error for each in self.relaxed])

    @property
    def size(self) -> float:
        """The mean number of answers in a compound."""
        return _mean([each.compound.size for each in self.relaxed])

    @property
    def microseconds(self) -> float:
        """The mean time for a query."""
        return 1e6 * self.seconds / max(len(self.answered), 1)


def run(survey: Survey, boxes: Boxes, setting: Setting, seed: int = 0) -> Outcome:
    """Submit boxes one after the other. Every query is charged, also a repeated one, as in the
    paper.
    """
    past = Past(track(survey, setting), len(survey.sizes), Fraction(setting.noise), Keystream(seed))
    distance = Distance.over(survey.sizes)
    answered = np.zeros(len(boxes), bool)
    relaxed = []
    begin = time.process_time()
    for number, box in enumerate(boxes):
        if past.admits(box):
            past.ask(box)
            answered[number] = True
        elif setting.most:
            compound = relax(box, past, distance, setting.most)
            if compound is not None:
                relaxed.append(Relaxed(number, compound, len(past.noises)))
    seconds = time.process_time() - begin
    return Outcome(answered, tuple(relaxed), past.boxes, np.array(past.noises, np.int64), seconds)


def track(survey: Survey, setting: Setting) -> Tracker:
    """The tracker of a setting."""
    if setting.tracker == PAPER:
        return SplitOnce(survey.space, setting.limit, setting.buckets)
    kind = setting.tracker
    return make_tracker(kind, survey.space, setting.limit, setting.buckets)  # type: ignore[arg-type]


def _mean(values: list[float] | list[int]) -> float:
    return float(np.mean(values)) if values else float("nan")


# Compounds and regression side by side: their squared errors for the same relaxed queries.

_ROUNDING = 1e-6


def compare(survey: Survey, boxes: Boxes, outcome: Outcome, sample: int) -> dict[str, Any]:
    """Root mean squared errors, for a sample of the relaxed queries.

    As in the database, regression is for the region of the compound and counts where its variance
    is less. `exact` is regression for the very box that was asked, where there is one, else the
    same as `regression`.
    """
    every = max(1, len(outcome.relaxed) // sample)
    chosen = outcome.relaxed[::every][:sample]
    errors: dict[str, list[float]] = {"compound": [], "regression": [], "exact": []}
    moved: list[int] = []
    better = same = 0
    begin = time.process_time()
    for each in chosen:
        known, asked = outcome.boxes[: each.known], boxes[each.query]
        compound = each.compound
        off = int(np.subtract(*survey.counts(np.stack([compound.region, asked]))))
        by_compound = _noise(outcome, _signs(compound))
        found = _combination(compound.region, known, survey)
        if found is not None and found.squares < compound.size - _ROUNDING:
            better += 1
            by_regression = _noise(outcome, found)
        else:
            by_regression = by_compound
        exact = found if compound.error == 0 else _combination(asked, known, survey)
        same += exact is not None
        errors["compound"].append(by_compound)
        errors["regression"].append(by_regression)
        errors["exact"].append(by_regression + off if exact is None else _noise(outcome, exact))
        moved.append(off)
    seconds = time.process_time() - begin
    return {
        "sampled": len(chosen),
        "regression is better": better / max(len(chosen), 1),
        "exact box possible": same / max(len(chosen), 1),
        "compound": _root(errors["compound"]),
        "regression": _root(errors["regression"]),
        "compound, for the box asked": _root(np.add(errors["compound"], moved)),
        "regression, for the box asked": _root(np.add(errors["regression"], moved)),
        "exact where possible, for the box asked": _root(errors["exact"]),
        "milliseconds": 1e3 * seconds / max(len(chosen), 1),
    }


def _combination(target: Box, known: Boxes, survey: Survey) -> Combination | None:
    return combine(target, known, candidates(target, known, Distance.over(survey.sizes)))


def _signs(compound: Compound) -> Combination:
    signs = compound.signs()
    return Combination(tuple(signs), tuple(map(float, signs.values())))


def _noise(outcome: Outcome, combination: Combination) -> float:
    """The error of a combination of answers: that of what it adds up exactly."""
    noises = outcome.noises[list(combination.answers)]
    return float(noises @ np.array(combination.weights))


def _root(errors: Sequence[float] | np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else float("nan")
