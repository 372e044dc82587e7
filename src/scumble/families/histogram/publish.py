"""Histogram: a noisy count for every cell of a contingency table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.families.histogram.design import RULES, Cells, NoiseTails, Rule
from scumble.families.histogram.design import Sparse as Design
from scumble.model.errors import ParameterError, large, named, setting
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import free_name, whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import read_positive, read_share
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import Claim, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling import sparse
from scumble.private.sampling.bits import integers
from scumble.private.sampling.sparse import FilterRule, SampleRule, passing_cells, priority_sample
from scumble.private.summaries.base import OFTEN, AttributeSummary, of_cells
from scumble.private.summaries.sums import SumSummary
from scumble.private.tables.sorted_keys import isin_sorted
from scumble.private.tables.writer import decoded, table_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scumble.model.schema.cell_keys import CellKeys
    from scumble.private.meter.table import PrivateTable
    from scumble.private.sampling.sparse import EmptyCellRule, PrioritizedCells
    from scumble.private.tables.counter import Occupied


MOST_CELLS = 10**8
_WRITE_CHUNK = 1 << 20


@dataclass(kw_only=True, eq=False, repr=False)
class Histogram(SumSummary):
    """Publishes the count of every combination of values of the chosen attributes, each with
    discrete Laplace noise. Any condition on these attributes is answered by adding cells.

    `neighbours` says who is protected: "replace" hides what one person's rows say, "add_remove"
    also hides whether the person is in the table. `contribution` is the number of rows that a
    person has at most; with `person`, an identifier of the schema, only this number of rows of each
    person is counted, without it the bound is the owner's word.

    Promises: ε-DP of the whole release. Proof: the cells are disjoint, so that one person changes
        the counts by at most Δ = contribution (add or remove) or 2·contribution (replace) in all;
        noise with P(z) ∝ exp(−|z|ε/Δ), independent by cell, changes the probability of any output
        by a factor of at most e^ε. The noise is integer and its sampler exact.
    Estimate: the sum of the noisy cells that satisfy the condition, times what each adds; unbiased.
        The error is a sum of known noises whatever the data are, and its law gives the interval.
    Reference: Dwork, McSherry, Nissim, Smith, TCC 2006; two-sided geometric noise: Ghosh,
        Roughgarden, Sundararajan, STOC 2009.
    Differs: integer noise in place of real Laplace noise, whose floating-point form leaks. Counts
        are neither cut off at zero nor made to add up: that would bias sums of many cells.
    """

    name = "histogram"
    for_ranges = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(DiscreteLaplace(Fraction(self.unit.sensitivity) / self.cell_promise.epsilon))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cells = schema.size(self.names)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.names)} has {large(cells)} cells; Histogram "
                f"counts at most {large(MOST_CELLS)}. Choose fewer attributes, coarser bins, or "
                "the method sparse."
            )

    def outlook_of_cells(self, schema: Schema) -> tuple[str, ...]:
        law = DiscreteLaplace(Fraction(self.unit.sensitivity) / self.cell_promise.epsilon)
        cells = schema.size(self.names)
        tenth = -(-cells // 10)
        sentence = f"To expect: the count of one cell will be within {of_cells(law, 1)} {OFTEN}"
        if tenth > 1:
            many = of_cells(law, tenth)
            sentence += f", the sum of a tenth of all {cells:,} cells within {many}"
        return (f"{sentence}.",)

    def error_of_cells(self, schema: Schema, rows: int) -> float:
        law = DiscreteLaplace(Fraction(self.unit.sensitivity) / self.cell_promise.epsilon)
        return math.sqrt(-(-schema.size(self.names) // 10) * float(law.variance))

    def cell_layout(self, schema: Schema) -> Layout:
        attributes = [schema[name] for name in self.names]
        return {"cells.parquet": (*attributes, free_name("count", self.names))}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        counts, law = table.noisy_counts(self.names, self.unit, epsilon=self.cell_promise.epsilon)
        never = table.schema.impossible_cells(self.names)
        if never is not None:
            counts = np.where(never.reshape(-1), 0, counts)
        count = free_name("count", self.names)
        write_cells(folder / "cells.parquet", table.schema, self.names, count, counts)
        return Measurements(
            "cells.parquet", self.names, Cells(count, law), table.public_rows(self.unit)
        )

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], **protection(neighbours)), 1)
        yield Claim(cls(["a", "b"], **protection(neighbours, contribution=3)), 1)


def write_cells(
    path: Path, schema: Schema, names: Sequence[str], count: str, counts: np.ndarray[Any, Any]
) -> None:
    """Write the counts of all cells of some attributes, in the order of their keys, as a Parquet
    table with a column for each attribute and one named `count`.
    """
    attributes = [schema[name] for name in names]
    radix = schema.cell_keys(names)
    with table_writer(path, attributes, [(count, pa.int64())]) as writer:
        for begin in range(0, len(counts), _WRITE_CHUNK):
            part = counts[begin : begin + _WRITE_CHUNK]
            codes = radix.unpack(np.arange(begin, begin + len(part), dtype=np.uint64))
            writer.write_batch(decoded(attributes, codes, [(count, pa.array(part))]))


# --- sparse ---------------------------------------------------------------------------------------
#
# Sparse: noisy counts of a domain of any size, of which only the large ones are published.

MOST_PUBLISHED = 10**7
MOST_SPARSE_CELLS = 10**100
_SELDOM = 0.05
_MOST_ROWS = 0.5  # of them are held by the published cells, or their owner is told


@dataclass(kw_only=True, eq=False, repr=False)
class Sparse(AttributeSummary):
    """Publishes noisy counts of a table with far more cells than rows: every cell gets noise, empty
    ones too, but only cells with large noisy counts, or a sample of them, are published.

    `rule` says which: "filter" publishes the cells whose noisy counts reach a threshold theta;
    "threshold" a cell of noisy count v with probability min(|v|/tau, 1); "priority" a sample of
    `size` cells in which large counts are likelier; "filter priority" such a sample of the cells
    that reach theta. `false_cells` is how many empty cells are published in the mean, at most: it
    chooses theta or tau. `total` is the share of ε that is spent on the number of rows; none is
    where no replacement of a person changes that number, which is then published as it is.
    Neighbours, contribution and person are those of Histogram.

    Parameters:
        rule: filter, threshold, priority or 'filter priority'.
        size: cells that priority sampling publishes.
        false_cells: most empty cells published, in the mean.
        total: of epsilon, for the number of rows.

    Promises: ε-DP of the whole release. Proof: with noise of scale Δ/ε' on every cell of the domain
        the table of all noisy counts is ε'-DP, as in Histogram, and what is published is made of
        it alone, by a rule that does not depend on the rows. The noise of empty cells is not drawn
        cell by cell: how many pass, which and with what noise is drawn from exactly the law that
        they would have. The number of rows has Laplace noise that costs the rest of ε, or is the
        same for all neighbouring tables.
    Estimate: the sum of the published weights in the condition, less what empty cells add in the
        mean. Under "threshold" and "priority" it is unbiased, and its variance is that of the noise
        of all cells of the condition, published or not, and of the sampling. A filter loses cells
        with few rows: the sum is multiplied by the number of rows over that of all published cells,
        as if the lost rows were spread like the others, within what left-out cells can hold. For
        unbiased sums use "priority". A published cell lacks nothing; m that were left out hold at
        most m (theta − 1) rows and the noise of their sum, and at most the rows that the published
        cells leave unaccounted for: the interval reaches to the smaller of both.
    Reference: Cormode, Procopiuc, Srivastava, Tran, Differentially private summaries for sparse
        data, ICDT 2012; priority sampling: Duffield, Lund, Thorup, J. ACM 2007.
    Differs: the number of rows is published, which tells how much a filter lost. Noise is exact,
        where the paper has real numbers. Priorities have tickets of 64 bits or more in place of
        real numbers. Theta is at least 1 + a/(1 − a), a = e^(−ε'/Δ), so that no count is published
        too high in the mean. Filters let no negative counts pass; their mean is subtracted.
    """

    name = "sparse"
    data_dependent = True
    counts_every_cell = False
    proof = "a function of noisy counts: Cormode, Procopiuc, Srivastava, Tran, ICDT 2012"

    rule: Rule = "filter"
    size: int | None = None
    false_cells: float = 100
    total: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in RULES:
            raise ParameterError.of("Sparse", "rule", f"one of {', '.join(RULES)}", self.rule)
        self.size = self._check_size(self.size)
        self._false_cells = float(read_positive("Sparse", "false_cells", self.false_cells))
        if self._false_cells > MOST_PUBLISHED:
            allowed = f"a number above 0 and at most {large(MOST_PUBLISHED)}"
            raise ParameterError.of("Sparse", "false_cells", allowed, self.false_cells)
        read_share("Sparse", "total", self.total)
        for known in {False, self.unit.keeps_rows}:
            for law in self._laws(known):
                if law is not None:
                    check_scale(law)

    def _laws(self, known: bool) -> tuple[DiscreteLaplace, DiscreteLaplace | None]:
        """Return the noise of cells, and that of the number of rows unless it is `known`."""
        unit, epsilon = self.unit, self.promise.epsilon
        if known:
            return DiscreteLaplace(Fraction(unit.sensitivity) / epsilon), None
        spent = read_share("Sparse", "total", self.total) * epsilon
        noise = DiscreteLaplace(Fraction(unit.sensitivity) / (epsilon - spent))
        return noise, DiscreteLaplace(unit.rows / spent)

    def _check_size(self, size: int | None) -> int | None:
        if "priority" in self.rule:
            return whole("Sparse", "size", size, least=2, most=MOST_PUBLISHED)
        if size is not None:
            raise ParameterError(f"Sparse with the rule '{self.rule}' takes no {named('size')}.")
        return None

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cells = schema.size(self.names)
        if cells > MOST_SPARSE_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.names)} has more than {large(MOST_SPARSE_CELLS)} "
                "cells. Choose fewer attributes, or coarser bins."
            )

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return which cells were published, and how many empty ones to expect among them."""
        design = getattr(evidence, "design", None)
        if not isinstance(design, Design):
            return {}
        cells, tails = schema.size(self.names), NoiseTails(design.noise)
        rows = "rows" if design.total_noise is None else "rows, noisy"
        facts: dict[str, Any] = {"cells of the domain": cells, rows: design.total}
        if design.theta:
            expected = cells * tails.chance(design.theta)
            facts |= {"smallest published": design.theta, "empty cells that pass": expected}
        if design.tau:
            facts["sampled below"] = float(design.tau)
        return facts

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Return the size from which a cell is published, and the size below which it is not."""
        if "filter" not in self.rule:
            return ()
        noise, _ = self._laws(self.unit.keeps_rows)
        theta, tails = self._theta(schema.size(self.names), noise), NoiseTails(noise)
        far = max(math.ceil(float(noise.scale) * math.log(tails.chance(0) / _SELDOM)), 1)
        published = f"one that {theta + far - 1} people or more have will be there {OFTEN}"
        lost = f", one that {theta - far} or fewer have will be left out as often"
        rule = f"a combination of values is published if its noisy count is at least {theta}"
        return (f"To expect: {rule}; {published}{lost if theta > far else ''}.",)

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        """Say how much the filter has left, from what is published: all cells, and the noisy
        number of rows.
        """
        design = getattr(evidence, "design", None)
        if not isinstance(design, Design) or not design.filtered or design.total <= 0:
            return ()
        import pyarrow.parquet as pq

        with pq.ParquetFile(folder / evidence.files[0]) as file:
            weights = file.read([design.weight])[design.weight]
        if not len(weights):
            return (f"No combination of values stands out of the noise. {_suggest_settings()}",)
        false = schema.size(self.names) * NoiseTails(design.noise).first(design.theta)
        held = (pc.sum(weights).as_py() - false) / design.total
        if held >= _MOST_ROWS:
            return ()
        sentence = (
            f"The published cells hold about {max(100 * held, 0):.0f} % of the rows: the others "
            "have combinations of values that are too rare, and answers take them as spread like "
            "these."
        )
        return (f"{sentence} {_suggest_settings()}",)

    def layout(self, schema: Schema) -> Layout:
        attributes = [schema[name] for name in self.names]
        return {"cells.parquet": (*attributes, *self._name_columns())}

    def _name_columns(self) -> tuple[str, str]:
        """Return the names of the columns with noisy counts and with their weights."""
        return free_name("count", self.names), free_name("weight", self.names)

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        cells = PrivateCells(table, self.names, self.unit)
        noise, of_total = self._laws(table.keeps_rows(self.unit))
        total = 0 if of_total is None else cells.total(of_total)
        theta = self._theta(cells.cell_keys.size, noise) if "filter" in self.rule else 0
        published = self._publish_cells(cells, noise, theta)
        if of_total is None:
            total = table.public_rows(self.unit) or 0
        count, weight = self._name_columns()
        design = Design(self.rule, noise, count, weight, theta, published.tau, total, of_total)
        _write(
            folder / "cells.parquet", table.schema, self.names, design, cells.cell_keys, published
        )
        return Measurements("cells.parquet", self.names, design, table.public_rows(self.unit))

    def _publish_cells(
        self, cells: PrivateCells, noise: DiscreteLaplace, theta: int
    ) -> SelectedCells:
        if self.rule == "filter":
            return cells.filter(noise, theta)
        if self.rule == "threshold":
            return cells.sample(noise, self._tau(cells.cell_keys.size, noise))
        size = self.size or 0
        if self.rule == "priority":
            return cells.draw_priority(noise, size)
        return cells.filter_and_draw(noise, theta, size)

    def _theta(self, cells: int, noise: DiscreteLaplace) -> int:
        """Return the least threshold that at most `false_cells` empty cells pass in the mean."""
        tails = NoiseTails(noise)
        ratio = cells * tails.chance(0) / self._false_cells
        wanted = math.ceil(noise.scale * Fraction(max(math.log(ratio), 0.0)))
        return max(wanted, tails.least_theta)

    def _tau(self, cells: int, noise: DiscreteLaplace) -> int:
        """Return the least tau, to 53 bits, that keeps at most `false_cells` empty cells."""
        tails = NoiseTails(noise)
        below, above = 0, 1
        while cells * tails.keep_chance(float(above)) > self._false_cells:
            below, above = above, 2 * above
        while above - below > max(1, above >> 52):
            middle = (below + above) // 2
            keeps = cells * tails.keep_chance(float(middle)) > self._false_cells
            below, above = (middle, above) if keeps else (below, middle)
        return above

    def _more_limits(self) -> tuple[str, ...]:
        if "filter" in self.rule:
            rare = "Combinations of values that few people have are not published"
            return (f"{rare}; answers take their rows as spread like the others.",)
        return ()

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours)
        yield Claim(cls(["a", "b"], false_cells=1, **given), 1)
        yield Claim(cls(["a", "b"], rule="priority", size=3, **given), 1)


def _suggest_settings() -> str:
    return (
        "Fewer attributes, coarser bins or a larger epsilon show more of them; "
        f"{setting('rule', 'threshold')} answers without that bias, and with more noise."
    )


def _write(
    path: Path,
    schema: Schema,
    names: Sequence[str],
    design: Design,
    radix: CellKeys,
    published: SelectedCells,
) -> None:
    """Write the published cells, without those that no row can be in."""
    attributes = [schema[name] for name in names]
    known = [each for each in schema.impossible_conditions if set(each.names) <= set(names)]
    columns = [(design.count, pa.int64()), (design.weight, pa.float64())]
    with table_writer(path, attributes, columns) as writer:
        for begin in range(0, len(published.counts), _WRITE_CHUNK):
            keys = published.keys[begin : begin + _WRITE_CHUNK]
            part = begin + np.arange(len(keys))
            if known:
                codes = dict(zip(names, radix.unpack(keys), strict=True))
                part = part[~np.logical_or.reduce([each.holds(codes) for each in known])]
            numbers = [
                (design.count, pa.array(published.counts[part])),
                (design.weight, pa.array(published.weights[part])),
            ]
            writer.write_batch(decoded(attributes, radix.unpack(published.keys[part]), numbers))


# --- sparse meter ---------------------------------------------------------------------------------
#
# Noisy counts of a domain of any size, of which a rule publishes a few cells.
#
# Every method has the same law as adding noise to each cell of the domain, empty or not, and
# applying the rule to the noisy counts afterwards. So the release is a function of noisy counts
# alone, and costs what the noise costs.

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
_WORD = 64


@dataclass(frozen=True)
class SelectedCells:
    """The cells that a rule published, in the order of the domain.

    `weights` are the numbers that represent them in sums. `tau` is the threshold below which cells
    were sampled (0 if none were).
    """

    keys: Keys
    counts: npt.NDArray[np.int64]
    weights: Floats
    tau: Fraction


class PrivateCells:
    """The cells of the product of `names` that have rows, of which only charged measurements are
    returned.
    """

    def __init__(self, table: PrivateTable, names: Sequence[str], unit: PrivacyUnit) -> None:
        self.names = tuple(names)
        self.unit = unit
        self.cell_keys: CellKeys = table.schema.cell_keys(names)
        self._table = table
        self._noise = table._noise
        self._source = table._noise.source

    def total(self, law: DiscreteLaplace) -> int:
        """Return the number of rows plus noise; one person has at most `unit.rows` rows."""
        self._charge("noisy number of rows", law, self.unit.rows)
        rows = np.array([self._cells.counts.sum()])
        self._noise.add(rows, law)
        return int(rows[0])

    def filter(self, law: DiscreteLaplace, theta: int) -> SelectedCells:
        """Return the cells whose noisy counts are at least `theta`."""
        self._charge("filtered cells", law, self.unit.sensitivity)
        keys, counts = self._filter_cells(law, theta)
        return SelectedCells(keys, counts, counts.astype(float), Fraction(0))

    def sample(self, law: DiscreteLaplace, tau: int) -> SelectedCells:
        """Return each cell of noisy count v with probability min(|v|/tau, 1)."""
        self._charge("sampled cells", law, self.unit.sensitivity)
        counts = self._add_noise(law)
        chosen = np.flatnonzero(integers(self._source, tau, len(counts)) < np.abs(counts))
        keys, counts = self._join_cells(chosen, counts, SampleRule(law.scale, tau))
        return _weigh_cells(keys, counts, Fraction(tau))

    def draw_priority(self, law: DiscreteLaplace, size: int) -> SelectedCells:
        """Return a priority sample of `size` cells."""
        self._charge("drawn cells", law, self.unit.sensitivity)
        level = _find_first_level(self.cell_keys.size, law, size)
        bits = _WORD * max(1, -(-level // _WORD))
        counts = self._add_noise(law)
        tickets = sparse.draw_tickets(self._source, len(counts), bits)
        own = sparse.PrioritizedCells(self._cells.keys, counts, tickets)
        capacities = self.cell_keys.capacities
        empty = sparse.high_priority_cells(self._source, capacities, law.scale, level, bits)
        empty = empty.only(~isin_sorted(empty.keys, own.keys))
        while level and len(empty) + np.count_nonzero(own.passing(level, bits)) <= size:
            level -= 1
            more = sparse.next_priority_cells(self._source, capacities, law.scale, level, bits)
            new = ~isin_sorted(more.keys, own.keys) & ~isin_sorted(
                more.keys, _sort_cells(empty).keys
            )
            empty = empty + more.only(new)
        cells = _sort_cells(own.only(own.passing(level, bits)) + empty)
        return _draw_priority_sample(cells, size, bits)

    def filter_and_draw(self, law: DiscreteLaplace, theta: int, size: int) -> SelectedCells:
        """Return a priority sample of `size` of the cells whose noisy counts are at least
        `theta`.
        """
        self._charge("drawn cells", law, self.unit.sensitivity)
        keys, counts = self._filter_cells(law, theta)
        tickets = sparse.draw_tickets(self._source, len(counts))
        return _draw_priority_sample(
            sparse.PrioritizedCells(keys, counts, tickets), size, sparse.BITS
        )

    def _charge(self, what: str, law: DiscreteLaplace, sensitivity: int) -> None:
        check_scale(law)
        reason = f"{what} of {', '.join(self.names)}"
        self._table._account.charge(reason, PrivacyLoss(sensitivity / law.scale))

    @cached_property
    def _cells(self) -> Occupied:
        return self._table._counter.occupied(self.names, self.unit)

    def _add_noise(self, law: DiscreteLaplace) -> npt.NDArray[np.int64]:
        return self._noise.cells(self._cells.keys, self._cells.counts, law)

    def _filter_cells(self, law: DiscreteLaplace, theta: int) -> tuple[Keys, npt.NDArray[np.int64]]:
        counts = self._add_noise(law)
        return self._join_cells(
            np.flatnonzero(counts >= theta), counts, FilterRule(law.scale, theta)
        )

    def _join_cells(
        self, chosen: npt.NDArray[np.intp], counts: npt.NDArray[np.int64], rule: EmptyCellRule
    ) -> tuple[Keys, npt.NDArray[np.int64]]:
        """Return the occupied cells that passed and the empty cells that pass, with their noisy
        counts, in the order of their keys, which does not tell the two apart.
        """
        keys = passing_cells(self._source, self.cell_keys.capacities, rule)
        keys = keys[~isin_sorted(keys, self._cells.keys)]
        values = rule.draw(self._source, len(keys))
        together = np.concatenate([self._cells.keys[chosen], keys])
        order = _order(together)
        return together[order], np.concatenate([counts[chosen], values])[order]


def _find_first_level(cells: int, law: DiscreteLaplace, size: int) -> int:
    """Return a level such that, in an empty table, more cells than needed have a priority of at
    least 2^level in the mean.
    """
    wanted, tails = 1.5 * (size + 1) + 20, NoiseTails(law)
    level = max(0, math.ceil(math.log2(cells / wanted * (1 + tails.mean))))
    while level and cells * tails.keep_chance(2.0**level) < wanted:
        level -= 1
    return level


def _draw_priority_sample(cells: PrioritizedCells, size: int, bits: int) -> SelectedCells:
    rows, tau = priority_sample(cells, size, bits)
    return _weigh_cells(cells.keys[rows], cells.values[rows], tau)


def _weigh_cells(keys: Keys, counts: npt.NDArray[np.int64], tau: Fraction) -> SelectedCells:
    weights = np.sign(counts) * np.maximum(np.abs(counts), float(tau))
    return SelectedCells(keys, counts, weights, tau)


def _sort_cells(cells: PrioritizedCells) -> PrioritizedCells:
    return cells.only(_order(cells.keys))


def _order(keys: Keys) -> npt.NDArray[Any]:
    return np.argsort(keys) if keys.ndim == 1 else np.lexsort(keys.T[::-1])
