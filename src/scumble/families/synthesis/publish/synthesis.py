"""Synthesis: noisy tables over privately chosen sets of attributes, for synthetic rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, combinations
from math import comb, pi, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.synthesis.design import (
    MOST_CELLS,
    ChosenTable,
    ChosenTables,
    Places,
    by_class,
    class_of_code,
)
from scumble.families.synthesis.read import chosen_model
from scumble.model.errors import ParameterError, large, named
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteGaussian, NoiseLaw
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import read_positive
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import (
    CUBE,
    SMALL_DELTA,
    Claim,
    ComparisonPreset,
    protection,
)
from scumble.private.meter.noise import check_scale, choice_epsilon
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.top import Candidates
from scumble.private.summaries.base import OFTEN
from scumble.private.summaries.sums import SumSummary
from scumble.public.synthesis.row_fitting import counts_of
from scumble.public.synthesis.row_model import RowModel
from scumble.public.synthesis.tree_model import ConnectedParts

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateCounts, PrivateTable


FILE = "tables.parquet"
MOST_EXTRA = 1000
SMALLEST_EPSILON = Fraction(1, 10**6)
MOST_TOGETHER = 6  # attributes of one set of a workload
_LEVEL_Z = 1.96  # standard errors that noise stays within, nineteen times in twenty


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesis(SumSummary):
    """Publishes noisy tables of single attributes and of those pairs and triples that depend on
    each other, found privately, from which synthetic rows are drawn: `release.synthetic.rows(n)`.

    First come counts of every attribute, then a tree of pairs that ties all attributes together,
    then `extra` more sets that the rows drawn so far fit worst. Without `workload` these are pairs
    and triples; with it, they are subsets of the sets that it lists, and those that tell most about
    heavier sets are preferred. Values that are rare among the noisy counts are counted together in
    further tables. `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        delta: probability beyond epsilon that is allowed.
        sum_ways: attributes to ask sums by; by default one.
        extra: tables after those of the tree.
        workload: one set of attributes that matters, as age,sex,job; repeatable.
        weights: a number for each set of `workload`.

    Promises: (ε, δ)-DP of the whole release. Proof: zCDP, ρ from (ε, δ), all of it metered. With
        `extra`, 20 % of ρ pay for the counts of d attributes with discrete Gaussian noise, 10 % for
        d − 1 choices of the exponential mechanism, 25 % for the chosen pairs, 5 % for the choice of
        further sets and 40 % for their tables. Without, the first three pay 4, 2 and 5 parts of 11.
        The score of a set is the L1 distance of its counts from a table that follows from published
        numbers, so that a person moves it by at most as much as the counts; a choice costs ε²/8.
        Which values are merged follows from published counts. Rows are drawn from published numbers
        and cost nothing. With `sums`, these are parts of what `sum_share` leaves of ρ; the rest
        pays for tables of sums (see Marginals).
    Estimate: a question about one attribute is answered by least squares from the counts of single
        attributes; one about several by the first measured table that holds them, alone. Its noise
        was drawn after it was chosen, so that the answer is unbiased, with the exact law of its
        error. A question that tells rare values apart which were merged is answered as if they were
        equally frequent, which is a bias; the interval allows for every way they may be spread.
        What no table holds is counted in synthetic rows, marked as a model, with no interval. SUM
        and AVG of `sums` are read from the tables of sums, by `sum_ways` attributes together, with
        the exact law of their error. Synthetic rows have no column of amounts. Sets of the workload
        that the tree has are not measured again: those that are left share the rest, and if there
        are none, the pairs of the tree get it. What several tables may cost together is shared out
        by their cells.
    Reference: McKenna, Miklau, Sheldon, Winning the NIST Contest, JPC 2021 (MST); McKenna, Mullins,
        Sheldon, Miklau, AIM, VLDB 2022, for the choice of further tables; row fitting as in Zhang
        and others, PrivSyn, USENIX Security 2021.
    Differs: rows are fitted, instead of a graphical model, so that loops of pairs cost no more than
        trees; systematic rounding instead of sampling; integer noise; choices by an exact sampler.
    """

    name = "synthesis"
    data_dependent = True
    chooses_cells = True
    gaussian_proof: ClassVar[str] = (
        "exponential mechanism: Cesar, Rogers, ALT 2021 (bounded range); discrete Gaussian noise: "
        "Canonne, Kamath, Steinke, NeurIPS 2020, theorem 14; from zCDP by proposition 12"
    )

    delta: float
    extra: int = 20
    workload: Sequence[Sequence[str]] | None = None
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.sums and self.sum_ways is None:
            self.sum_ways = 1
        super().__post_init__()
        self.extra = whole("Synthesis", "extra", self.extra, least=0, most=MOST_EXTRA)
        self._sets = self._check_workload()
        self._budget = Budget.of(self.cell_promise.rho, self.unit, len(self.names), self._further)
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

    @property
    def count_law(self) -> DiscreteGaussian:
        """The noise of the counts of single attributes."""
        return self._budget.single

    def _check_workload(self) -> dict[Places, Fraction]:
        """Return the sets that matter by place, with their weights."""
        if self.workload is None:
            if self.weights is not None:
                raise ParameterError(
                    f"{named('weights')} are those of the sets of a workload: give "
                    f"{named('workload')} too."
                )
            return {}
        allowed = f"lists of 1 to {MOST_TOGETHER} different attributes that are synthesised"
        sets: list[Places] = []
        for entry in self.workload:
            names = [entry] if isinstance(entry, str) else list(entry)
            known = all(name in self.names for name in names) and len(set(names)) == len(names)
            if not known or not 1 <= len(names) <= MOST_TOGETHER:
                raise ParameterError.of("Synthesis", "workload", allowed, names)
            sets.append(tuple(sorted(map(self.names.index, names))))
        if not sets or len(set(sets)) < len(sets):
            given = [list(entry) for entry in self.workload]
            raise ParameterError.of("Synthesis", "workload", allowed, given)
        self.workload = [[self.names[index] for index in places] for places in sets]
        weights = [1] * len(sets) if self.weights is None else list(self.weights)
        if len(weights) != len(sets):
            needed = "a list of one number above 0 for each set of the workload"
            raise ParameterError.of("Synthesis", "weights", needed, weights)
        exact = [read_positive("Synthesis", "weights", weight) for weight in weights]
        if self.weights is not None:
            self.weights = [float(weight) for weight in exact]
        return dict(zip(sets, exact, strict=True))

    @property
    def _subsets(self) -> dict[Places, Fraction]:
        """The subsets of the sets of the workload, with their weights."""
        return closure_weights(self._sets, list(self._sets.values()))

    def _candidates(self, sizes: Sequence[int]) -> dict[Places, Fraction]:
        """Return the sets among which further tables are chosen, with their weights.

        Without a workload these are all pairs, and the triples of fewest cells by `sizes`, as many
        as are counted in reasonable time.
        """
        if self._sets:
            return self._subsets
        cells = {
            places: prod(sizes[index] for index in places)
            for ways in (2, 3)
            for places in combinations(range(len(self.names)), ways)
        }
        pairs, triples = ([places for places in cells if len(places) == ways] for ways in (2, 3))
        room = min(TRIPLE_CELLS, MOST_CELLS - sum(cells[pair] for pair in pairs))
        triples = sorted(triples, key=lambda places: cells[places])[:MOST_TRIPLES]
        counted = accumulate(cells[places] for places in triples)
        small = [places for places, number in zip(triples, counted, strict=True) if number <= room]
        return {places: Fraction(len(places)) for places in [*pairs, *small]}

    @property
    def _further(self) -> int:
        """The number of tables after those of the tree, at most."""
        number = len(self.names)
        others = comb(number, 2) - (number - 1) + comb(number, 3)
        left = len(self._subsets) if self._sets else others
        return min(self.extra, left) if number > 1 else 0

    def check(self, schema: Schema) -> None:
        super().check(schema)
        sizes = [schema[name].size for name in self.names]
        sets = {*combinations(range(len(sizes)), 2), *self._subsets}
        cells = {places: prod(sizes[index] for index in places) for places in sets}
        if sum(cells.values()) > MOST_CELLS:
            largest = max(cells, key=lambda places: cells[places])
            listed = ", ".join(self.names[index] for index in largest)
            raise ParameterError(
                f"The {len(sets)} tables among which Synthesis chooses have "
                f"{large(sum(cells.values()))} cells, the largest ({listed}) "
                f"{large(cells[largest])} of them; at most {large(MOST_CELLS)} are possible. "
                "Choose fewer attributes, or coarser domains."
            )

    def parts_of_sums(self, schema: Schema) -> list[Any]:
        """Return what measures the tables of all sums, one after the other."""
        return [part for amounts in self._summed(schema) for part in self.parts(amounts)]

    def cell_layout(self, schema: Schema) -> Layout:
        return {FILE: (ChosenTables.count,)}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        private = PrivateTables(table, self.names, self.unit)
        chosen = ChosenSoFar(private, self._budget)
        rows = table.public_rows(self.unit)
        edges, planned = chosen.choose_tree(rows), self._further
        candidates = self._candidates(chosen.design.class_sizes)
        further = min(planned, len(candidates.keys() - set(edges)))
        if further < planned:  # the tree has some of them: the others share what is left
            rho, number = self.cell_promise.rho, len(self.names)
            chosen.budget = Budget.of(rho, self.unit, number, planned, further)
        chosen.add_tree(edges)
        chosen.add_further(candidates, further, rows)
        written = pa.table({chosen.design.count: chosen.numbers})
        pq.write_table(written, folder / FILE, store_schema=False)
        return Measurements(FILE, self.names, chosen.design, rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return which tables were chosen, and how many values were merged."""
        design = cast(ChosenTables, cast(Measurements, evidence).design)
        number = len(design.attributes)
        return {
            "tables chosen": [
                [design.attributes[index] for index in table.places]
                for table in design.tables[number:]
            ],
            "values counted together": sum(map(len, design.merged)),
            "numbers": design.numbers,
        }

    def outlook_of_cells(self, schema: Schema) -> tuple[str, ...]:
        """Return how far counts of single cells may be off."""
        budget = self._budget
        reach = f"±{_LEVEL_Z * budget.single.variance**0.5:,.3g}"
        if budget.edge is None:
            return (f"To expect: the count of a value will be within {reach} {OFTEN}.",)
        pair = f"±{_LEVEL_Z * budget.edge.variance**0.5:,.3g}"
        sentence = (
            f"To expect: the count of a value will be within {reach} {OFTEN}, that of a cell of a "
            f"pair of the tree within {pair}, and less in larger tables. Counts of synthetic rows "
            "have no such limit."
        )
        return (sentence,)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "delta": 1e-9}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, delta=SMALL_DELTA)
        # With more noise all values of small tables are counted together, whatever the choices.
        clear = {**given, "epsilon": 5}
        yield Claim(cls(["a", "b", "c"], extra=2, **clear), 5, SMALL_DELTA, CUBE)
        if neighbours == "add_remove":
            given |= {"workload": [["a", "b", "c"]], "contribution": 2}
            yield Claim(cls(["a", "b", "c"], extra=3, **given), 1, SMALL_DELTA, CUBE)
        else:
            yield Claim(cls(["a", "b"], extra=0, sums=["a"], **clear), 5, SMALL_DELTA)


# --- choosing -------------------------------------------------------------------------------------
#
# How the tables of a synthesis are chosen and measured: single attributes, a tree of pairs, and
# further sets that the rows drawn so far fit worst.

# The parts of ρ for counts of single attributes, the choice of the tree, its tables, the choice of
# further tables, and these. Without further tables the first three have all of it.
SINGLE, EDGE_CHOICE, EDGES, CHOICE, FURTHER = (Fraction(part, 20) for part in (4, 2, 5, 1, 8))
RARE = 3  # standard deviations of noise below which a value is merged with others
PER_ROUND = 5  # further tables that are chosen from the same rows, at most
MOST_TRIPLES = 1000  # among which further tables are chosen without a workload
TRIPLE_CELLS = 10**7  # of all of them
_MOST_ROWS = 50_000  # that the choice of further tables looks at
_FINEST_WEIGHT = 1000
_FINEST_SHARE = 16


@dataclass(frozen=True)
class Budget:
    """What is spent on each step: laws of noise, and the ε of each choice; None for no such step.

    The laws of the tree and of further tables are those of tables with equally many cells.
    """

    single: DiscreteGaussian
    edge_choice: Fraction | None = None
    edge: DiscreteGaussian | None = None
    further_choice: Fraction | None = None
    further: DiscreteGaussian | None = None

    @classmethod
    def of(
        cls,
        rho: Fraction,
        unit: PrivacyUnit,
        attributes: int,
        further: int,
        left: int | None = None,
    ) -> Budget:
        """Return the budget for ρ in all, with at most `further` tables after the tree.

        `left` is their number once the tree is chosen, which may have measured some of them: these
        share all of the rest, and if there are none, it is for the tables of the tree.
        """
        square = unit.squared_sensitivity(nonnegative_gram=True)

        def law(tables: int, share: Fraction) -> DiscreteGaussian:
            return DiscreteGaussian(square * tables / (2 * share))

        if attributes == 1:
            return cls(law(1, rho))
        whole = rho if further else rho / (SINGLE + EDGE_CHOICE + EDGES)
        single, edge_choice, edges = SINGLE * whole, EDGE_CHOICE * whole, EDGES * whole
        left = further if left is None else left
        if not left:
            edges = rho - single - edge_choice
        pairs = attributes - 1
        budget = cls(law(attributes, single), choice_epsilon(pairs, edge_choice), law(pairs, edges))
        if not left:
            return budget
        return replace(
            budget,
            further_choice=choice_epsilon(left, CHOICE * rho),
            further=law(left, FURTHER * rho),
        )


class ChosenSoFar:
    """The tables of one release as they are measured. `private` is what they are measured on."""

    def __init__(self, private: PrivateTables, budget: Budget) -> None:
        self._private, self.budget = private, budget
        self._numbers = private.one_way(budget.single)
        rare = RARE * sqrt(budget.single.variance)
        merged = tuple(_find_rare(numbers, rare) for numbers in self._numbers)
        tables = [ChosenTable((index,), budget.single) for index in range(len(private.names))]
        self.design = ChosenTables(private.names, private.sizes, merged, tuple(tables))
        private.merge(merged)

    @property
    def numbers(self) -> Integers:
        """The noisy numbers of all tables, one table after the other."""
        return np.concatenate([table.reshape(-1) for table in self._numbers])

    def model(self, rows: int | None) -> RowModel:
        """Return the row model of what was measured so far."""
        return chosen_model(self.design, self._numbers, rows)

    def choose_tree(self, rows: int | None) -> list[Places]:
        """Choose the pairs of a tree.

        A pair that ties two parts together is chosen by the distance of its counts from those of
        independent attributes with the noisy counts of each.
        """
        choice = self.budget.edge_choice
        if choice is None:
            return []
        model = self.model(rows)
        places = range(len(self.design.attributes))
        pairs = list(combinations(places, 2))
        self._private.count(pairs)
        parts, edges = ConnectedParts(len(places)), []
        for _ in places[1:]:
            some = [pair for pair in pairs if parts.joins(pair)]
            edge = self._pick({pair: _count_independent(model, pair) for pair in some}, choice)
            parts.join((edge[0], edge[1]))
            edges.append(edge)
        return edges

    def add_tree(self, edges: Sequence[Places]) -> None:
        """Measure the pairs of the tree."""
        if self.budget.edge is not None:
            self._measure_all(edges, self.budget.edge)

    def add_further(
        self, candidates: Mapping[Places, Fraction], number: int, rows: int | None
    ) -> None:
        """Choose `number` more sets among the `candidates` that are not measured yet, which have
        weights, and measure them.

        Before each round, rows are drawn from what was measured so far. A set is chosen by the
        distance of its counts from those of the rows, less the error that its noise would make. The
        sets of a round have at most one attribute in common, two by two: what one tells of a pair,
        another one needs not tell again.
        """
        choice, law = self.budget.further_choice, self.budget.further
        if choice is None or law is None:
            return
        self._private.count(candidates)
        while number:
            known = {table.places for table in self.design.tables}
            left = [places for places in candidates if places not in known]
            models = _count_rows(self.model(rows), left)
            weights = _round_weights({places: candidates[places] for places in left})
            chosen: list[Places] = []
            while left and len(chosen) < min(PER_ROUND, number):
                handicaps = {places: _expect_noise(law, models[places].size) for places in left}
                some = {places: models[places] for places in left}
                best = self._pick(some, choice, handicaps, weights)
                chosen.append(best)
                left = [places for places in left if len({*places} & {*best}) < 2]
            self._measure_all(chosen, law)
            number -= len(chosen)

    def _pick(
        self,
        models: Mapping[Places, Integers],
        epsilon: Fraction,
        handicaps: Mapping[Places, int] | None = None,
        weights: Mapping[Places, int] | None = None,
    ) -> Places:
        return self._private.pick(
            models,
            handicaps or dict.fromkeys(models, 0),
            weights or dict.fromkeys(models, 1),
            epsilon,
        )

    def _measure_all(self, sets: Sequence[Places], law: DiscreteGaussian) -> None:
        """Measure several sets with noise that costs as much together as `law` for each."""
        sizes = self.design.class_sizes
        cells = [prod(sizes[index] for index in places) for places in sets]
        for places, own in zip(sets, laws_by_cells(law, cells), strict=True):
            self._measure(places, own)

    def _measure(self, places: Places, law: DiscreteGaussian) -> None:
        self._numbers.append(self._private.measure(places, law))
        design = self.design
        self.design = ChosenTables(
            design.attributes,
            design.sizes,
            design.merged,
            (*design.tables, ChosenTable(places, law)),
        )


def laws_by_cells(law: DiscreteGaussian, cells: Sequence[int]) -> list[DiscreteGaussian]:
    """Return noise for tables of so many cells that costs as much together as `law` for each.

    A table gets a share of ρ by its number of cells n, to the power 2/3: noise of deviation s makes
    an L1 error of about s · n, the sum of which is least where s³ · n is the same for all tables.
    """
    shares = [max(round(_FINEST_SHARE * number ** (2 / 3)), 1) for number in cells]
    return [
        DiscreteGaussian(law.parameter * sum(shares) / (len(shares) * share)) for share in shares
    ]


def closure_weights(sets: Iterable[Places], weights: Sequence[Fraction]) -> dict[Places, Fraction]:
    """Return all subsets of two or more attributes of some sets, each with the weight Σ w·|common
    attributes| over the sets: what a table of it tells about the sets (McKenna and others, AIM).
    """
    weighted = list(zip(map(frozenset, sets), weights, strict=True))
    subsets = {
        chosen
        for members, _ in weighted
        for size in range(2, len(members) + 1)
        for chosen in combinations(sorted(members), size)
    }
    return {
        chosen: sum((w * len(members & set(chosen)) for members, w in weighted), Fraction(0))
        for chosen in sorted(subsets)
    }


def _find_rare(numbers: Integers, least: float) -> tuple[int, ...]:
    """Return the codes with noisy counts below `least`; none if it is but one."""
    codes = np.flatnonzero(numbers < least).tolist()
    return tuple(codes) if len(codes) > 1 else ()


def _count_independent(model: RowModel, pair: Places) -> Integers:
    """Return the counts of a pair of independent attributes, in whole numbers."""
    one, other = (model.margins[index] for index in pair)
    return _round_counts(np.outer(one, other) / model.total)


def _count_rows(model: RowModel, sets: Iterable[Places]) -> dict[Places, Integers]:
    """Return the tables of rows that are drawn from the model, scaled to its total."""
    number = min(max(round(model.total), 1), _MOST_ROWS)
    rows = model.coarse_rows(number, np.random.default_rng(0))
    return {
        places: _round_counts(
            counts_of(rows, places, [model.sizes[index] for index in places])
            * (model.total / number)
        )
        for places in sets
    }


def _round_counts(table: npt.NDArray[np.float64]) -> Integers:
    return np.rint(table).astype(np.int64)


def _expect_noise(law: DiscreteGaussian, cells: int) -> int:
    """Return the mean L1 distance that noise alone makes of a table of so many cells."""
    return round(sqrt(2 / pi * law.variance) * cells)


def _round_weights(weights: Mapping[Places, Fraction]) -> dict[Places, int]:
    """Return weights as whole numbers up to 1000 in the same proportion, or 1 if all are equal."""
    if len(set(weights.values())) == 1:
        return dict.fromkeys(weights, 1)
    largest = max(weights.values())
    return {
        places: max(round(_FINEST_WEIGHT * weight / largest), 1)
        for places, weight in weights.items()
    }


# --- meter ----------------------------------------------------------------------------------------
#
# Counts by sets of attributes that are chosen privately: noisy tables, and choices among sets by
# how badly a public model fits them. Every method charges the budget account first.
#
# A person changes the counts of one table by at most `unit.sensitivity` in all. The score of a set
# is the L1 distance of its table from a table that is public, so it changes by at most as much, in
# either direction. Each choice is one of the exponential mechanism, which costs ρ = ε²/8.

Integers = npt.NDArray[np.int64]

_TOGETHER = 1 << 24  # cells that are counted in one pass over the rows


class PrivateTables:
    """The tables by sets of the attributes `names`, of which only charged measurements are
    returned.
    """

    def __init__(self, table: PrivateTable, names: Sequence[str], unit: PrivacyUnit) -> None:
        self.names, self.unit = tuple(names), unit
        self.sizes = tuple(table.schema[name].size for name in names)
        self._table = table
        self._classes = [np.arange(size) for size in self.sizes]
        self._counted: dict[Places, PrivateCounts] = {}

    def one_way(self, law: NoiseLaw) -> list[Integers]:
        """Return the noisy counts of each attribute alone."""
        check_scale(law)
        marginals = self._table.marginals([[name] for name in self.names], self.unit)
        return [marginal.noisy([law])[0] for marginal in marginals]

    def merge(self, merged: Sequence[tuple[int, ...]]) -> None:
        """Count these values of each attribute as one class from now on."""
        pairs = zip(self.sizes, merged, strict=True)
        self._classes = [class_of_code(size, codes) for size, codes in pairs]

    def count(self, sets: Iterable[Places]) -> None:
        """Count tables, which are kept here for choices and measurements, in few passes."""
        waiting: list[Places] = []
        cells = 0
        for places in [*sets, ()]:
            size = prod(self.sizes[index] for index in places)
            if waiting and (not places or cells + size > _TOGETHER):
                self._count(waiting)
                waiting, cells = [], 0
            if places and places not in self._counted:
                waiting.append(places)
                cells += size

    def _count(self, sets: Sequence[Places]) -> None:
        named = [[self.names[index] for index in places] for places in sets]
        for places, counts in zip(sets, self._table.marginals(named, self.unit), strict=True):
            classes = [self._classes[index] for index in places]
            shape = [len(own) for own in classes]
            counts._counts = by_class(counts._counts.reshape(shape), classes).reshape(-1)
            self._counted[places] = counts

    def pick(
        self,
        models: Mapping[Places, Integers],
        handicaps: Mapping[Places, int],
        weights: Mapping[Places, int],
        epsilon: Fraction,
    ) -> Places:
        """Return a set that is chosen by the exponential mechanism with ε.

        The score of a set is its weight times its L1 distance from its table in `models`, less its
        handicap.
        """
        cost = PrivacyLoss(rho=epsilon**2 / 8)
        self._table._account.charge(f"choice among {len(models)} sets", cost)
        sets = list(models)
        scores = [
            weights[places] * (self._distance(places, models[places]) - handicaps[places])
            for places in sets
        ]
        [chosen] = self._table._noise.picks(
            Candidates.listed(np.array(scores, np.int64)),
            1,
            sensitivity=self.unit.sensitivity * max(weights[places] for places in sets),
            epsilon=epsilon,
            monotone=False,
        )
        return sets[int(chosen)]

    def _distance(self, places: Places, model: Integers) -> int:
        return int(np.abs(self._counted[places]._counts - model.reshape(-1)).sum())

    def measure(self, places: Places, law: NoiseLaw) -> Integers:
        """Return the noisy counts of a set that was counted, by classes."""
        check_scale(law)
        [noisy] = self._counted[places].noisy([law])
        shape = [int(self._classes[index].max()) + 1 for index in places]
        numbers: Integers = noisy.reshape(shape)
        return numbers
