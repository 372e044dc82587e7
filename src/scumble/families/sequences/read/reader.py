"""StringsReader: answers from a tree of strings, what comes next, and what is frequent."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from scumble.families.sequences.design import COUNT, PARENT, SYMBOL, Strings
from scumble.families.sequences.read.models import (
    Codes,
    ContextModel,
    Floats,
    NoisyCounts,
    RunModel,
    StringModel,
    model_of,
)
from scumble.families.sequences.read.questions import StringQuery
from scumble.families.sequences.read.rows import SequenceRows
from scumble.model.errors import ParameterError, QueryError, ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.parameters import whole
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED
from scumble.public.estimate import Estimate, Estimates, Exact, Unknown
from scumble.public.estimation.interval_laws import WINNERS, Selected
from scumble.public.estimation.measurements.readings import LinearReading, NoisyTotal
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

SUMMED = "sum of noisy counts of the string; interval from the law of their noise"
CHAIN = "chain of the next symbols after the longest known contexts"
_CHAINED = "the string is longer than what was measured: a model, whose error is not known"
_WEIGHTED = "an occurrence in a sequence of k symbols, its end included, counts 1/k"
_UNMEASURED = "so few sequences begin so that the string was not counted"
_LONGEST_TOP = 5
_MOST_SHOWN = 12  # values in a message
_MOST_TOP = 10_000
_STEPS = 200_000  # strings that the search for frequent ones looks at


class StringsReader:
    """Answers questions about the sequences of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.design = cast(Strings, evidence.design)
        [self.column] = evidence.columns
        self.members = schema[self.column].lists.members
        self._rows = evidence.rows
        table = engine.rows(f'SELECT "{PARENT}", "{SYMBOL}", "{COUNT}" FROM view')
        try:
            if self.members.size != self.design.alphabet:
                raise ValueError("another alphabet")
            self.model: StringModel = model_of(self.design, table)
        except (ValueError, TypeError, IndexError):
            raise ReleaseError(DAMAGED) from None

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield the answer to one question."""
        if not isinstance(query, StringQuery):
            raise QueryError("A release of sequences answers questions about its sequences only.")
        yield (), self._estimate(query)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers by place; none is found more cheaply together."""
        return {index: list(self.answer(query, engine)) for index, query in enumerate(queries)}

    def _estimate(self, query: StringQuery) -> Estimate:
        if query.asked == "all":
            if self._rows is None:
                raise QueryError(
                    "The number of sequences was not measured. Ask for those that begin with some "
                    "values, or for occurrences."
                )
            return Estimate(float(self._rows), Exact(), "the number of rows is published")
        if query.asked != "occurrences":
            return self._estimate_beginning(query)
        if self.design.model == "prefix":
            raise QueryError(
                "A tree of prefixes has no occurrences inside of sequences: publish with the "
                "model suffix or grams."
            )
        return self.occurrences(query.codes)

    def _estimate_beginning(self, query: StringQuery) -> Estimate:
        if self.design.model != "prefix":
            raise QueryError(
                "How sequences begin was not counted: publish with the model prefix, or ask for "
                "occurrences."
            )
        codes = query.codes if query.asked == "prefix" else (*query.codes, self.design.alphabet)
        if len(codes) > len(self.design.laws):
            raise QueryError(
                f"Strings of at most {len(self.design.laws)} symbols were counted, the end of a "
                "sequence among them."
            )
        known = self.model.known(codes)
        if known is None:
            return Estimate(0.0, Unknown(), "not counted", (_UNMEASURED,))
        return self._estimate_measured(known)

    def occurrences(self, codes: Codes) -> Estimate:
        """Return how often the string occurs, by what was measured or else by the chain."""
        known = self.model.known(codes)
        if known is not None:
            return self._estimate_measured(known)
        notes = (_CHAINED, *self._notes)
        return Estimate(self._estimate_chain(codes), Unknown(), CHAIN, notes)

    @property
    def _notes(self) -> tuple[str, ...]:
        return (_WEIGHTED,) if self.design.weighted else ()

    def _estimate_measured(self, known: NoisyCounts) -> Estimate:
        unit, noises = self.design.unit, known.noises
        reading = LinearReading(
            known.number / unit,
            noises * known.law.variance / unit**2,
            noises * known.law.fourth / unit**4,
            1 / unit,
        )
        return Estimate(reading.value, NoisyTotal(reading), SUMMED, self._notes)

    def _estimate_chain(self, codes: Codes) -> float:
        """Return the count of the first symbol times the probabilities of those that follow."""
        first = self.model.known(codes[:1])
        value = 0.0 if first is None else max(first.number / self.design.unit, 0.0)
        for index in range(1, len(codes)):
            value *= float(self.model.probabilities(codes[:index])[0][codes[index]])
        return value

    def drawn_rows(self) -> SequenceRows:
        """Return what draws sequences; ParameterError unless contexts were published."""
        if not isinstance(self.model, ContextModel):
            raise ParameterError(
                "Synthetic sequences are drawn from suffix trees: publish with the model suffix."
            )
        return SequenceRows(self.column, self.members, self.model, self._rows)

    # What comes next, and what is frequent.

    def next(self, context: Sequence[Any]) -> pa.Table:
        """Return the probability of every value after `context`, the most probable first. The
        end of the sequence is null.
        """
        if isinstance(self.model, RunModel) and self.design.model == "prefix":
            raise ParameterError(
                "A tree of prefixes does not tell what comes next: publish with the model suffix "
                "or grams."
            )
        chances, used = self.model.probabilities(self._encode_context(context))
        order = np.argsort(-chances, kind="stable")
        labels = self.members.labels()
        values = pa.concat_arrays([labels, pa.nulls(1, labels.type)]).take(pa.array(order))
        metadata = {"context": str(labels.take(pa.array(used, pa.int64())).to_pylist())}
        table = pa.table({"next": values, "probability": chances[order]})
        return table.replace_schema_metadata(metadata)

    def _encode_context(self, context: Sequence[Any]) -> Codes:
        if isinstance(context, str) or not all(isinstance(value, (str, int)) for value in context):
            raise ParameterError.of("next", "context", "a list of values", context)
        codes, outside = self.members.encode(
            pa.array([str(value) for value in context], pa.string())
        )
        if outside.any():
            wrong = list(context)[int(np.argmax(outside))]
            raise ParameterError.of("next", "context", self._list_values(), wrong)
        return tuple(codes.tolist())

    def _list_values(self) -> str:
        """Return the values of the sequences in words, the first ones of many."""
        labels = list(map(str, self.members.labels().to_pylist()))
        more = f" and {len(labels) - _MOST_SHOWN:,} more" if len(labels) > _MOST_SHOWN else ""
        return f"values of '{self.column}' ({', '.join(labels[:_MOST_SHOWN])}{more})"

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the k strings of largest estimates, of `length` values or of up to five.

        Which strings the search visits depends on the noise of shorter ones, which longer ones may
        share. So the intervals hold for all strings of these lengths that were measured, together.
        """
        whole("top", "k", k, least=1, most=_MOST_TOP)
        longest = _LONGEST_TOP
        if length is not None:
            longest = whole("top", "length", length, least=1, most=64)
        if self.design.model == "prefix":
            longest = min(longest, len(self.design.laws))
        shortest = 1 if length is None else length
        many = self.model.count_measured(range(shortest, longest + 1))
        labels = self.members.labels()
        rows = [
            ((tuple(labels.take(pa.array(codes)).to_pylist()),), self._estimate_chosen(codes, many))
            for codes in self._find_frequent(k, shortest, longest)
        ]
        return Estimates([(self.column, pa.list_(labels.type))], rows)

    def _estimate_chosen(self, codes: Codes, many: int) -> Estimate:
        known = self.model.known(codes)
        if known is None:
            return self.occurrences(codes)
        estimate = self._estimate_measured(known)
        return replace(estimate, law=Selected(estimate.law, many), notes=(*estimate.notes, WINNERS))

    def _find_frequent(self, k: int, shortest: int, longest: int) -> list[Codes]:
        """Return the strings of largest estimates, found from the most frequent to longer ones."""
        open_: list[tuple[float, Codes]] = [(-math.inf, ())]
        frequent: list[Codes] = []
        compared = 0
        while open_ and len(frequent) < k and compared < _STEPS:
            value, codes = heapq.heappop(open_)
            if len(codes) >= shortest:
                frequent.append(codes)
            if len(codes) == longest:
                continue
            longer = self._extend(codes, -value)
            compared += len(longer)
            for code in np.flatnonzero(longer > 0).tolist():
                heapq.heappush(open_, (-float(longer[code]), (*codes, code)))
        return frequent

    def _extend(self, codes: Codes, value: float) -> Floats:
        """Return the estimates of the string with one more value, given its own estimate."""
        numbers = self.model.following(codes)[:-1] / self.design.unit
        unknown = np.isnan(numbers)
        if unknown.any():
            chances = np.zeros(len(numbers))
            if self.design.model != "prefix" and codes:
                chances = self.model.probabilities(codes)[0][:-1]
            numbers = np.where(unknown, (value if codes else 0.0) * chances, numbers)
        return np.minimum(numbers, value)
