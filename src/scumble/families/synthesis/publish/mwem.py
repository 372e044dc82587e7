"""Mwem: a model of the table, fitted to the counts that it answers worst."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.synthesis.design import CELLS, NOISY, QueryRounds, fit_model
from scumble.model.designs.matrix import MergedCells
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.schema.schema import Schema
from scumble.private.mechanism_metadata import Claim, ComparisonPreset, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.top import Candidates
from scumble.private.summaries.base import OFTEN, AttributeSummary, of_cells
from scumble.private.summaries.workload_matrix import KeptQuestions, Questions, statements

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable


MOST_ROUNDS = 200
_FILE = "sums.parquet"
_FOR_ROWS = Fraction(1, 20)  # of ε, for the number of rows where that is not public


@dataclass(kw_only=True, eq=False, repr=False)
class Mwem(AttributeSummary):
    """Publishes a few noisy counts and, made of them alone, a model of all combinations of values.
    In each of `rounds` rounds the count of the workload that the model answers worst is chosen and
    measured, and the model is fitted to all counts measured so far.

    `queries` is a list of SQL counts, or the `pathlib.Path` of a file of them, one a line or with
    semicolons between; GROUP BY asks one count for every group.

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

    queries: Path | Sequence[str]
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
        """Return the error of a measured count; that of the model is not known."""
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
        epsilon = self._share(rows is None)
        noise = self._noise(rows is None)
        total, numbers, sets = None, list[int](), list[np.ndarray[Any, np.dtype[np.int64]]]()
        if rows is None:
            total = self._total_law()
            numbers.append(counts.total(total))
            sets.append(np.arange(questions.merged.cells))
        design = QueryRounds(questions.merged, noise, total)
        people, first, sizes = float(numbers[0] if rows is None else rows), len(sets), design.sizes
        for _ in range(self.rounds):
            model = fit_model(sizes, people, sets[first:], numbers[first:])
            index = counts.worst(questions.matrix @ model, epsilon)
            sets.append(np.flatnonzero(questions.matrix[index]))
            numbers.append(counts.measure(index, noise))
        written = pa.table(
            {NOISY: pa.array(numbers, pa.int64()), CELLS: [s.tolist() for s in sets]}
        )
        pq.write_table(written, folder / _FILE)
        return Measurements(_FILE, self.names, design, rows)

    def _total_law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.unit.rows / (self._epsilon * _FOR_ROWS))

    def _more_limits(self) -> tuple[str, ...]:
        return ("The questions of the workload are published with it.",)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "queries": list(study.queries)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        queries = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
        yield Claim(cls(["a", "b"], queries=queries, rounds=2, **protection(neighbours)), 1)


# --- rounds ---------------------------------------------------------------------------------------
#
# Counts of a workload of which one after the other is chosen and measured.
#
# A row is in a count or not, so that one person changes every count by at most `unit.rows`, whether
# rows are added, removed or replaced; and so the distance of a count from a known number.

Integers = npt.NDArray[np.int64]


class PrivateQueries:
    """Counts of sets of merged cells: row k of `matrix` is 1 for the cells of count k."""

    def __init__(
        self,
        table: PrivateTable,
        merged: MergedCells,
        matrix: npt.NDArray[np.uint8],
        unit: PrivacyUnit,
    ) -> None:
        self._table, self._unit = table, unit
        cells = merged.merge(table.counts(merged.names, unit)._counts)
        self._answers: Integers = matrix.astype(np.int64) @ cells
        self._rows = int(cells.sum())

    def total(self, law: DiscreteLaplace) -> int:
        """Return the number of rows plus noise."""
        return self._add_noise("number of rows", self._rows, law)

    def worst(self, modelled: npt.NDArray[np.float64], epsilon: Fraction) -> int:
        """Return the place of a count that the model answers badly, by the exponential mechanism.

        The score of a count is its distance from the modelled number, rounded to a whole one.
        """
        self._table._account.charge("choice of a count", PrivacyLoss(epsilon))
        scores = np.abs(self._answers - np.rint(modelled).astype(np.int64))
        chosen = self._table._noise.picks(
            Candidates.listed(scores),
            1,
            sensitivity=self._unit.rows,
            epsilon=epsilon,
            monotone=False,
        )
        return int(chosen[0])

    def measure(self, index: int, law: DiscreteLaplace) -> int:
        """Return one of the counts plus noise."""
        return self._add_noise("count", int(self._answers[index]), law)

    def _add_noise(self, what: str, number: int, law: DiscreteLaplace) -> int:
        check_scale(law)
        self._table._account.charge(what, PrivacyLoss(self._unit.rows / law.scale))
        noisy = np.array([number])
        self._table._noise.add(noisy, law)
        return int(noisy[0])
