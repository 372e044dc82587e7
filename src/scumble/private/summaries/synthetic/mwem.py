"""Mwem: a model of the table, fitted to the counts that it answers worst."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.evidence.evidence import Measurements
from scumble.model.evidence.query_rounds import CELLS, NOISY, QueryRounds, fitted
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim, Study, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.rounds import PrivateQueries
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary, of_cells
from scumble.private.summaries.workload import KeptQuestions
from scumble.private.summaries.workload_matrix import Questions, statements

MOST_ROUNDS = 200
_FILE = "sums.parquet"
_FOR_ROWS = Fraction(1, 20)  # of ε, for the number of rows where that is not public


@dataclass(kw_only=True, eq=False, repr=False)
class Mwem(AttributeSummary):
    """Publishes a few noisy counts and, made of them alone, a model of all combinations of values.
    In each of `rounds` rounds the count of the workload that the model answers worst is chosen and
    measured, and the model is fitted to all counts measured so far.

    `queries` is a file of SQL counts, one a line or with semicolons between, or a list of them;
    GROUP BY asks one count for every group.

    Parameters:
        queries: SQL counts to be answered well, one a line.
        rounds: counts that are measured.

    Promises: ε-DP of the whole release. Proof: a row is in a count or not, so that one person
        changes the distance of a count from the model by at most `contribution`. Each round chooses
        by the exponential mechanism and measures with noise P(z) ∝ exp(−|z|ε'/contribution), at
        ε' = ε/2T each for T rounds. If people may be added or removed, 5 % of ε measure the number
        of rows first; if they are replaced, it is the same for all neighbours.
    Estimate: a count that was measured is read from its first measurement, alone: its noise was
        drawn after the choice, so that the estimate is unbiased and the law of its error is exact.
        Any other question is answered by the model, without an interval: how wrong it is is not
        known.
    Reference: multiplicative weights with the exponential mechanism: Hardt, Ligett, McSherry, NIPS
        2012.
    Differs: public code starts from the true number of rows, which tells whether a person is in the
        table; here it is measured. Repeated measurements of a count are used by the model only:
        that a count is chosen again depends on the noise of the one before.
    """

    name = "mwem"
    data_dependent = True
    proof = "exponential mechanism and Laplace noise, round after round: Hardt, Ligett, McSherry"

    queries: str | Path | Sequence[str]
    rounds: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rounds = whole("Mwem", "rounds", self.rounds, least=1, most=MOST_ROUNDS)
        self.queries = statements(self.queries)
        self._questions = KeptQuestions(tuple(self.queries))
        check_scale(self._noise(True))
        check_scale(self._total_law())

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self.questions(schema)

    def questions(self, schema: Schema) -> Questions:
        """Return the workload over merged cells. An unsuitable question is refused."""
        return self._questions.of(schema.select(self.names))

    def _share(self, counts_rows: bool) -> Fraction:
        """Return the ε of each choice and of each measurement."""
        return self._epsilon * (1 - _FOR_ROWS if counts_rows else 1) / (2 * self.rounds)

    def _noise(self, counts_rows: bool) -> DiscreteLaplace:
        return DiscreteLaplace(Fraction(self.unit.rows) / self._share(counts_rows))

    def expected_error(self, schema: Schema, rows: int) -> float:
        """That of a count that is measured; the error of the model is not known."""
        return math.sqrt(self._noise(not self.unit.keeps_rows).variance)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        far = of_cells(self._noise(not self.unit.keeps_rows), 1)
        known = f"each of the {self.rounds} counts that are measured will be within {far} {OFTEN}"
        return (f"To expect: {known}; all others come from a model whose error is not known.",)

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        import pyarrow.parquet as pq

        questions = self.questions(table.schema)
        counts = PrivateQueries(table, questions.merged, questions.matrix, self.unit)
        rows = table.public_rows(self.unit)
        each = self._share(rows is None)
        noise = self._noise(rows is None)
        total, numbers, sets = None, list[int](), list[np.ndarray[Any, np.dtype[np.int64]]]()
        if rows is None:
            total = self._total_law()
            numbers.append(counts.total(total))
            sets.append(np.arange(questions.merged.cells))
        design = QueryRounds(questions.merged, noise, total)
        people, first, sizes = float(numbers[0] if rows is None else rows), len(sets), design.sizes
        for _ in range(self.rounds):
            model = fitted(sizes, people, sets[first:], numbers[first:])
            place = counts.worst(questions.matrix @ model, each)
            sets.append(np.flatnonzero(questions.matrix[place]))
            numbers.append(counts.measured(place, noise))
        found = pa.table({NOISY: pa.array(numbers, pa.int64()), CELLS: [s.tolist() for s in sets]})
        pq.write_table(found, folder / _FILE)
        return Measurements(_FILE, self.names, design, rows)

    def _total_law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.unit.rows / (self._epsilon * _FOR_ROWS))

    def _more_limits(self) -> tuple[str, ...]:
        return ("The questions of the workload are published with it.",)

    @classmethod
    def needs(cls, study: Study) -> dict[str, Any]:
        return {**super().needs(study), "queries": list(study.queries)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        queries = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
        yield Claim(cls(["a", "b"], queries=queries, rounds=2, **protection(neighbours)), 1)
