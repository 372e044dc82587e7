"""Answers from measurements: a question becomes weights of cells, a reader adds them up.

Which reader depends on the design of the release; what an answer is made of does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.engine.duckdb import Engine
from scumble.errors import QueryError
from scumble.estimate import Estimate, Exact, Law, Unknown
from scumble.estimators.reading import NoisyShare, NoisyTotal, Reader
from scumble.estimators.weights import Part, Weights, joined
from scumble.evidence import Measurements
from scumble.query import Expression, Query
from scumble.schema import Schema

Key = tuple[Any, ...]
MOST_GROUPS = 10**5
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Engine
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    return Question(schema, query, engine, reader(evidence, schema, engine)).answers()


def answer_many(
    evidence: Measurements, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[list[tuple[Key, Estimate]]]:
    """Each question's groups with their estimates."""
    known: dict[Expression, Part] = {}
    answers = []
    for query in queries:
        engine.check(query)
        asked = Question(schema, query, engine, reader(evidence, schema, engine), known)
        answers.append(list(asked.answers()))
    return answers


def reader(evidence: Measurements, schema: Schema, engine: Engine) -> Reader:
    """The reader of a release, made when the first question comes."""
    if "reader" not in engine.kept:
        engine.kept["reader"] = _reader(evidence.design.kind)(evidence, schema, engine)
    found: Reader = engine.kept["reader"]
    return found


def _reader(kind: str) -> Any:
    """The class that reads a kind of design, imported when it is needed."""
    from scumble.estimators.matrix_reader import MatrixReader
    from scumble.estimators.product_reader import ProductReader
    from scumble.estimators.regions_reader import RegionsReader
    from scumble.estimators.residual_reader import ResidualReader

    return {
        "matrix": MatrixReader,
        "product": ProductReader,
        "regions": RegionsReader,
        "residuals": ResidualReader,
    }[kind]


@dataclass(frozen=True)
class Question:
    """One question to one reader; `known` are the truths of clauses that were evaluated before."""

    schema: Schema
    query: Query
    engine: Engine
    reader: Reader
    known: dict[Expression, Part] | None = None

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        condition = joined(self.schema, [self._truth(clause) for clause in self.query.clauses])
        amount = self._amount()
        for key, codes in self._groups():
            within = condition.fixed(self.schema, codes)
            if not codes or within.largest():
                yield key, self._estimate(within, amount)

    def _estimate(self, condition: Weights, amount: Part | None) -> Estimate:
        if amount is None:
            return self._total(condition)
        weighted = joined(self.schema, [*condition.parts, amount])
        if self.query.aggregate == "sum":
            return self._total(weighted)
        return self._mean(weighted, condition, amount)

    def _total(self, weights: Weights) -> Estimate:
        if not weights.largest():
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        reading = self.reader.read(weights)
        law: Law = NoisyTotal(reading) if reading.variance else Exact()
        return Estimate(reading.value, law, self.reader.method, self._notes(reading.notes))

    def _mean(self, weighted: Weights, condition: Weights, amount: Part) -> Estimate:
        if not condition.largest():
            return self._unknown()
        total, count, covariance = self.reader.pair(weighted, condition)
        if not count.value:
            return self._unknown()
        possible = _possible(self.schema, condition, amount)
        apart = Part(amount.names, amount.values - total.value / count.value)
        centred = self.reader.read(joined(self.schema, [*condition.parts, apart]))
        ends = float(possible.min()), float(possible.max())
        law = NoisyShare(total, count, covariance, *ends, centred)
        method = f"ratio of two sums, each a {self.reader.method}; Fieller interval"
        notes = self._notes(dict.fromkeys((*total.notes, *count.notes, *law.notes)))
        return Estimate(law.value, law, method, notes)

    def _unknown(self) -> Estimate:
        return Estimate(float("nan"), Unknown(), "average of no rows", self._notes([NOTHING]))

    def _notes(self, more: Any) -> tuple[str, ...]:
        return (*self.query.notes, *more)

    def _truth(self, clause: Expression) -> Part:
        if self.known is not None and clause in self.known:
            return self.known[clause]
        names = self._ordered(clause)
        [truth] = self.engine.holds([clause], names)
        part = Part(names, truth.astype(np.float64).reshape(self._shape(names)))
        if self.known is not None:
            self.known[clause] = part
        return part

    def _amount(self) -> Part | None:
        """What a row of a cell adds, over the attributes that the expression names."""
        argument = self.query.argument
        if argument is None:
            return None
        names = self._ordered(argument)
        own = [each for each in self.query.clauses if set(each.attributes) <= set(names)]
        *_, amounts = self.engine.evaluate([*own, argument], names)
        return Part(names, amounts.astype(np.float64).reshape(self._shape(names)))

    def _groups(self) -> Iterator[tuple[Key, dict[str, int]]]:
        """Every combination of values of the groups, with its codes."""
        groups = self.query.groups
        sizes = self._shape(groups)
        if (total := self.schema.size(groups) if groups else 1) > MOST_GROUPS:
            raise QueryError(
                f"GROUP BY {', '.join(groups)} makes {total} groups, each with an answer; at most "
                f"{MOST_GROUPS} are possible. Group by fewer attributes."
            )
        labels = [self.schema[name].labels().to_pylist() for name in groups]
        for codes in np.ndindex(*sizes):
            key = tuple(values[code] for values, code in zip(labels, codes, strict=True))
            yield key, dict(zip(groups, codes, strict=True))

    def _ordered(self, expression: Expression) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if name in expression.attributes)

    def _shape(self, names: Sequence[str]) -> list[int]:
        return [self.schema[name].size for name in names]


def _possible(schema: Schema, condition: Weights, amount: Part) -> Any:
    """The amounts that the condition leaves possible."""
    near = [part for part in condition.parts if not set(part.names).isdisjoint(amount.names)]
    both = joined(schema, [*near, Part(amount.names, np.ones_like(amount.values))]).parts[-1]
    others = tuple(axis for axis, name in enumerate(both.names) if name not in amount.names)
    return amount.values[both.values.any(axis=others)]
