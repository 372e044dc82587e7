"""Sparse: noisy counts of a domain of any size, of which only the large ones are published."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from scumble.model.designs.sparse import RULES, NoiseTails, Rule
from scumble.model.designs.sparse import Sparse as Design
from scumble.model.errors import ParameterError, large, named, setting
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import free_name, whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import read_positive, read_share
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim, protection
from scumble.private.mechanism import Layout
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary

if TYPE_CHECKING:
    from scumble.model.schema.cell_keys import CellKeys
    from scumble.private.meter.sparse import PrivateCells, PublishedCells

MOST_PUBLISHED = 10**7
MOST_CELLS = 10**100
_WRITE_CHUNK = 1 << 20
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
        with few rows. A published cell lacks nothing; m that were left out hold at most
        m (theta − 1) rows and the noise of their sum, and at most the rows that the published cells
        leave unaccounted for: the interval reaches to the smaller of both.
    Reference: Cormode, Procopiuc, Srivastava, Tran, Differentially private summaries for sparse
        data, ICDT 2012; priority sampling: Duffield, Lund, Thorup, J. ACM 2007.
    Differs: the number of rows is published, which tells how much a filter lost. Noise is exact,
        where the paper has real numbers. Priorities have tickets of 64 bits or more in place of
        real numbers. Theta is at least 1 + a/(1 − a), a = e^(−ε'/Δ), so that no count is published
        too high in the mean. Filters let no negative counts pass; their mean is subtracted.
    """

    name = "sparse"
    data_dependent = True
    proof = "a function of noisy counts: Cormode, Procopiuc, Srivastava, Tran, ICDT 2012"

    rule: Rule = "filter"
    size: int | None = None
    false_cells: float = 100
    total: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in RULES:
            raise ParameterError.of("Sparse", "rule", f"one of {', '.join(RULES)}", self.rule)
        self.size = self._checked_size(self.size)
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

    def _checked_size(self, size: int | None) -> int | None:
        if "priority" in self.rule:
            return whole("Sparse", "size", size, least=2, most=MOST_PUBLISHED)
        if size is not None:
            raise ParameterError(f"Sparse with the rule '{self.rule}' takes no {named('size')}.")
        return None

    def check(self, schema: Schema) -> None:
        super().check(schema)
        cells = schema.size(self.names)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.names)} has more than {large(MOST_CELLS)} "
                "cells. Choose fewer attributes, or coarser bins."
            )

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Which cells were published, and how many of them are expected to be empty."""
        design = getattr(evidence, "design", None)
        if not isinstance(design, Design):
            return {}
        cells, tails = schema.size(self.names), NoiseTails(design.noise)
        rows = "rows" if design.total_noise is None else "rows, noisy"
        told: dict[str, Any] = {"cells of the domain": cells, rows: design.total}
        if design.theta:
            expected = cells * tails.chance(design.theta)
            told |= {"smallest published": design.theta, "empty cells that pass": expected}
        if design.tau:
            told["sampled below"] = float(design.tau)
        return told

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """From which size on a cell is published, and below which it is not."""
        if "filter" not in self.rule:
            return ()
        noise, _ = self._laws(self.unit.keeps_rows)
        theta, tails = self._theta(schema.size(self.names), noise), NoiseTails(noise)
        far = max(math.ceil(float(noise.scale) * math.log(tails.chance(0) / _SELDOM)), 1)
        kept = f"one that {theta + far - 1} people or more have will be there {OFTEN}"
        lost = f", one that {theta - far} or fewer have will be left out as often"
        rule = f"a combination of values is published if its noisy count is at least {theta}"
        return (f"To expect: {rule}; {kept}{lost if theta > far else ''}.",)

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        """How much the filter has left, from what is published: all cells, and the noisy number of
        rows.
        """
        design = getattr(evidence, "design", None)
        if not isinstance(design, Design) or not design.filtered or design.total <= 0:
            return ()
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        with pq.ParquetFile(folder / evidence.files[0]) as file:
            weights = file.read([design.weight])[design.weight]
        if not len(weights):
            return (f"No combination of values stands out of the noise. {_shown_better()}",)
        false = schema.size(self.names) * NoiseTails(design.noise).first(design.theta)
        held = (pc.sum(weights).as_py() - false) / design.total
        if held >= _MOST_ROWS:
            return ()
        sentence = (
            f"The published cells hold about {max(100 * held, 0):.0f} % of the rows: the others "
            "have combinations of values that are too rare, and answers about them are too low."
        )
        return (f"{sentence} {_shown_better()}",)

    def layout(self, schema: Schema) -> Layout:
        attributes = [schema[name] for name in self.names]
        return {"cells.parquet": (*attributes, *self._numbers())}

    def _numbers(self) -> tuple[str, str]:
        """The names of the columns with noisy counts and with their weights."""
        return free_name("count", self.names), free_name("weight", self.names)

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        from scumble.private.meter.sparse import PrivateCells

        cells = PrivateCells(table, self.names, self.unit)
        noise, of_total = self._laws(table.keeps_rows(self.unit))
        total = 0 if of_total is None else cells.total(of_total)
        theta = self._theta(cells.cell_keys.size, noise) if "filter" in self.rule else 0
        found = self._published(cells, noise, theta)
        if of_total is None:
            total = table.public_rows(self.unit) or 0
        count, weight = self._numbers()
        design = Design(self.rule, noise, count, weight, theta, found.tau, total, of_total)
        _write(folder / "cells.parquet", table.schema, self.names, design, cells.cell_keys, found)
        return Measurements("cells.parquet", self.names, design, table.public_rows(self.unit))

    def _published(self, cells: PrivateCells, noise: DiscreteLaplace, theta: int) -> PublishedCells:
        if self.rule == "filter":
            return cells.filtered(noise, theta)
        if self.rule == "threshold":
            return cells.sampled(noise, self._tau(cells.cell_keys.size, noise))
        size = self.size or 0
        if self.rule == "priority":
            return cells.drawn(noise, size)
        return cells.filtered_drawn(noise, theta, size)

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
        while cells * tails.kept(float(above)) > self._false_cells:
            below, above = above, 2 * above
        while above - below > max(1, above >> 52):
            middle = (below + above) // 2
            keeps = cells * tails.kept(float(middle)) > self._false_cells
            below, above = (middle, above) if keeps else (below, middle)
        return above

    def _more_limits(self) -> tuple[str, ...]:
        if "filter" in self.rule:
            return ("Combinations of values that few people have are left out of most answers.",)
        return ()

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours)
        yield Claim(cls(["a", "b"], false_cells=1, **given), 1)
        yield Claim(cls(["a", "b"], rule="priority", size=3, **given), 1)


def _shown_better() -> str:
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
    found: PublishedCells,
) -> None:
    from scumble.private.tables.writer import decoded, table_writer

    attributes = [schema[name] for name in names]
    columns = [(design.count, pa.int64()), (design.weight, pa.float64())]
    with table_writer(path, attributes, columns) as writer:
        for begin in range(0, len(found.counts), _WRITE_CHUNK):
            part = slice(begin, begin + _WRITE_CHUNK)
            numbers = [
                (design.count, pa.array(found.counts[part])),
                (design.weight, pa.array(found.weights[part])),
            ]
            writer.write_batch(decoded(attributes, radix.unpack(found.keys[part]), numbers))
