"""Reader of counts that were chosen in rounds (Mwem): measured counts, and the model for others.

A count is read from its first measurement, and never together with others. The noise of the first
measurement was drawn after the count was chosen, so that its law is known whatever was chosen. That
another count was measured too depends on this noise: a sum of two would not have the law of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.evidence.query_rounds import CELLS, NOISY, QueryRounds, fitted
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import Scaled
from scumble.public.estimation.measurements.answer import WeighedQuestion
from scumble.public.estimation.measurements.matrix import MergedWeights
from scumble.public.estimation.measurements.readings import Weights
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]

MEASURED = "measured count; interval from the law of its noise"
MODEL = "model: fitted to the counts that were measured"
NO_ERROR = "how far the model is from the table is not known"
_EQUAL = 1e-11


class RoundsReader:
    """The measured counts of one release, and the model fitted to them."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design: Any = evidence.design
        if not isinstance(design, QueryRounds):
            raise TypeError("counts in rounds have rounds as their design")
        self._schema, self._rows = schema, evidence.rows
        self._by_cell = MergedWeights(schema, design.merged)
        table = engine.rows(f"SELECT {NOISY}, {CELLS} FROM view")
        numbers = [float(each) for each in table[NOISY].to_pylist()]
        sets = [np.array(each, np.int64) for each in table[CELLS].to_pylist()]
        cells = design.merged.cells
        if any(len(s) and not 0 <= s.min() <= s.max() < cells for s in sets):
            raise ReleaseError("The release is damaged: its counts name cells that it has not.")
        self._total: tuple[float, Law] = (float(evidence.rows or 0), Exact())
        if design.row_noise is not None:
            self._total = numbers.pop(0), design.row_noise
            sets.pop(0)
        self._noise = design.noise
        self._measured: dict[bytes, float] = {}
        for places, number in zip(sets, numbers, strict=True):
            self._measured.setdefault(self._mask(places, cells).tobytes(), number)
        self._model = fitted(self._by_cell.sizes, self._total[0], sets, numbers)

    @staticmethod
    def _mask(places: npt.NDArray[np.int64], cells: int) -> npt.NDArray[np.bool_]:
        mask = np.zeros(cells, bool)
        mask[places] = True
        return mask

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group of the answer with its estimate."""
        question = WeighedQuestion(self._schema, query, engine)
        for key, condition, summed in question.weights_by_group():
            if query.aggregate == "mean":
                yield key, self._mean(query, condition, summed)
            else:
                yield key, self._sum(query, summed)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return all answers by place in `queries`."""
        found = {}
        for place, query in enumerate(queries):
            engine.check(query)
            found[place] = list(self.answer(query, engine))
        return found

    def _sum(self, query: Query, weights: Weights) -> Estimate:
        """Return a count or a sum: as it was measured, or by the model."""
        if not weights.largest():
            return Estimate(0.0, Exact(), "no cell satisfies the condition", query.notes)
        means, equal = self._by_cell.means(weights)
        known = self._known(means) if equal else None
        if known is not None:
            value, law = known
            return Estimate(value, law, MEASURED, query.notes)
        return self._modelled(query, float(means @ self._model))

    def _known(self, weights: Floats) -> tuple[float, Law] | None:
        """Return the estimate of a multiple of one measured count, if it is one."""
        factor = float(weights[np.argmax(np.abs(weights))])
        inside = np.abs(weights - factor) <= _EQUAL * abs(factor)
        if not (inside | (np.abs(weights) <= _EQUAL * abs(factor))).all():
            return None
        if inside.all():
            value, law = self._total
            return factor * value, law if isinstance(law, Exact) else Scaled(law, factor)
        number = self._measured.get(inside.tobytes())
        if number is None and self._rows is not None:  # then the others are known with it
            others = self._measured.get((~inside).tobytes())
            number = None if others is None else self._rows - others
        return None if number is None else (factor * number, Scaled(self._noise, factor))

    def _mean(self, query: Query, condition: Weights, summed: Weights) -> Estimate:
        count = float(self._by_cell.means(condition)[0] @ self._model)
        if count <= 0:
            return Estimate(math.nan, Unknown(), "average of no rows", query.notes)
        return self._modelled(query, float(self._by_cell.means(summed)[0] @ self._model) / count)

    def _modelled(self, query: Query, value: float) -> Estimate:
        return Estimate(value, Unknown(), MODEL, (*query.notes, NO_ERROR))
