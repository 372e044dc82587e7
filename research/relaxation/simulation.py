"""The statistical database without its outer rooms: a tracker, the noise, and relaxation, in
memory. It decides as the real one does, so that experiments with many queries are quick.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt

from research.relaxation.survey import Survey
from scumble.private.database.buckets import Histogram
from scumble.private.database.relaxation import Compound, Distance, relax
from scumble.private.database.space import Box, Boxes
from scumble.private.database.trackers import Tracker, make_tracker
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Source

Floats = npt.NDArray[np.float64]
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
        """How many accepted queries may cover a point."""
        return floor(self.epsilon * self.noise / 2)


class SplitOnce(Histogram):
    """The paper's rule to the letter: a bucket that becomes full is split once, full parts stay."""

    def _cover(self, box: Box, units: int, most: int, *, helpful: bool) -> None:
        from scumble.private.database.bucket_kernels import cover
        from scumble.private.database.split_kernels import split

        late = cover(self._index, box, units, most, self._due)
        if late and self._index.sizes[1] < len(self._index.where):
            known, never = self._accepted, 1 << 62  # no part is above that, so none is due again
            split(self._index, known.faces, known.units, len(known), self._due, late, never, False)


@dataclass
class Past:
    """The queries that were accepted, with the noise of each."""

    tracker: Tracker
    axes: int
    noise: Fraction
    source: Source
    noises: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._drawn: list[int] = []
        self._boxes = np.empty((1024, self.axes, 2), np.int64)

    @property
    def boxes(self) -> Boxes:
        return self._boxes[: len(self.noises)]

    def admits(self, box: Box) -> bool:
        return self.tracker.room(box[np.newaxis])

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
    """What became of a workload: which queries were answered as they are, which were relaxed, and
    the boxes and noises of all that was accepted, patches included.
    """

    answered: npt.NDArray[np.bool_]
    relaxed: tuple[Relaxed, ...]
    boxes: Boxes
    noises: npt.NDArray[np.int64]
    seconds: float  # of the processor

    @property
    def capacity(self) -> int:
        """How many queries were answered as they are."""
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
    """Submit boxes one after the other. Every query is charged, a repeated one as well, as in the
    paper.
    """
    past = Past(track(survey, setting), len(survey.sizes), Fraction(setting.noise), Source(seed))
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
