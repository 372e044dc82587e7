"""The state of a live database: what is known, what was charged, and what a question would buy.

It is built from the base and the entries of the journal. Decisions follow from variances and
charges; those about averages also from the estimates of an average and its count, and those about
counts that have bounds from these: never from the table but by what was published before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from types import MappingProxyType
from typing import Any

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.errors import LedgerError, ParameterError
from scumble.model.laws.base import normal_quantile
from scumble.model.laws.distributions import RoundedNormal
from scumble.model.schema.schema import Schema
from scumble.private.database.live.lines import ROWS, Asked, Line, Total
from scumble.private.database.live.sets import PointSet
from scumble.private.database.live.splitting import Joint, PairedVariance, Split
from scumble.private.database.live.terms import MOST_POINTS, UNITS, LiveTerms
from scumble.private.database.space import Boxes, Space
from scumble.private.database.trackers import ExactTracker, HistogramTracker
from scumble.private.journal.entries import ANSWER, Entry
from scumble.public.estimation.bounds import Bounded
from scumble.public.estimation.measurements.appended import AppendedReader
from scumble.public.estimation.measurements.readings import NoisyTotal
from scumble.public.estimation.measurements.scales import ScaleReader, Scales

MOST_PURCHASES = 4_000  # each adds a row to a triangle in memory, which every answer multiplies
STATUSES = ("known", "answered", "limited")
_BUCKETS = 100_000
_ROUNDS = 4  # purchases for one average, of which each makes the last one more precise
_ROUNDED = 1 / 12  # what rounding adds to a variance
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
    """A line that is to be measured over a set of points; what is charged are these points, or all
    others.
    """

    points: PointSet
    units: int
    complement: bool = False
    line: Line = ROWS

    def charged(self, space: Space) -> Boxes:
        """Return the boxes that are charged."""
        return (self.points.complement(space) if self.complement else self.points).boxes(space)

    def variance(self, terms: LiveTerms, schema: Schema) -> Fraction:
        """Return the variance of the noise, before rounding."""
        line = self.line
        return terms.variance(self.units, line.largest(schema), signed=line.signed)

    def to_dict(self) -> dict[str, Any]:
        own = {"set": self.points.to_list(), "units": self.units, "complement": self.complement}
        return {**own, **self.line.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Purchase:
        points = PointSet.from_list(data["set"])
        return cls(points, int(data["units"]), bool(data["complement"]), Line.from_dict(data))


@dataclass(frozen=True)
class Plan:
    """What becomes of one number: its status, what is bought, and what would be needed.

    `needed` are the units that the goal costs and `room` those that may be bought now. `variance`
    is that of the number now.
    """

    status: str
    purchases: tuple[Purchase, ...]
    needed: int
    room: int
    variance: float


class LiveState:
    """What is known from the base and all purchases, and the units at every point.

    `rows` is the public number of rows, or None. `quotas` of the terms have a tracker each, of what
    their analyst bought. `readers` are of the rows (""), and of other lines by name.
    """

    def __init__(
        self,
        terms: LiveTerms,
        space: Space,
        design: Product | Scales,
        schema: Schema,
        numbers: Floats,
        rows: int | None,
        sums: Mapping[str, AppendedReader] = MappingProxyType({}),
    ) -> None:
        self.terms, self.space, self._schema, self.rows = terms, space, schema, rows
        if isinstance(design, Scales):
            own: AppendedReader = ScaleReader(design, schema, rows)
        else:
            own = AppendedReader(design, schema, numbers, rows)
        self.readers = {"": own, **sums}
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

    @property
    def reader(self) -> AppendedReader:
        """The reader of the rows."""
        return self.readers[""]

    @property
    def evidence(self) -> dict[str, Any]:
        """How much is known, for the journal."""
        found = {name: each.appended for name, each in self.readers.items()}
        rows = found.pop("")
        return {"evidence": rows, "sums": found} if found else {"evidence": rows}

    def readers_at(self, evidence: Mapping[str, Any]) -> dict[str, AppendedReader]:
        """Return the readers as they were when so much was known."""
        known = {"": evidence["evidence"], **evidence.get("sums", {})}
        return {name: each.at(known.get(name, 0)) for name, each in self.readers.items()}

    def pursue(
        self, asked: Asked, goal: Goal, analyst: str | None, buy: Callable[[Purchase], None]
    ) -> Plan:
        """Buy what is missing for a goal, and return the plan with what has become of it.

        The width of an average also depends on its value, and so on what was just bought: what is
        missing then is bought as well, a few times.
        """
        first = plan = self.plan(asked, goal, analyst)
        for _ in range(_ROUNDS):
            for purchase in plan.purchases:
                buy(purchase)
            if plan.status != "answered" or asked.total is None:
                break
            plan = self.plan(asked, goal, analyst)
        status = plan.status
        if first.purchases and status == "known":
            status = "answered"
        elif plan is not first and status == "answered":
            status = "limited"  # not yet, after all rounds
        return replace(first, status=status)

    def plan(self, asked: Asked, goal: Goal, analyst: str | None) -> Plan:
        """Decide about one number: what is missing for the goal is bought, as far as that is
        allowed and gains something.
        """
        if asked.total is not None:
            return self._plan_total(asked, asked.total, goal, analyst)
        reading = self._of(asked.count).estimate(asked.rows)
        target = goal.variance(reading.largest)
        if reading.variance <= target or (now := self._bounded(asked, goal.level)) <= goal.within:
            return Plan("known", (), 0, 0, reading.variance)
        needed = UNITS + 1
        if target > 0:
            needed = self.terms.units_for(1 / (1 / target - 1 / reading.variance))
        points = PointSet.of_weights(self._schema, self.space, asked.rows)
        complement = asked.count == ROWS and self._cheaper_outside(points)
        charged = Purchase(points, 0, complement).charged(self.space)
        room = self._room(charged, analyst)
        units = min(needed, room)
        none = Plan("limited", (), needed, room, reading.variance)
        if units < 1:
            return none
        purchase = Purchase(points, units, complement, asked.count)
        left = 1 / (1 + reading.variance / self.noise(purchase))
        narrower = left * reading.variance < Goal(now, goal.level).variance(reading.largest)
        if units < needed and (left > _LEAST_GAIN or not narrower):
            return none
        return replace(
            none, status="answered" if units == needed else "limited", purchases=(purchase,)
        )

    def _bounded(self, asked: Asked, level: float) -> float:
        """Return the half-width of a count that has bounds; infinite for others."""
        known = self._of(asked.count).read(asked.rows)
        if known.low is None:
            return math.inf
        low, high = Bounded(NoisyTotal(known), *known.limits, 0.0).interval(known.value, level)
        return (high - low) / 2

    def _plan_total(self, asked: Asked, total: Total, goal: Goal, analyst: str | None) -> Plan:
        """Decide about a sum or an average: its line and the count are measured, each as far as
        that lowers the variance most.
        """
        known = self._joint(asked, total)
        law, value = known.law(total)
        low, high = law.interval(value, goal.level)
        half = (high - low) / 2
        one = PairedVariance.of(known, total)
        if half <= goal.within:
            return Plan("known", (), 0, 0, one.now)
        target = Goal(goal.within * one.times, goal.level).variance(one.largest)
        if math.isfinite(half):
            target = min(target, one.now * (goal.within / half) ** 2)
        points = PointSet.of_weights(self._schema, self.space, asked.rows)
        parts = [Purchase(points, 1, line=total.line), Purchase(points, 1, line=asked.count)]
        # The noise of one unit; what is known already, or the same for all rows, is not measured.
        units = [self.noise(part) - _ROUNDED for part in parts]
        find = Split(one, units[0], units[1])
        needed = find.least(target)
        room = self._room(parts[0].charged(self.space), analyst)
        spent = min(needed, room)
        none = Plan("limited", (), needed, room, one.now)
        if spent < 1:
            return none
        shares, left = find.best(spent)
        if spent < needed and left > _LEAST_GAIN * one.now:
            return none
        bought = tuple(
            replace(part, units=share) for part, share in zip(parts, shares, strict=True) if share
        )
        status = "answered" if spent == needed else "limited"
        return replace(none, status=status, purchases=bought)

    def _joint(self, asked: Asked, total: Total) -> Joint:
        """Return what is known of the sum of a line and of the count of its rows."""
        rows, count, line = asked.rows, self._of(asked.count), self._of(total.line)
        weights = total.line.weights(self._schema, rows)
        if count is line:
            return Joint(*count.pair(weights, rows))
        return Joint(line.read(weights), count.read(rows), 0.0)

    def _of(self, line: Line) -> AppendedReader:
        return self.readers[line.reader]

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
        weights = purchase.line.weights(self._schema, purchase.points.weights(self.space))
        self._of(purchase.line).append(weights, self.noise(purchase), value)

    def foresee(self, purchase: Purchase, analyst: str | None) -> None:
        """Learn of a purchase what is expected."""
        weights = purchase.line.weights(self._schema, purchase.points.weights(self.space))
        expected = self._of(purchase.line).estimate(weights).value
        self.add(purchase, round(expected), analyst)

    def trial(self) -> LiveState:
        """Return a copy, to see what would become of questions while this one does not change."""
        found, shared = copy(self), {id(self.space): self.space}
        found.readers = self.readers_at(self.evidence)
        found.tracker, found.quotas = deepcopy((self.tracker, self.quotas), shared)
        return found

    def check_analyst(self, analyst: str | None) -> None:
        """Raise `ParameterError` for one who may buy nothing in a database with quotas."""
        if self.quotas and analyst not in self.quotas:
            allowed = f"one of {', '.join(self.quotas)}, who have quotas"
            raise ParameterError.of("LiveDatabase", "analyst", allowed, analyst)

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

    def noise(self, purchase: Purchase) -> float:
        """Return the variance of the noise of what is measured."""
        return RoundedNormal(purchase.variance(self.terms, self._schema)).variance


def _tracker(space: Space, limit: int) -> ExactTracker | HistogramTracker:
    """Return the counters of all points, or of buckets of a domain that is very large."""
    if space.points <= MOST_POINTS:
        return ExactTracker(space, limit)
    return HistogramTracker(space, limit, _BUCKETS)
