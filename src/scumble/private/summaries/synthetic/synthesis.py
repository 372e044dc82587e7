"""Synthesis: noisy tables over privately chosen sets of attributes, for synthetic rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from pathlib import Path
from typing import Any, ClassVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, large, named
from scumble.model.evidence.chosen_tables import MOST_CELLS, ChosenTables, Places
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import read_positive
from scumble.model.schema.schema import Schema
from scumble.private.hooks import CUBE, SMALL_DELTA, Claim, Study, protection
from scumble.private.meter.chosen_tables import PrivateTables
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary
from scumble.private.summaries.synthetic.choosing import Budget, ChosenSoFar, closure_weights

FILE = "tables.parquet"
MOST_EXTRA = 1000
SMALLEST_EPSILON = Fraction(1, 10**6)
MOST_TOGETHER = 6  # attributes of one set of a workload
_LEVEL_Z = 1.96  # standard errors that noise stays within, nineteen times in twenty


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesis(AttributeSummary):
    """Publishes noisy tables of single attributes and of those pairs that depend on each other,
    found privately, from which synthetic rows are drawn: `release.rows(n)`.

    First come counts of every attribute, then a tree of pairs that ties all attributes together,
    then `extra` more sets that the rows drawn so far fit worst. Without `workload` these are pairs;
    with it, they are subsets of the sets that it lists, and those that tell most about heavier sets
    are preferred. Values that are rare among the noisy counts are counted together in further
    tables. `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        delta: probability beyond epsilon that is allowed.
        extra: tables after those of the tree.
        workload: one set of attributes that matters, as age,sex,job; repeatable.
        weights: a number for each set of `workload`.

    Promises: (ε, δ)-DP of the whole release. Proof: zCDP, ρ from (ε, δ), all of it metered. Without
        `extra`, a third of ρ pays for the counts of d attributes with discrete Gaussian noise, a
        third for d − 1 choices of the exponential mechanism, a third for the chosen pairs. With
        `extra`, 65 % of ρ are spent so, and of the rest 15 % on choices and 85 % on tables. The
        score of a set is the L1 distance of its counts from a table that follows from published
        numbers, so that a person moves it by at most as much as the counts; a choice costs ε²/8.
        Which values are merged follows from published counts. Rows are drawn from published numbers
        and cost nothing.
    Estimate: a question about one attribute is answered by least squares from the counts of single
        attributes; one about several by the first measured table that holds them, alone. Its noise
        was drawn after it was chosen, so that the answer is unbiased, with the exact law of its
        error. A question that tells rare values apart which were merged is answered as if they were
        equally frequent, which is a bias; the interval allows for every way they may be spread.
        What no table holds is counted in synthetic rows, marked as a model, with no interval.
    Reference: McKenna, Miklau, Sheldon, Winning the NIST Contest, JPC 2021 (MST); McKenna, Mullins,
        Sheldon, Miklau, AIM, VLDB 2022, for the choice of further tables; row fitting as in Zhang
        and others, PrivSyn, USENIX Security 2021.
    Differs: rows are fitted, instead of a graphical model, so that loops of pairs cost no more than
        trees; systematic rounding instead of sampling; integer noise; choices by an exact sampler.
    """

    name = "synthesis"
    data_dependent = True
    gaussian_proof: ClassVar[str] = (
        "exponential mechanism: Cesar, Rogers, ALT 2021 (bounded range); discrete Gaussian noise: "
        "Canonne, Kamath, Steinke, NeurIPS 2020, theorem 14; from zCDP by proposition 12"
    )

    delta: float
    extra: int = 20
    workload: Sequence[Sequence[str]] | None = None
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.extra = whole("Synthesis", "extra", self.extra, least=0, most=MOST_EXTRA)
        self._sets = self._checked_workload()
        self._budget = Budget.of(self.promise.rho, self.unit, len(self.names), self._further)
        for law in (self._budget.single, self._budget.edge, self._budget.further):
            if law is not None:
                check_scale(law)

    def _given_delta(self) -> float | None:
        if self.delta is None:
            raise ParameterError.of("Synthesis", "delta", "a number between 0 and 1", self.delta)
        if self._epsilon < SMALLEST_EPSILON:
            allowed = f"at least {float(SMALLEST_EPSILON):g}"
            raise ParameterError.of("Synthesis", "epsilon", allowed, self.epsilon)
        return self.delta

    def _checked_workload(self) -> dict[Places, Fraction]:
        """Return the sets that matter by place, with their weights."""
        if self.workload is None:
            if self.weights is not None:
                raise ParameterError(
                    f"{named('weights')} are those of the sets of a workload: give "
                    f"{named('workload')} too."
                )
            return {}
        allowed = f"lists of 1 to {MOST_TOGETHER} different attributes that are synthesised"
        found: list[Places] = []
        for each in self.workload:
            names = [each] if isinstance(each, str) else list(each)
            known = all(name in self.names for name in names) and len(set(names)) == len(names)
            if not known or not 1 <= len(names) <= MOST_TOGETHER:
                raise ParameterError.of("Synthesis", "workload", allowed, names)
            found.append(tuple(sorted(map(self.names.index, names))))
        if not found or len(set(found)) < len(found):
            given = [list(each) for each in self.workload]
            raise ParameterError.of("Synthesis", "workload", allowed, given)
        self.workload = [[self.names[place] for place in each] for each in found]
        weights = [1] * len(found) if self.weights is None else list(self.weights)
        if len(weights) != len(found):
            needed = "a list of one number above 0 for each set of the workload"
            raise ParameterError.of("Synthesis", "weights", needed, weights)
        exact = [read_positive("Synthesis", "weights", weight) for weight in weights]
        if self.weights is not None:
            self.weights = [float(each) for each in exact]
        return dict(zip(found, exact, strict=True))

    @property
    def _candidates(self) -> dict[Places, Fraction]:
        """The sets among which further tables are chosen, with their weights."""
        if self._sets:
            return closure_weights(self._sets, list(self._sets.values()))
        return dict.fromkeys(combinations(range(len(self.names)), 2), Fraction(1))

    @property
    def _further(self) -> int:
        """The number of tables after those of the tree, at most."""
        number = len(self.names)
        left = len(self._candidates) if self._sets else comb(number, 2) - (number - 1)
        return min(self.extra, left) if number > 1 else 0

    def check(self, schema: Schema) -> None:
        super().check(schema)
        sizes = [schema[name].size for name in self.names]
        sets = {*combinations(range(len(sizes)), 2), *self._candidates}
        cells = {each: prod(sizes[place] for place in each) for each in sets}
        if sum(cells.values()) > MOST_CELLS:
            largest = max(cells, key=lambda each: cells[each])
            listed = ", ".join(self.names[place] for place in largest)
            raise ParameterError(
                f"The {len(sets)} tables among which Synthesis chooses have "
                f"{large(sum(cells.values()))} cells, the largest ({listed}) "
                f"{large(cells[largest])} of them; at most {large(MOST_CELLS)} are possible. "
                "Choose fewer attributes, or coarser domains."
            )

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        private = PrivateTables(table, self.names, self.unit)
        chosen = ChosenSoFar(private, self._budget)
        rows = table.public_rows(self.unit)
        chosen.add_tree(rows)
        chosen.add_further(self._candidates, self._further, rows)
        written = pa.table({chosen.design.count: chosen.numbers})
        pq.write_table(written, folder / FILE, store_schema=False)
        return Measurements(FILE, self.names, chosen.design, rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return which tables were chosen, and how many values were merged."""
        design = cast(ChosenTables, cast(Measurements, evidence).design)
        number = len(design.attributes)
        return {
            "tables chosen": [
                [design.attributes[place] for place in each.places]
                for each in design.tables[number:]
            ],
            "values counted together": sum(map(len, design.merged)),
            "numbers": design.numbers,
        }

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """How far counts of single cells may be off."""
        budget = self._budget
        reach = f"±{_LEVEL_Z * budget.single.variance**0.5:,.3g}"
        if budget.edge is None:
            return (f"To expect: the count of a value will be within {reach} {OFTEN}.",)
        pair = f"±{_LEVEL_Z * budget.edge.variance**0.5:,.3g}"
        sentence = (
            f"To expect: the count of a value will be within {reach} {OFTEN}, that of a cell of a "
            f"pair of the tree within {pair}. Counts of synthetic rows have no such limit."
        )
        return (sentence,)

    @classmethod
    def needs(cls, study: Study) -> dict[str, Any]:
        return {**super().needs(study), "delta": 1e-9}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b", "c"], extra=1, **given), 1, SMALL_DELTA, CUBE)
        if neighbours == "add_remove":
            given |= {"workload": [["a", "b", "c"]], "contribution": 2}
            yield Claim(cls(["a", "b", "c"], extra=3, **given), 1, SMALL_DELTA, CUBE)
