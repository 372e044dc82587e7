"""The private table as differentially private summaries see it: every method charges the budget
account first and reads the counts afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.axis import IdentityTransform, Transform
from scumble.model.designs.residuals import MarginalTable, Residuals, differences, privacy_cost
from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import (
    BudgetAccount,
    PaidTogether,
    PrivacyLoss,
    PrivacyUnit,
    cost_of_sums,
)
from scumble.private.meter.noise import NoisySteps, check_scale

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.counter import CellCounter


class PrivateTable:
    """A table whose counts are measured with noise from one keystream, at the cost of one budget
    account. No other information about the rows is returned.
    """

    def __init__(self, counter: CellCounter, account: BudgetAccount, noise: Keystream) -> None:
        self._counter = counter
        self._account = account
        self._noise = self._steps(noise)

    def _steps(self, source: Keystream) -> NoisySteps:
        """Return the randomised steps of this table's measurements; the audit overrides it."""
        return NoisySteps(source)

    @property
    def schema(self) -> Schema:
        return self._counter.schema

    def over(self, counter: Callable[[CellCounter], CellCounter]) -> PrivateTable:
        """Return a table that counts by `counter` of this one's counter; its measurements are
        charged to the same account, and draw noise from the same keystream.
        """
        found = copy(self)
        found._counter = counter(self._counter)
        return found

    def paid_together(self, sides: Sequence[CellCounter]) -> Iterator[PrivateTable]:
        """Yield tables that count the sides of amounts, to be measured alike one after the other.
        What the first one is charged pays for all of them (see `PrivacyUnit.sided`).
        """
        before = len(self._account.charges)
        for place, side in enumerate(sides):
            found = copy(self)
            found._counter = side
            if place:
                found._account = PaidTogether(self._account, before)
            yield found

    def public_rows(self, unit: PrivacyUnit) -> int | None:
        """Return the number of rows that were counted, if no replacement of a person changes it.

        It is then the same for all neighbouring tables, so that publishing it costs nothing. It is
        None where a replacement may change it, as where values decide which rows are counted.
        """
        return self._counter.counted if self.keeps_rows(unit) else None

    def keeps_rows(self, unit: PrivacyUnit) -> bool:
        """Return whether neighbouring tables have equally many rows that are counted."""
        return unit.keeps_rows and not self._counter.selects

    def noisy_counts(
        self, names: Sequence[str], unit: PrivacyUnit, *, epsilon: Fraction
    ) -> tuple[Counts, DiscreteLaplace]:
        """Return the noisy count of every cell of the product of the attributes `names`, and the
        law of the noise.

        Cells are disjoint, so a person changes all counts together by at most `unit.sensitivity`.
        Discrete Laplace noise of scale sensitivity/ε on each makes the whole array ε-DP.
        """
        self._account.charge(f"noisy counts of {', '.join(names)}", PrivacyLoss(epsilon))
        law = DiscreteLaplace(Fraction(unit.sensitivity) / epsilon)
        [counts] = self._counter.counts([names], unit)
        self._noise.add(counts, law)
        return counts, law

    def counts(self, names: Sequence[str], unit: PrivacyUnit) -> PrivateCounts:
        """Return the counts of all cells of the product of the attributes `names`."""
        return self.marginals([names], unit)[0]

    def marginals(self, sets: Sequence[Sequence[str]], unit: PrivacyUnit) -> list[PrivateCounts]:
        """Return the counts of several products of attributes, found in one pass over the rows."""
        found = self._counter.counts(sets, unit)
        return [
            PrivateCounts(tuple(names), counts, unit, self._account, self._noise)
            for names, counts in zip(sets, found, strict=True)
        ]


Counts = npt.NDArray[np.int64]


