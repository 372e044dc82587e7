"""Answers from measurements: a question becomes weights of cells, which a reader sums up.

1. `MeasuredQuestion` turns conditions and amounts into `Weights`, a linear functional of cells.
2. The reader of the release's design gives a `LinearReading`: an estimate, and the moments of its
   error.
3. `NoisyTotal` or `NoisyAverage` is the error law of the answer.

Readers with exact laws of their own (`QuestionReader`: cells, sparse) answer whole questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scumble.model.evidence.evidence import Measurements
from scumble.model.long_work import part, told
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.bounds import Bounded, BoundedAverage
from scumble.public.estimation.measurements.moments import (
    AskedMoments,
    MomentQuestion,
    without_presence,
)
from scumble.public.estimation.measurements.readers import reader_of
from scumble.public.estimation.measurements.readings import (
    AverageWeights,
    GroupedAxes,
    LinearReading,
    ManyReader,
    NoisyAverage,
    NoisyTotal,
    PieceReader,
    QuestionReader,
    Reader,
    Weights,
    WeightTensor,
    joined,
    read_average,
)
from scumble.public.estimation.measurements.sums import AMOUNT_OF, SumQuestion, sum_asked
from scumble.public.estimation.measurements.weighed import (
    NOTHING,
    Key,
    WeighedQuestion,
    amount_limits,
    read_averages,
    read_groups,
)
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    query = without_presence(evidence, query, engine)
    if (summed := _of_sums(evidence, schema, query, engine)) is not None:
        return summed.answers()
    found = reader_of(evidence, schema, engine)
    if isinstance(found, QuestionReader):
        return found.answer(query, engine)
    return MeasuredQuestion(schema, query, engine, reader=found).answers()


def answer_together(
    evidence: Measurements, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, list[tuple[Key, Estimate]]]:
    """Return the answers that are found more cheaply together, by place in `queries`.

    All clauses are evaluated in one pass. The numbers are those of asking one by one.
    """
    queries = [without_presence(evidence, query, engine) for query in queries]
    sums = {place: _of_sums(evidence, schema, query, engine) for place, query in enumerate(queries)}
    if any(each is not None for each in sums.values()):
        others = [place for place, summed in sums.items() if summed is None]
        some = answer_together(evidence, schema, [queries[place] for place in others], engine)
        answers = {others[place]: answer for place, answer in some.items()}
        for place, summed in sums.items():
            if summed is not None:
                if not any(name.startswith(AMOUNT_OF) for name in queries[place].attributes):
                    engine.check(queries[place])
                answers[place] = list(summed.answers())
        return answers
    found = reader_of(evidence, schema, engine)
    if isinstance(found, QuestionReader):
        return found.answer_together(queries, engine)
    clauses = Clauses(schema, queries, engine)
    questions = []
    for query in queries:
        if query.argument is not None:
            engine.check(query)
        questions.append(MeasuredQuestion(schema, query, engine, clauses, reader=found))
    if isinstance(found, ManyReader):
        return _read_together(questions, found)
    answers = {}
    for place, question in enumerate(questions):
        with part(place, len(questions)):
            answers[place] = list(question.answers())
    return answers


def _of_sums(
    evidence: Measurements, schema: Schema, query: Query, engine: Sandbox
) -> SumQuestion | MomentQuestion | None:
    """Return a question that measured sums answer; None if the counts do."""
    if (moments := AskedMoments.of(evidence, schema, query)) is not None:
        return MomentQuestion(schema, query, engine, asked=moments, evidence=evidence)
    asked = sum_asked(evidence, query)
    return None if asked is None else SumQuestion.of(evidence, schema, query, engine, asked)


def _read_together(
    questions: Sequence[MeasuredQuestion], reader: ManyReader
) -> dict[int, list[tuple[Key, Estimate]]]:
    """Return the answers by place; the totals among them are read together."""
    totals = {
        place: weights
        for place, question in enumerate(questions)
        if (weights := question.total_weights()) is not None
    }
    known = {place: each for place, each in totals.items() if each.largest()}
    readings = dict(zip(known, reader.read_many(list(known.values())), strict=True))
    return {
        place: [((), question.total(readings.get(place), totals[place]))]
        if place in totals
        else list(question.answers())
        for place, question in enumerate(questions)
    }


@dataclass(frozen=True)
class MeasuredQuestion(WeighedQuestion):
    """One question to one reader."""

    reader: Reader = field(kw_only=True)

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        """Return every group of the answer with its estimate."""
        weights = self.total_weights()
        if weights is not None:
            found = self.reader.read(weights) if weights.largest() else None
            return iter([((), self.total(found, weights))])
        condition, amount = self._condition(), self.amount()
        if self.query.groups:
            return self._by_group(condition, amount)
        return iter([((), self.mean(condition, amount))])

    def total_weights(self) -> Weights | None:
        """Return the weights of a count or a sum without groups; None for other questions."""
        if self.query.groups or self.query.aggregate == "mean":
            return None
        condition, amount = self._condition(), self.amount()
        return condition if amount is None else joined(self.schema, [*condition.parts, amount])

    def total(self, reading: LinearReading | None, weights: Weights) -> Estimate:
        """Return the estimate of a count or a sum without groups from the reading of its weights,
        None if all weights are 0.
        """
        return self._total(reading, lambda: weights)

    def mean(self, condition: Weights, amount: WeightTensor | None) -> Estimate:
        """Return the estimate of the average of `amount` over the rows under a condition."""
        if amount is None or not condition.largest():
            return self._unknown()
        total, count, covariance, centred = read_average(
            self.schema, self.reader, condition, amount
        )
        [limits] = amount_limits(self.schema, condition, amount, GroupedAxes((), ()))
        law = NoisyAverage(total, count, covariance, *limits, centred)
        return self._average(law, lambda: condition, amount)

    def _by_group(
        self, condition: Weights, amount: WeightTensor | None
    ) -> Iterator[tuple[Key, Estimate]]:
        """Return the groups that are possible under the condition, each with its estimate."""
        grouping = self._grouping()
        possible = np.flatnonzero(grouping.largest(condition)).tolist()
        found = self._estimates(condition, amount, grouping, possible)
        keys = self.schema.cell_values(grouping.names, possible)
        return zip(told(keys), found, strict=True)

    def _estimates(
        self,
        condition: Weights,
        amount: WeightTensor | None,
        grouping: GroupedAxes,
        groups: Sequence[int],
    ) -> Iterator[Estimate]:
        reader = self.reader

        def of_group(weights: Weights, group: int) -> Callable[[], Weights]:
            places = np.unravel_index(group, grouping.shape)
            codes = {name: int(at) for name, at in zip(grouping.names, places, strict=True)}
            return lambda: weights.fixed(self.schema, codes)

        if amount is None:
            counts = read_groups(self.schema, reader, condition, grouping)
            return (self._total(counts.at(group), of_group(condition, group)) for group in groups)
        weighted = joined(self.schema, [*condition.parts, amount])
        if self.query.aggregate == "sum":
            sums = read_groups(self.schema, reader, weighted, grouping)
            some = grouping.largest(weighted) > 0
            return (
                self._total(sums.at(group) if some[group] else None, of_group(weighted, group))
                for group in groups
            )
        weights = AverageWeights(condition, amount, weighted)
        averages = read_averages(self.schema, reader, weights, grouping)
        limits = amount_limits(self.schema, condition, amount, grouping)
        return (
            self._average(averages.law(group, *limits[group]), of_group(condition, group), amount)
            for group in groups
        )

    def _total(self, reading: LinearReading | None, weights: Callable[[], Weights]) -> Estimate:
        """Return the estimate of a count or sum; `weights` gives those that were read."""
        if reading is None:
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        law: Law = NoisyTotal(reading) if reading.variance else Exact()
        if reading.low is not None:
            least = 0.0 if self.query.aggregate == "count" else -math.inf
            low, high = reading.limits
            law = Bounded(law, low, high, least, spread=lambda: self._spread(weights()))
        return Estimate(reading.value, law, self.reader.method, self._notes(reading.notes))

    def _average(
        self, law: NoisyAverage, condition: Callable[[], Weights], amount: WeightTensor
    ) -> Estimate:
        """Return the estimate of an average of `amount` under the condition."""
        if not law.count.value:
            return self._unknown()
        method = f"ratio of two sums, each a {self.reader.method}"
        found = law.estimate(
            method, self._notes(dict.fromkeys((*law.total.notes, *law.count.notes)))
        )
        if law.few or (law.total.low is None and law.count.low is None):
            return found

        def deviations(centre: float) -> Weights:
            part = WeightTensor(amount.names, amount.values - centre)
            return joined(self.schema, [*condition().parts, part])

        bounded = BoundedAverage(
            law,
            lambda centre, lower: self.reader.read(deviations(centre)).limits[0 if lower else 1],
            *law.limits,
            law.value,
            lambda: self._spread(deviations(law.value)) / law.count.value**2,
        )
        return replace(found, law=bounded)

    def _spread(self, weights: Weights) -> float:
        """Return the variance around an even spread within pieces, by the model of the reader."""
        return self.reader.spread(weights) if isinstance(self.reader, PieceReader) else math.nan

    def _unknown(self) -> Estimate:
        return Estimate(float("nan"), Unknown(), "average of no rows", self._notes([NOTHING]))

    def _notes(self, more: Any) -> tuple[str, ...]:
        return (*self.query.notes, *more)
