"""SumSummary: the base class of releases that measure sums of amounts beside the counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from math import hypot
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from scumble.model.errors import ParameterError, SchemaError, named
from scumble.model.evidence.evidence import MeasuredSum, Measurements, sum_files
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import read_share
from scumble.model.schema.amounts import Amounts, Products
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout, create
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, AttributeSummary
from scumble.private.tables.counter import CellCounter, CountsAndSums, SumCounter

MOST_SUMS = 26
SUM_SHARE = Fraction(1, 2)  # of the budget, unless the owner says otherwise
_LEVEL_REACH = 1.96  # standard errors, nineteen times in twenty
# Of what a sum gets, for the counts of the rows with an amount where it may be missing: Laplace
# noise 1 / (1 + ∛4), Gaussian noise 1 / (1 + √8) or, with add or remove, 1 / 3.
_PRESENT = {False: Fraction(387, 1000), True: Fraction(261, 1000)}


@dataclass(kw_only=True, eq=False, repr=False)
class SumSummary(AttributeSummary):
    """Measures sums of amounts by the same cells as the counts, with the same design.

    A row adds its amount less the middle of the limits, in whole steps. The budget is shared: half
    of it is for the counts, the other half for all sums alike. For one sum, the least variance of
    an average that lies a quarter of the limits from their middle would take 61 % of a pure ε for
    it; the counts keep at least half, since most questions need them alone.

    With `sum_ways`, sums are measured by tables of so many attributes, as by `Marginals`, and not
    by the cells of the counts: an average of a group adds up far fewer noisy numbers. Each table
    has counts of its own, so that the noise of an average is that of two numbers for each group.

    Parameters:
        sums: columns of whole numbers or amounts, for SUM and AVG, as income.
        sum_share: of epsilon, for all sums together; by default half.
        sum_ways: attributes that sums are asked by together; by default all that are counted.
        moments: products of two of the columns in `sums`, whose sums are measured as well:
            income*income for STDDEV of income, and with age*age and income*age for CORR of both.
    """

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
        if self.sum_share is None:
            self._sum_share = SUM_SHARE if names else Fraction(0)
        elif names:
            self._sum_share = read_share(owner, "sum_share", self.sum_share)
        else:
            raise ParameterError(f"{named('sum_share')} is for {named('sums')}: name some columns.")
        if self.sum_ways is not None:
            if not names:
                raise ParameterError(f"{named('sum_ways')} is for {named('sums')}: name some.")
            self.sum_ways = whole(owner, "sum_ways", self.sum_ways, least=1, most=len(self.names))
        self.cell_promise = _times(self.promise, 1 - self._sum_share)

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
        wanted = f"products of two of its {named('sums')}, as income*income or income*age"
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
        passed = [(each, present) for each in asked for present in self._kinds(each)]
        shared = CountsAndSums(table._counter, passed, self._sets_of_sums())
        both = table.over(partial(_replaced, cast(CellCounter, shared)))
        counted = self.measure_cells(both, folder)
        sums = []
        for amounts, files in zip(asked, self._files(asked), strict=True):
            found = []
            parts = zip(self.parts(amounts), self._kinds(amounts), files, strict=True)
            for part, present, file in parts:
                counter = cast(CellCounter, SumCounter(shared, amounts, present=present))
                own = table.over(partial(_replaced, counter))
                with TemporaryDirectory(dir=folder) as place:
                    measured = part.measure_like(counted, folder, own, Path(place))
                    (Path(place) / measured.file).rename(folder / file)
                found.append(replace(measured, file=file, rows=None))
            sums.append(MeasuredSum(amounts, *found))
        return replace(counted, sums=tuple(sums))

    @abstractmethod
    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        """Measure the cells at the cost of `cell_promise`: counts, or sums of amounts."""

    def measure_like(
        self, counted: Measurements, folder: Path, table: PrivateTable, place: Path
    ) -> Measurements:
        """Measure sums in `place` after the counts, whose evidence is in `folder`. Designs that
        follow the counts take theirs.
        """
        return self.measure_cells(table, place)

    def parts(self, amounts: Amounts) -> list[SumSummary]:
        """Return what measures the sums of one column and the counts of the rows that they are of,
        unless these are the counts of all rows; each with its part of the promise.
        """
        share = self._sum_share / (len(self.sums) + len(self.moments))
        unit = replace(self.unit, amount=amounts.largest)
        if len(self._kinds(amounts)) == 1:
            return [self._part(share, unit)]
        present = _PRESENT[self.promise.rho > 0]
        return [self._part(share * (1 - present), unit), self._part(share * present, self.unit)]

    def _part(self, share: Fraction, unit: PrivacyUnit) -> SumSummary:
        """Return what measures sums, or counts beside them, for a share of the promise."""
        part = copy(self._by_tables) if self.sum_ways else copy(self)
        part.unit, part.cell_promise = unit, _times(self.promise, share)
        return part

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

    def _kinds(self, amounts: Amounts) -> tuple[bool, ...]:
        """Return what is measured of a column: amounts and, where they may be missing or have cells
        of their own, the counts of the rows that have one. Products have those of their columns.
        """
        if isinstance(amounts, Products):
            return (False,)
        return (False, True) if amounts.missing or self.sum_ways else (False,)

    def _files(self, asked: Sequence[Amounts]) -> list[tuple[str, ...]]:
        return sum_files([len(self._kinds(each)) for each in asked])

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
        return {**own, **dict.fromkeys(files, columns)}

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
        total, *present = (p.expected_error(schema, rows) for p in self.parts(amounts))
        count = present[0] if present else self.expected_error(schema, rows)
        if total is None or count is None or not rows:
            return None
        error = hypot(total, count * amounts.size / 4) * float(amounts.step)
        return min(_LEVEL_REACH * error * 10 / rows, float(amounts.high - amounts.low))


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _replaced(counter: CellCounter, _: CellCounter) -> CellCounter:
    return counter


def _times(promise: PrivacyLoss, share: Fraction) -> PrivacyLoss:
    return replace(promise, epsilon=promise.epsilon * share, rho=promise.rho * share)
