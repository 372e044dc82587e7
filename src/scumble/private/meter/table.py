"""PrivateTable, PrivateCounts, marginals: charge, then measure.

The private table as differentially private releases see it: every verb charges, then touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.axis import IdentityTransform, Transform
from scumble.model.designs.residual_planner import privacy_cost
from scumble.model.designs.residuals import MarginalTable, Residuals, differences
from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import NoiseLaw, NoisySteps, check_scale

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.counter import CellCounter


class PrivateTable:
    """A metered view: nothing of the rows comes out but what was charged for."""

    def __init__(self, counter: CellCounter, account: BudgetAccount, noise: Keystream) -> None:
        self._counter = counter
        self._account = account
        self._noise = self._steps(noise)

    def _steps(self, source: Keystream) -> NoisySteps:
        """The randomised steps of this table's measurements; the audit overrides it to record."""
        return NoisySteps(source)

    @property
    def schema(self) -> Schema:
        return self._counter.schema

    def noisy_counts(
        self, names: Sequence[str], unit: PrivacyUnit, *, epsilon: Fraction
    ) -> tuple[Counts, DiscreteLaplace]:
        """The count of every cell of the product of some attributes, plus discrete Laplace noise.

        Cells are disjoint, so a person changes at most `unit.sensitivity` of all counts together;
        noise of scale sensitivity/ε on each makes the whole array ε-DP.
        """
        self._account.charge(f"noisy counts of {', '.join(names)}", PrivacyLoss(epsilon))
        law = DiscreteLaplace(Fraction(unit.sensitivity) / epsilon)
        [counts] = self._counter.counts([names], unit)
        self._noise.add(counts, law)
        return counts, law

    def counts(self, names: Sequence[str], unit: PrivacyUnit) -> PrivateCounts:
        """The counts of every cell of the product of some attributes, behind the meter."""
        return self.marginals([names], unit)[0]

    def marginals(self, sets: Sequence[Sequence[str]], unit: PrivacyUnit) -> list[PrivateCounts]:
        """The counts of several products of attributes, found in one pass over the rows."""
        found = self._counter.counts(sets, unit)
        return [
            PrivateCounts(tuple(names), counts, unit, self._account, self._noise)
            for names, counts in zip(sets, found, strict=True)
        ]


# Counts of cells behind the meter: linear measurements with noise are the way out.

Counts = npt.NDArray[np.int64]


class PrivateCounts:
    """The counts of all cells of the product of `names`. Nothing of them comes out but what was
    charged for; only the metered rooms, whose names begin with private, touch the array.
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
        """How many cells there are: the product of the domains, which is public."""
        return len(self._counts)

    def noisy(
        self, laws: Sequence[NoiseLaw], transform: Transform | None = None
    ) -> list[npt.NDArray[Any]]:
        """Sums of counts plus independent noise, one law for each group of the transform.

        One person moves the numbers of a group by at most `sensitivity` columns in all. Laplace
        noise of scale b then costs ε = sensitivity · (largest column sum) / b for the group;
        Gaussian noise of parameter σ² costs ρ = (largest squared length) / 2σ². Groups add up.
        """
        chosen = IdentityTransform() if transform is None else transform
        norms = chosen.norms()
        if len(norms) != len(laws):
            raise ParameterError(f"{len(norms)} groups of numbers need as many laws of noise.")
        for law in laws:
            check_scale(law)
        self.charge(
            "noisy sums", self._cost(laws, norms, nonnegative_gram=chosen.nonnegative_gram(laws))
        )
        numbers = [np.ascontiguousarray(group) for group in chosen.apply(self._counts)]
        for group, law in zip(numbers, laws, strict=True):
            self._noise.add(group.reshape(-1), law)
        return numbers

    def charge(self, what: str, cost: PrivacyLoss) -> None:
        """Pay for a look, or be refused."""
        self._account.charge(f"{what} of {', '.join(self.names)}", cost)

    def _cost(
        self, laws: Sequence[NoiseLaw], norms: Sequence[tuple[int, int]], *, nonnegative_gram: bool
    ) -> PrivacyLoss:
        total, square = (
            self.unit.sensitivity,
            self.unit.squared_sensitivity(nonnegative_gram=nonnegative_gram),
        )
        epsilon = rho = Fraction(0)
        for law, (absolute, squares) in zip(laws, norms, strict=True):
            if isinstance(law, DiscreteLaplace):
                epsilon += total * absolute / law.scale
            else:
                rho += square * squares / (2 * law.parameter)
        return PrivacyLoss(epsilon) if not rho else PrivacyLoss(rho=rho + epsilon**2 / 2)


# Noisy marginals, and parts of them, behind the meter.

Integers = npt.NDArray[np.int64]

_TOGETHER = 1 << 12  # tables whose noise is drawn at once: the call costs more than small tables


def noisy_tables(table: PrivateTable, design: Residuals, unit: PrivacyUnit) -> Integers:
    """The numbers of all tables of a design, one after the other.

    What they cost together is in `designs.residual_price`, with its proof.
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
    """Neighbouring tables that have the same noise."""
    for _, same in groupby(enumerate(tables), key=lambda numbered: numbered[1].law):
        run = list(same)
        for begin in range(0, len(run), _TOGETHER):
            yield run[begin : begin + _TOGETHER]


def _before(design: Residuals, table: MarginalTable, counts: Integers) -> Integers:
    """What noise is added to: counts of cells, or their one contrast."""
    if table.form != "contrast":
        return counts
    return differences(counts.reshape(_shape(design, table))).reshape(-1)


def _after(design: Residuals, table: MarginalTable, noisy: Integers) -> Integers:
    """What is published of it."""
    if table.form != "residual":
        return noisy
    return differences(noisy.reshape(_shape(design, table))).reshape(-1)


def _shape(design: Residuals, table: MarginalTable) -> list[int]:
    return [design.sizes[place] for place in table.places]
