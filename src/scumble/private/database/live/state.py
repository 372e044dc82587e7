"""The state of a live database: what is known, what was charged, and what a question would buy.

It is built from the base and the entries of the journal. Decisions follow from variances and
charges, which depend on questions only: never on the table, and never on noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from math import floor
from typing import Any

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.errors import LedgerError, ParameterError
from scumble.model.laws.base import normal_quantile
from scumble.model.laws.distributions import RoundedNormal
from scumble.model.schema.schema import Schema
from scumble.private.database.live.sets import PointSet
from scumble.private.database.live.terms import MOST_POINTS, UNITS, LiveTerms
from scumble.private.database.space import Boxes, Space
from scumble.private.database.trackers import ExactTracker, HistogramTracker
from scumble.private.journal.entries import ANSWER, Entry
from scumble.public.estimation.measurements.appended import AppendedReader
from scumble.public.estimation.measurements.readings import Weights
from scumble.public.estimation.measurements.scales import ScaleReader, Scales

MOST_PURCHASES = 4_000  # each adds a row to a triangle in memory, which every answer multiplies
STATUSES = ("known", "answered", "limited")
_BUCKETS = 100_000
_LEAST_GAIN = 0.9  # of the variance is left, at most, after a purchase that misses the goal


@dataclass(frozen=True)
class Goal:
    """A half-width that is asked for at a level."""

    within: float
    level: float

    def variance(self, largest: float) -> float:
        """Return the largest variance of a reading with this half-width, 0 if there is none.
        `largest` is its largest coefficient, half of which every half-width has.
        """
        left = self.within - largest / 2
        return max(left, 0.0) ** 2 / normal_quantile((1 + self.level) / 2) ** 2


@dataclass(frozen=True)
class Purchase:
    """A count that is to be measured: what is charged are the points of the set, or all others."""

    points: PointSet
    units: int
    complement: bool = False

    def charged(self, space: Space) -> Boxes:
        """Return the boxes that are charged."""
        return (self.points.complement(space) if self.complement else self.points).boxes(space)

    def to_dict(self) -> dict[str, Any]:
        return {"set": self.points.to_list(), "units": self.units, "complement": self.complement}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Purchase:
        return cls(PointSet.from_list(data["set"]), int(data["units"]), bool(data["complement"]))


@dataclass(frozen=True)
class Plan:
    """What becomes of one count: its status, what is bought, and what would be needed.

    `needed` are the units that the goal costs and `room` those that may be bought now. `variance`
    is that of the reading now.
    """

    status: str
    purchase: Purchase | None
    needed: int
    room: int
    variance: float


class LiveState:
    """What is known from the base and all purchases, and the units at every point.

    `rows` is the public number of rows, or None. `quotas` of the terms have a tracker each, of what
    their analyst bought.
    """

    def __init__(
        self,
        terms: LiveTerms,
        space: Space,
        design: Product | Scales,
        schema: Schema,
        numbers: Floats,
        rows: int | None,
    ) -> None:
        self.terms, self.space, self._schema, self.rows = terms, space, schema, rows
        self.reader: AppendedReader
        if isinstance(design, Scales):
            self.reader = ScaleReader(design, schema, rows)
        else:
            self.reader = AppendedReader(design, schema, numbers, rows)
        self.tracker = _tracker(space, UNITS)
        self.quotas = {
            name: _tracker(space, floor(UNITS * part)) for name, part in terms.quotas.items()
        }
        self.usage: dict[str | None, dict[str, int]] = {}  # of each analyst
        self.written: dict[str | None, int] = {}  # bytes of the journal, by each analyst
        self.purchases = 0

    @property
    def asked(self) -> dict[str, int]:
        """How many entries of the journal have each status."""
        return {name: sum(each[name] for each in self.usage.values()) for name in STATUSES}

    def plan(self, weights: Weights, goal: Goal, analyst: str | None) -> Plan:
        """Decide about one count: what is missing for the goal is bought, as far as that is allowed
        and gains something.
        """
        reading = self.reader.estimate(weights)
        target = goal.variance(reading.largest)
        if reading.variance <= target:
            return Plan("known", None, 0, 0, reading.variance)
        needed = UNITS + 1
        if target > 0:
            needed = self.terms.units_for(1 / (1 / target - 1 / reading.variance))
        points = PointSet.of_weights(self._schema, self.space, weights)
        complement = self._cheaper_outside(points)
        charged = Purchase(points, 0, complement).charged(self.space)
        room = self._room(charged, analyst)
        units = min(needed, room)
        if units < 1 or (units < needed and not self._gains(units, reading.variance)):
            return Plan("limited", None, needed, room, reading.variance)
        status = "answered" if units == needed else "limited"
        return Plan(status, Purchase(points, units, complement), needed, room, reading.variance)

    def learn(self, entry: Entry) -> None:
        """Apply an entry of the journal."""
        if entry.kind != ANSWER:
            raise LedgerError(
                f"Entry {entry.number} of the journal is of a kind that this version of scumble "
                f"does not know, {entry.kind!r}. Upgrade scumble."
            )
        content = entry.payload
        for new in content["new"]:
            self.add(Purchase.from_dict(new), int(new["value"]), entry.analyst)
        self.count(entry, content)

    def count(self, entry: Entry, content: Mapping[str, Any]) -> None:
        """Count an entry whose purchases are known, for its analyst."""
        unused = dict.fromkeys((*STATUSES, "purchases"), 0)
        own = self.usage.setdefault(entry.analyst, unused)
        own[content["status"]] += 1
        own["purchases"] += len(content["new"])
        self.written[entry.analyst] = self.written.get(entry.analyst, 0) + entry.size

    def add(self, purchase: Purchase, value: int, analyst: str | None) -> None:
        """Charge a purchase, and learn the count of its set."""
        boxes = purchase.charged(self.space)
        self.purchases += 1  # first: after an interruption the state is known to have changed
        self.tracker.add(boxes, purchase.units)
        if (quota := self.quotas.get(analyst or "")) is not None:
            quota.add(boxes, purchase.units)
        weights = purchase.points.weights(self.space)
        self.reader.append(weights, self._noise(purchase.units), value)

    def trial(self) -> LiveState:
        """Return a copy, to see what would become of questions while this one does not change."""
        found, shared = copy(self), {id(self.space): self.space}
        found.reader = self.reader.at(self.reader.appended)
        found.tracker, found.quotas = deepcopy((self.tracker, self.quotas), shared)
        return found

    def check_analyst(self, analyst: str | None) -> None:
        """Raise `ParameterError` for one who may buy nothing in a database with quotas."""
        if self.quotas and analyst not in self.quotas:
            allowed = f"one of {', '.join(self.quotas)}, who have quotas"
            raise ParameterError.of("Database", "analyst", allowed, analyst)

    def _room(self, boxes: Boxes, analyst: str | None) -> int:
        """Return how many units a purchase may cost: a share of what is left at the most used
        point, within the quota; nothing after very many purchases.
        """
        if self.purchases >= MOST_PURCHASES:
            return 0
        room = floor(self.tracker.room(boxes) * self.terms.largest_purchase)
        quota = self.quotas.get(analyst or "")
        return room if quota is None else min(room, quota.room(boxes))

    def _cheaper_outside(self, points: PointSet) -> bool:
        """Whether all other points are fewer. The count of these tells the same where the number of
        rows is public, and a change of a row moves both by as much.
        """
        simple = self.rows is not None and len(points.terms) == 1
        return simple and 2 * points.points > self.space.points

    def _gains(self, units: int, variance: float) -> bool:
        return 1 / (1 + variance / self._noise(units)) <= _LEAST_GAIN

    def _noise(self, units: int) -> float:
        return RoundedNormal(self.terms.variance(units)).variance


def _tracker(space: Space, limit: int) -> ExactTracker | HistogramTracker:
    """Return the counters of all points, or of buckets of a domain that is very large."""
    if space.points <= MOST_POINTS:
        return ExactTracker(space, limit)
    return HistogramTracker(space, limit, _BUCKETS)
