"""SumSummary: the base class of releases that measure sums of amounts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import hypot, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, cast

from scumble.model.designs.sides import Sides
from scumble.model.errors import ParameterError, SchemaError, named
from scumble.model.evidence.evidence import MeasuredSum, Measurements, sum_files
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit, rho_for
from scumble.model.privacy.guarantee import read_share
from scumble.model.schema.amounts import Amounts, Products
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout, create
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary
from scumble.private.tables.counter import CellCounter, CountsAndSums, Side, SumCounter

MOST_SUMS = 26
SUM_SHARE = Fraction(1, 2)  # of the budget, where counts have noise of their own
_LEVEL_REACH = 1.96  # standard errors, nineteen times in twenty
_SIDES: tuple[Side, ...] = ("above", "below", "absent")
_KEPT = 1 - Fraction(1, 1 << 40)  # of ε and δ, where residuals are measured
_SHARES = 1 << 20  # shares are multiples of 1 / _SHARES
# Of what a sum gets, for the counts of the rows with an amount where it may be missing: Laplace
# noise 1 / (1 + ∛4), Gaussian noise 1 / (1 + √8) or, with add or remove, 1 / 3.
_PRESENT = {False: Fraction(387, 1000), True: Fraction(261, 1000)}


@dataclass(kw_only=True, eq=False, repr=False)
class SumSummary(AttributeSummary):
    """Measures sums of amounts by cells.

    The sums of one column are measured on both sides of its amounts, which tells the counts of the
    same cells as well. Of a row with an amount, `above` is the number of steps from the lower limit
    to it, and `below` that from it to the upper limit: W in all, whatever the amount is. A row
    without an amount adds W to `absent`. The sums of all sides have the same noise. A row changes
    all of them together by at most W times what it changes a count by, so that each has the whole
    budget, and not a part of it (proof in `PrivacyUnit`). The count of a cell is the sum of its
    sides over W, and an average the ratio of two sums of independent noises.

    Where cells follow from the counts (boxes), of several columns or moments, and where `sum_share`
    is given, the sums are measured beside counts with noise of their own: a row adds its amount
    less the middle of the limits. Half of the budget is then for the counts, the other half for all
    sums alike. For one sum, the least variance of an average that lies a quarter of the limits from
    their middle would take 61 % of a pure ε for it; the counts keep at least half, since most
    questions need them alone.

    With `sum_ways`, sums are measured by tables of so many attributes, as by `Marginals`, and not
    by the cells of the counts: an average of a group adds up far fewer noisy numbers. The counts
    have noise of their own there too, and what `sum_share` leaves of the budget.

    Parameters:
        sums: columns of whole numbers or amounts, for SUM and AVG, as income.
        sum_share: of epsilon, for sums beside counts with noise of their own; by default half.
        sum_ways: attributes that sums are asked by together; by default all that are counted.
        moments: products of them to sum too: income*income for STDDEV, with income*age for CORR.
    """

    chooses_cells: ClassVar[bool] = False  # by their counts

    sums: Sequence[str] = ()
    sum_share: float | None = None
    sum_ways: int | None = None
    moments: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        names = _listed(self.sums)
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise ParameterError.of(owner, "sums", "a list of different columns", list(names))
        self.sums = names
        self._factors = [self._read_moment(each) for each in _listed(self.moments)]
        self.moments = tuple("*".join(each) for each in self._factors)
        if len({*names, *self.moments}) < len(names) + len(self.moments):
            raise ParameterError.of(owner, "moments", "a list of different products", self.moments)
        if len(names) + len(self.moments) > MOST_SUMS:
            raise ParameterError(
                f"{owner} takes at most {MOST_SUMS} {named('sums')} and {named('moments')}."
            )
        if self.sum_ways is not None:
            if not names:
                raise ParameterError(f"{named('sum_ways')} is for {named('sums')}: name some.")
            self.sum_ways = whole(owner, "sum_ways", self.sum_ways, least=1, most=len(self.names))
        self._sum_share = Fraction(1 if names else 0)
        if names and self._beside:
            self._sum_share = SUM_SHARE
        if self.sum_share is not None:
            if not names:
                raise ParameterError(
                    f"{named('sum_share')} is for {named('sums')}: name some columns."
                )
            self._sum_share = read_share(owner, "sum_share", self.sum_share)
        share = 1 - self._sum_share if self._beside else self._counts_of(2)
        self.cell_promise = _times(self.promise, share)

    def _paid(self) -> PrivacyLoss:
        """Return the loss of all measurements together.

        The prices of residuals (`designs.residuals`) hold for a law that theirs is within a factor
        of e^τ of, τ < 2^-80 for all of them together: 2τ of ε and as much of δ are reserved for
        this.
        """
        if self._delta is None or not self._has_residuals:
            return super()._paid()
        return PrivacyLoss(rho=rho_for(self._epsilon * _KEPT, self._delta * _KEPT))

    @property
    def _has_residuals(self) -> bool:
        """Whether residuals are measured, given Gaussian noise."""
        return self.sum_ways is not None

    @property
    def _sided(self) -> bool:
        """Whether sums are measured on both sides of the amounts."""
        alone = len(self.sums) == 1 and not self.moments
        beside = self.chooses_cells or self.sum_share is not None
        return alone and (self.sum_ways is not None or not beside)

    @property
    def _beside(self) -> bool:
        """Whether counts have noise of their own beside the sums."""
        return not self._sided or self.sum_ways is not None

    def _counts_of(self, sides: int) -> Fraction:
        return share_of_counts(sides, gaussian=self.gaussian)

    def forecast_of(self, schema: Schema) -> Self:
        """Return the same counts with noise of their own, for what is expected of their errors."""
        if self._beside:
            return self
        sides = max(Amounts.of(schema, name).sides for name in self.sums)
        return self.at_cost(_times(self.promise, self._counts_of(sides)), self.unit)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        for name in self.sums:
            if schema[name].role == "identifier" or name not in schema.names:
                raise SchemaError(
                    f"'{name}' is an identifier, or is computed from a list: it has no sum."
                )
        for amounts in self._summed(schema):
            for part in self.parts(amounts):
                check_scale(part._least_noise())
                if part.name != self.name:
                    part.check(schema)

    def _read_moment(self, text: object) -> tuple[str, str]:
        """Return the columns of a product, in the order of `sums`."""
        for place, letter in enumerate(text if isinstance(text, str) else ""):
            names = {str(text)[:place].strip(), str(text)[place + 1 :].strip()}
            if letter == "*" and names <= {*self.sums}:
                found = [name for name in self.sums if name in names]
                return found[0], found[-1]
        listed = ", ".join(self.sums) or "none"
        wanted = f"products of two of its {named('sums')} ({listed}), as income*income"
        raise ParameterError.of(type(self).__name__, "moments", wanted, text)

    def _summed(self, schema: Schema) -> list[Amounts]:
        """Return what is added up: the amounts of columns, and products."""
        columns = [Amounts.of(schema, name) for name in self.sums]
        return [*columns, *(Products.of(schema, *names) for names in self._factors)]

    def _least_noise(self) -> NoiseLaw:
        """Return the noise of sums that are measured once."""
        epsilon, rho = self.cell_promise.epsilon, self.cell_promise.rho
        if not rho:
            return DiscreteLaplace(self.unit.sensitivity / epsilon)
        return DiscreteGaussian(self.unit.squared_sensitivity(nonnegative_gram=True) / (2 * rho))

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        asked = self._summed(table.schema)
        if not asked:
            return self.measure_cells(table, folder)
        shared = CountsAndSums(table._counter, asked, self._sets_of_sums())
        counted = None
        if self._beside:
            counted = self.measure_cells(_over(table, cast(CellCounter, shared)), folder)
        # The files of the counts may have the names that those of the sums have at first.
        with TemporaryDirectory(dir=folder) if counted else nullcontext(folder) as place:
            sums = [
                self._measure_sum(amounts, files, shared, table, counted, folder, Path(place))
                for amounts, files in zip(asked, self._files(asked), strict=True)
            ]
        if counted is None:
            rows = table.public_rows(self.unit)
            counted = Measurements(sums[0].total.file, self.names, Sides(), rows)
        return replace(counted, sums=tuple(sums))

    def _measure_sum(
        self,
        amounts: Amounts,
        files: Sequence[str],
        shared: CountsAndSums,
        table: PrivateTable,
        counted: Measurements | None,
        folder: Path,
        place: Path,
    ) -> MeasuredSum:
        """Measure the sums of one column, each file first in `place`."""
        counters = [
            cast(CellCounter, SumCounter(shared, amounts, side)) for side in self._kinds(amounts)
        ]
        own = (
            table.paid_together(counters)
            if self._sided
            else (_over(table, each) for each in counters)
        )
        found = []
        for part, each, file in zip(self.parts(amounts), own, files, strict=True):
            measured = part.measure_like(counted, folder, each, place)
            (place / measured.file).rename(folder / file)
            found.append(replace(measured, file=file, rows=None))
        if not self._sided:
            return MeasuredSum(amounts, *found)
        total, below, *absent = found
        return MeasuredSum(amounts, total, None, below, *absent)

    @abstractmethod
    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        """Measure the cells at the cost of `cell_promise`: counts, or sums of amounts."""

    def measure_like(
        self, counted: Measurements | None, folder: Path, table: PrivateTable, place: Path
    ) -> Measurements:
        """Measure sums in `place` after the counts, whose evidence is in `folder`. Designs that
        follow the counts take theirs.
        """
        return self.measure_cells(table, place)

    def parts(self, amounts: Amounts) -> list[SumSummary]:
        """Return what measures the sums of one column, each with its part of the promise: all sides
        alike, or the sums and the counts of the rows that they are of, unless these are the counts
        of all rows.
        """
        share = self._sum_share / (len(self.sums) + len(self.moments))
        if self._sided:
            unit = replace(self.unit, amount=amounts.reach, sided=True)
            return [self._part(share, unit)] * amounts.sides
        unit = replace(self.unit, amount=amounts.largest)
        if len(self._kinds(amounts)) == 1:
            return [self._part(share, unit)]
        present = _PRESENT[self.promise.rho > 0]
        return [self._part(share * (1 - present), unit), self._part(share * present, self.unit)]

    def _part(self, share: Fraction, unit: PrivacyUnit) -> SumSummary:
        """Return what measures sums, or counts beside them, for a share of the promise."""
        cost = _times(self.promise, share)
        return (self._by_tables if self.sum_ways else self).at_cost(cost, unit)

    def at_cost(self, cost: PrivacyLoss, unit: PrivacyUnit) -> Self:
        """Return the same measurement of cells at another cost and for another unit."""
        found = copy(self)
        found.unit, found.cell_promise = unit, cost
        return found

    @cached_property
    def _by_tables(self) -> SumSummary:
        """Measures tables of `sum_ways` attributes, with the promise of this one."""
        given: dict[str, Any] = {"epsilon": self.epsilon, "delta": self._given_delta()}
        given |= {"neighbours": self.neighbours, "contribution": self.contribution}
        given |= {"person": self.person, "ways": self.sum_ways}
        found = create("marginals", attributes=list(self.names), **given)
        return cast(SumSummary, found)

    def _sets_of_sums(self) -> list[tuple[str, ...]] | None:
        """Return the attributes of the tables of sums; None if sums have the cells of counts.
        Residuals, which have Gaussian noise, are of smaller tables as well.
        """
        if not self.sum_ways:
            return None
        sizes = range(self.sum_ways + 1) if self.gaussian else [self.sum_ways]
        return [names for size in sizes for names in combinations(self.names, size)]

    def _kinds(self, amounts: Amounts) -> tuple[Side, ...]:
        """Return what is measured of a column: all sides, or amounts and, where they may be missing
        or have cells of their own, the counts of the rows that have one. Products have those of
        their columns.
        """
        if self._sided:
            return _SIDES[: amounts.sides]
        alone = isinstance(amounts, Products) or not (amounts.missing or self.sum_ways)
        return ("middle",) if alone else ("middle", "present")

    def _files(self, asked: Sequence[Amounts]) -> list[list[str]]:
        return [
            sum_files(place, ["amounts", *self._kinds(each)[1:]])
            for place, each in enumerate(asked)
        ]

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        return self.forecast_of(schema).outlook_of_cells(schema)

    def outlook_of_cells(self, schema: Schema) -> tuple[str, ...]:
        """Return `outlook` of counts that cost `cell_promise`."""
        return ()

    def expected_error(self, schema: Schema, rows: int) -> float | None:
        return self.forecast_of(schema).error_of_cells(schema, rows)

    def error_of_cells(self, schema: Schema, rows: int) -> float | None:
        """Return `expected_error` of counts that cost `cell_promise`."""
        return None

    @abstractmethod
    def cell_layout(self, schema: Schema) -> Layout:
        """The columns of the file of the counts (see `layout`)."""

    def layout(self, schema: Schema) -> Layout:
        own = self.cell_layout(schema)
        asked = self._summed(schema)
        if not asked:
            return own
        summed = self._by_tables.cell_layout(schema) if self.sum_ways else own
        [columns] = summed.values()
        files = [name for each in self._files(asked) for name in each]
        return {**(own if self._beside else {}), **dict.fromkeys(files, columns)}

    def sum_outlook(self, schema: Schema, rows: int) -> tuple[str, ...]:
        """Return a sentence for each sum about the average of a tenth of the rows."""
        return tuple(
            f"To expect: the average '{name}' of a tenth of {rows:,} rows will be within "
            f"±{reach:,.4g} {OFTEN}."
            for name in self.sums
            if (reach := self._average_reach(Amounts.of(schema, name), schema, rows)) is not None
        )

    def _average_reach(self, amounts: Amounts, schema: Schema, rows: int) -> float | None:
        """Return the error of an average that lies a quarter of the limits from their middle."""
        error = self.error_of_average(
            amounts, lambda part: part.error_of_cells(schema, rows) if rows else None
        )
        if error is None:
            return None
        return min(_LEVEL_REACH * error * 10 / rows, float(amounts.high - amounts.low))

    def error_of_average(
        self, amounts: Amounts, error_of: Callable[[SumSummary], float | None]
    ) -> float | None:
        """Return the error of the sum of the differences from an average that lies a quarter of the
        limits from their middle, given that of each part.
        """
        parts = self.parts(amounts)
        first = error_of(parts[0])
        if self._sided:  # steps above count by 1 less the share of the limits below the average
            return None if first is None else first * hypot(3 / 4, 1 / 4) * float(amounts.step)
        count = error_of([*parts, self][1])  # all rows have an amount, or some
        if first is None or count is None:
            return None
        return hypot(first, count * amounts.size / 4) * float(amounts.step)


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _over(table: PrivateTable, counter: CellCounter) -> PrivateTable:
    return table.over(lambda _: counter)


def _times(promise: PrivacyLoss, share: Fraction) -> PrivacyLoss:
    return replace(promise, epsilon=promise.epsilon * share, rho=promise.rho * share)


def share_of_counts(sides: int, *, gaussian: bool) -> Fraction:
    """Return the share of the budget for which counts alone would be as accurate as those that the
    sides of a sum tell: each has the noise of all sides.
    """
    return Fraction(1, sides) if gaussian else Fraction(int(_SHARES / sqrt(sides)), _SHARES)