class PrivateCounts:
    """The counts of all cells of the product of `names`, of which only charged measurements are
    returned. Only modules of this folder read the array.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        counts: Counts,
        unit: PrivacyUnit,
        account: BudgetAccount,
        noise: NoisySteps,
    ) -> None:
        self.names = names
        self.unit = unit
        self._counts = counts
        self._account = account
        self._noise = noise

    @property
    def size(self) -> int:
        """The number of cells: the product of the domains, which is public."""
        return len(self._counts)

    def noisy(
        self, laws: Sequence[NoiseLaw], transform: Transform | None = None
    ) -> list[npt.NDArray[Any]]:
        """Return the sums of counts of each group of `transform` plus independent noise; group k
        has noise of `laws[k]`. Without `transform` the counts themselves are the one group.

        Their privacy cost is `accounting.cost_of_sums`.
        """
        chosen = IdentityTransform() if transform is None else transform
        norms = chosen.norms()
        if len(norms) != len(laws):
            raise ParameterError(f"{len(norms)} groups of numbers need as many laws of noise.")
        for law in laws:
            check_scale(law)
        gram = chosen.nonnegative_gram(laws)
        self.charge("noisy sums", cost_of_sums(laws, norms, self.unit, nonnegative_gram=gram))
        numbers = [np.ascontiguousarray(group) for group in chosen.apply(self._counts)]
        for group, law in zip(numbers, laws, strict=True):
            self._noise.add(group.reshape(-1), law)
        return numbers

    def charge(self, what: str, cost: PrivacyLoss) -> None:
        """Charge the account for the measurement `what`; PromiseError if too little is left."""
        self._account.charge(f"{what} of {', '.join(self.names)}", cost)


# --- noisy marginals and residuals ---------------------------------------------------------------

Integers = npt.NDArray[np.int64]

_TOGETHER = 1 << 12  # tables whose noise is drawn in one call, which costs more than a small table


def noisy_tables(table: PrivateTable, design: Residuals, unit: PrivacyUnit) -> Integers:
    """Return the noisy numbers of all tables of `design`, one table after the other.

    Their privacy cost is `residual_planner.privacy_cost`, with its proof there.
    """
    for each in design.tables:
        check_scale(each.law)
    loss = privacy_cost(design.tables, design.sizes, unit)
    table._account.charge(f"noisy tables of {', '.join(design.attributes)}", loss)
    sets = [[design.attributes[place] for place in each.places] for each in design.tables]
    counted = table.marginals(sets, unit)
    numbers = np.empty(design.numbers, np.int64)
    slices = list(design.slices())
    for run in _runs(design.tables):
        before = [_before(design, run_table, counted[number]._counts) for number, run_table in run]
        noisy = np.concatenate(before)
        table._noise.add(noisy, run[0][1].law)
        ends = np.cumsum([len(part) for part in before])[:-1]
        for (number, run_table), part in zip(run, np.split(noisy, ends), strict=True):
            numbers[slices[number]] = _after(design, run_table, part)
    return numbers


def _runs(tables: tuple[MarginalTable, ...]) -> Iterator[list[tuple[int, MarginalTable]]]:
    """Yield runs of consecutive tables that have the same noise, each with its index."""
    for _, same in groupby(enumerate(tables), key=lambda numbered: numbered[1].law):
        run = list(same)
        for begin in range(0, len(run), _TOGETHER):
            yield run[begin : begin + _TOGETHER]


def _before(design: Residuals, table: MarginalTable, counts: Integers) -> Integers:
    """Return the numbers that noise is added to: the counts of all cells, or their one contrast."""
    if table.form != "contrast":
        return counts
    return differences(counts.reshape(_shape(design, table))).reshape(-1)


def _after(design: Residuals, table: MarginalTable, noisy: Integers) -> Integers:
    """Return the numbers that are published: the noisy numbers, or the differences of a
    residual.
    """
    if table.form != "residual":
        return noisy
    return differences(noisy.reshape(_shape(design, table))).reshape(-1)


def _shape(design: Residuals, table: MarginalTable) -> list[int]:
    return [design.sizes[place] for place in table.places]
