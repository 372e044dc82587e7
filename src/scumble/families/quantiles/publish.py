"""Quantiles: cuts a number near its quantiles, and counts the rows between the cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.families.boxes.design.box_tree import FILE, BoxNodes, column_names
from scumble.families.quantiles.design import QuantileBoxes
from scumble.model.designs.boxes import Boxes
from scumble.model.errors import ParameterError, SchemaError, SourceError, large
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss
from scumble.model.privacy.guarantee import read_share
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import BinnedNumber, IntegerRange
from scumble.model.schema.numbers import Number, exact
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import LINE, Claim, ComparisonPreset, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.runs import Runs
from scumble.private.summaries.base import OFTEN, ProtectedSummary

Integers = npt.NDArray[np.int64]
Rounds = tuple[tuple[int, int], ...]

MOST_STEPS = 1 << 40
MOST_GROUPS = 10_000
MOST_PROBABILITIES = 100
_FEWEST = 3  # values, which can have an edge between them
_PARTS = 1 << 8  # of a step, over which the rows of one amount are spread
_SHARES = 1 << 22  # targets are multiples of 1 / _SHARES of the rows
_MOST_ROWS = (1 << 33) - 1  # their products with both still fit 64 bits
_FOR_GROUPS = Fraction(1, 20)  # of ε, for the sizes of groups
_FOR_CUTS = Fraction(2, 5)  # of the rest
# Cuts for one quantile, as distances from it in rows. A distance of 1 is 1.5 standard errors of
# the count up to the cut, and the scale of the error with which a cut is placed.
_DISTANCES = (-9, -3, -1, 0, 1, 3, 9)


@dataclass(kw_only=True, eq=False, repr=False)
class Quantiles(ProtectedSummary):
    """Publishes quantiles of a number, such as the median income, of all rows and of groups. Use it
    for a number with far more values than a histogram can have bins.

    The number is cut near each quantile: at it, and at three distances on both sides. The noisy
    counts between the cuts tell how many rows are up to each, so that MEDIAN, QUANTILE_CONT and
    QUANTILE_DISC have intervals. `groups` are columns to group by; every combination of their
    values has cuts of its own. Other quantiles, and counts of ranges, are answered by the same
    counts, the better the nearer they are to a cut. Impossible combinations are used to check rows;
    those that compare the number are not part of the release, since its bins are new.

    Parameters:
        attribute: the number or whole number, as income.
        probabilities: which quantiles, as 0.25,0.5,0.75.
        groups: columns to group by, as sex.

    Promises: ε-DP of the whole release. Proof: 40 % of ε are for cuts, in equal parts for each
        level of a recursion. The rows of an amount are spread evenly over its step, so that a row
        has a share in each part that is cut at one time, and its shares add up to 1. A row with the
        share m moves each score of a part by at most m; the exponential mechanism of rate ε'/2Δ
        then changes by a factor of at most exp(mε'/Δ). So a level is ε'-DP. The rest is for the
        counts: the intervals are disjoint, whatever cuts were chosen. Where the size of a group is
        not public, 5 % of ε are for noisy sizes, which decide how far apart its cuts are.
    Estimate: the count up to a cut is the sum of intervals; unbiased, and of known noise, which is
        independent of the cuts. A quantile lies where this count passes its share of the rows: the
        interval has each value up to which the number of rows can be right.
    Reference: Kaplan, Schnapp, Stemmer, Differentially private approximate quantiles, ICML 2022;
        the exponential mechanism for one quantile: Smith, STOC 2011.
    Differs: the paper publishes the cuts alone, which tell of no error; here they only say where to
        count. A heap of equal amounts is spread over its step, where the paper needs amounts that
        differ. Scores are shares, with the sensitivity max(p, 1 - p) of a quantile p. Candidates
        are all steps between the limits, drawn exactly; round amounts weigh more.
    """

    name = "quantiles"
    data_dependent = True
    proof = (
        "cuts: the exponential mechanism on disjoint parts, McSherry, Talwar, FOCS 2007; "
        "noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )
    attribute: str = field(kw_only=False)
    probabilities: Sequence[float] = (0.5,)
    groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or not self.attribute:
            raise ParameterError.of("Quantiles", "attribute", "a column", self.attribute)
        groups = (self.groups,) if isinstance(self.groups, str) else tuple(self.groups)
        if len({*groups, self.attribute}) <= len(groups):
            allowed = "a list of other columns, none of them twice"
            raise ParameterError.of("Quantiles", "groups", allowed, list(groups))
        self.groups, self.names = groups, (*groups, self.attribute)
        self.probabilities = _read_probabilities(self.probabilities)
        super().__post_init__()
        for law in (self.law(sized=True), self._size_law):
            check_scale(law)

    def levels(self, cuts: int) -> int:
        """Return the depth of the recursion for so many cuts: each level halves their list."""
        return cuts.bit_length()

    @property
    def _size_law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.unit.sensitivity / (self.promise.epsilon * _FOR_GROUPS))

    def _left(self, sized: bool) -> Fraction:
        """Return ε without what the sizes of groups cost, if they are measured."""
        return self.promise.epsilon * (1 - _FOR_GROUPS if sized else 1)

    def law(self, *, sized: bool) -> DiscreteLaplace:
        """Return the noise of the counts; `sized` tells that sizes of groups are measured."""
        spent = self._left(sized) * (1 - _FOR_CUTS)
        return DiscreteLaplace(self.unit.sensitivity / spent)

    def _distance(self, sized: bool) -> float:
        """Return the rows between a quantile and the cuts at distance 1."""
        cuts = len(self.probabilities) * len(_DISTANCES)
        noise = sqrt(float(self.law(sized=sized).variance) * (cuts + 1)) / 2
        epsilon = float(self._left(sized) * _FOR_CUTS) / self.levels(cuts)
        return 1.5 * noise + 1.2 * self.unit.sensitivity / epsilon

    def measures_sizes(self, schema: Schema, *, public: bool) -> bool:
        """Return whether the numbers of rows with an amount are measured, as the number of all rows
        is not `public` or does not tell them.
        """
        return schema[self.attribute].missing or bool(self.groups) or not public

    def read_schema(self, schema: Schema) -> Schema:
        schema = super().read_schema(schema)
        return schema.replace(schema[self.attribute].without_bins())

    def check(self, schema: Schema) -> None:
        super().check(schema)
        number, _ = _steps(schema[self.attribute])
        if number.size > MOST_STEPS:
            raise ParameterError(
                f"'{self.attribute}' has {large(number.size)} steps; Quantiles takes at most 2^40. "
                "Choose a larger step."
            )
        if (groups := schema.size(self.groups)) > MOST_GROUPS:
            raise ParameterError(
                f"The groups {', '.join(self.groups)} have {large(groups)} combinations; Quantiles "
                f"takes at most {large(MOST_GROUPS)}. Choose fewer columns, or coarser bins."
            )

    def layout(self, schema: Schema) -> Layout:
        return {FILE: column_names(self.names)}

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        sized = bool(self.groups) or self.unit.neighbours == "add_remove"
        rows = 2 * self._distance(sized)
        what = "a quantile of a group" if self.groups else "a quantile"
        return (f"To expect: {what} will be known within about ±{rows:,.0f} rows {OFTEN}.",)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return the number of intervals."""
        design = cast(QuantileBoxes, cast(Measurements, evidence).design)
        return {"intervals": cast(BinnedNumber, design.column.domain).size}

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        counted = GroupedAmounts.of(table, self)
        attribute = table.schema[self.attribute]
        sized = self.measures_sizes(table.schema, public=table.keeps_rows(self.unit))
        sizes: npt.NDArray[Any] = counted.sizes()
        if sized:
            table._account.charge("sizes of groups", PrivacyLoss(self._left(False) * _FOR_GROUPS))
            table._noise.add(sizes, self._size_law)
        left = self._left(sized)
        table._account.charge("cuts", PrivacyLoss(left * _FOR_CUTS))
        rate = left * _FOR_CUTS / (2 * self.unit.sensitivity)
        distance = self._distance(sized)
        edges = []
        for group, size in enumerate(sizes.tolist()):
            targets = self._targets(size, distance)
            level = rate / max(self.levels(len(targets)), 1)
            edges.append(counted.cut(group, targets, table, level))
        column, boxes = _boxes(attribute, [table.schema[name].size for name in self.groups], edges)
        law = self.law(sized=sized)
        table._account.charge("counts between cuts", PrivacyLoss(self.unit.sensitivity / law.scale))
        noisy = counted.between(edges)
        table._noise.add(noisy, law)
        BoxNodes.of_leaves(boxes, noisy).write(folder, self.names)
        design = QuantileBoxes((law,), column=column)
        return Measurements(FILE, self.names, design, table.public_rows(self.unit))

    def _targets(self, size: int, distance: float) -> list[int]:
        """Return the shares of the rows of a group at which it is cut, in 1 / _SHARES."""
        if size < 1:
            return []
        distance = max(distance, 4 * size / _SHARES)
        shares = {
            round((p + far * distance / size) * _SHARES)
            for p, far in product(self.probabilities, _DISTANCES)
        }
        return sorted(share for share in shares if 0 < share < _SHARES)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        numbers = [n for n in study.attributes if _number_of(study.schema[n]) is not None]
        if not numbers:
            raise SchemaError("Quantiles needs an attribute of the type number or integer.")
        return {"attribute": numbers[0], "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = {"probabilities": (0.25, 0.5, 0.75), **protection(neighbours)}
        yield Claim(cls("a", **given), 1, schema=LINE)
        yield Claim(cls("a", groups=["b"], **protection(neighbours)), 1)


def _read_probabilities(given: Any) -> tuple[float, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = (given,)
    listed = [float(read_share("Quantiles", "probabilities", each)) for each in given]
    if not 1 <= len(set(listed)) == len(listed) <= MOST_PROBABILITIES:
        allowed = f"a list of one to {MOST_PROBABILITIES} different numbers"
        raise ParameterError.of("Quantiles", "probabilities", allowed, listed)
    return tuple(listed)


def _number_of(attribute: Attribute) -> Number | None:
    """Return the amounts of a column; None if it has none, or too few to cut."""
    number = attribute.number
    if isinstance(attribute.domain, IntegerRange) and attribute.domain.size > 1:
        number = Number(attribute.domain.low, attribute.domain.high)
    return number if number is not None and number.size >= _FEWEST else None


def _steps(attribute: Attribute) -> tuple[Number, Integers | None]:
    """Return the amounts of a column, and the step at which each of its codes begins; None where
    every code is a step.
    """
    number = _number_of(attribute)
    if number is None:
        raise SchemaError(
            f"{attribute} must be of the type number or integer, with at least three values. It is "
            f"{attribute.describe()}."
        )
    domain = attribute.domain
    return number, domain.first_steps if isinstance(domain, BinnedNumber) else None


def find_rounds(number: Number) -> Rounds:
    """Return, for the multiples of 10, 100, ... times the least power of ten that is at least a
    step, the steps from one to the next and the first one. Many people have such amounts. In a cut
    all of them together weigh as much as all steps, so that a round amount with many rows is chosen
    and not one of thousands beside it that nobody has.
    """
    low, step, found = exact(number.low), exact(number.step), []
    power = Fraction(1, 10**6)
    while power < step:
        power *= 10
    while (power := 10 * power) <= step * number.size:
        spacing, first = power / step, -low / step
        if spacing.denominator == first.denominator == 1:
            found.append((spacing.numerator, first.numerator % spacing.numerator))
    return tuple(found)


def _boxes(
    attribute: Attribute, shape: Sequence[int], edges: Sequence[Integers]
) -> tuple[Attribute, Boxes]:
    """Return the column with the edges of all groups, and the box of every interval: of each group,
    those between its own edges, in order, and that of missing values.
    """
    number, _ = _steps(attribute)
    inner = np.unique(np.concatenate(edges))
    if not len(inner):
        inner = np.array([number.size // 2])
    domain = BinnedNumber.of(number, map(number.value, inner.tolist()))
    column = replace(attribute, domain=domain, hierarchy=None)
    low: list[int] = []
    high: list[int] = []
    group: list[int] = []
    for place, own in enumerate(edges):
        starts = (np.searchsorted(inner, own) + 1).tolist()
        absent = [domain.size] if attribute.missing else []
        low += [0, *starts, *absent]
        high += [*(start - 1 for start in starts), domain.size - 1, *absent]
        group += [place] * (len(low) - len(group))
    codes = [np.array(each) for each in np.unravel_index(group, shape)] if shape else []
    ends = [np.array([*codes, np.array(own)], np.int64) for own in (low, high)]
    return column, Boxes(*ends)


@dataclass(frozen=True, eq=False)
class GroupedAmounts:
    """The rows of each group by amount: `steps` and `counts` of those that occur, and the number of
    rows without an amount. Only charged measurements of it are returned.
    """

    size: int
    groups: tuple[tuple[Integers, Integers], ...]
    absent: Integers | None = None
    rounds: Rounds = ()

    @classmethod
    def of(cls, table: PrivateTable, mechanism: Quantiles) -> GroupedAmounts:
        schema, names = table.schema, mechanism.names
        attribute = schema[mechanism.attribute]
        number, starts = _steps(attribute)
        cells = table._counter.occupied(names, mechanism.unit)
        if cells.counts.sum() > _MOST_ROWS:
            raise SourceError("Quantiles takes fewer than 2^33 rows; publish a part of the table.")
        *others, codes = (
            each.astype(np.int64) for each in schema.cell_keys(names).unpack(cells.keys)
        )
        groups = schema.size(mechanism.groups)
        shape = [schema[name].size for name in mechanism.groups]
        of = (
            np.ravel_multi_index(tuple(others), shape) if others else np.zeros(len(codes), np.int64)
        )
        counts = cells.counts
        absent = None
        if attribute.missing:
            gone = codes == attribute.size - 1
            absent = np.bincount(of[gone], counts[gone], groups).astype(np.int64)
            of, codes, counts = of[~gone], codes[~gone], counts[~gone]
        steps = codes if starts is None else starts[codes]
        ends = np.searchsorted(of, np.arange(1, groups))  # cells are in the order of their keys
        split = zip(np.split(steps, ends), np.split(counts, ends), strict=True)
        return cls(number.size, tuple(split), absent, find_rounds(number))

    def sizes(self) -> Integers:
        """Return the number of rows of each group that have an amount."""
        return np.array([counts.sum() for _, counts in self.groups], np.int64)

    def between(self, edges: Sequence[Integers]) -> Integers:
        """Return the rows of every interval, in the order of `_boxes`."""
        found: list[Any] = []
        for place, ((steps, counts), own) in enumerate(zip(self.groups, edges, strict=True)):
            ends = np.concatenate([[0], np.searchsorted(steps, own), [len(steps)]])
            found += np.diff(np.concatenate([[0], np.cumsum(counts)])[ends]).tolist()
            found += [] if self.absent is None else [self.absent[place]]
        return np.array(found, np.int64)

    def cut(
        self, group: int, targets: Sequence[int], table: PrivateTable, rate: Fraction
    ) -> Integers:
        """Return the steps at which the intervals of a group begin, but for the first.

        Cuts lie between parts of steps. An amount that was cut once has an edge at its nearer end;
        one that was cut more often has many rows, and an edge at both.
        """
        spread = SpreadRows(*self.groups[group], self.rounds)
        cuts = list(self._cuts(spread, (0, self.size * _PARTS), (0, _SHARES), targets, table, rate))
        steps = Counter(cut // _PARTS for cut in cuts)
        nearer = {(cut + _PARTS // 2) // _PARTS for cut in cuts}
        both = {end for step, times in steps.items() if times > 1 for end in (step, step + 1)}
        # The upper limit has no bin of its own.
        return np.array(sorted(e for e in nearer | both if 0 < e < self.size - 1), np.int64)

    def _cuts(
        self,
        spread: SpreadRows,
        part: tuple[int, int],
        shares: tuple[int, int],
        targets: Sequence[int],
        table: PrivateTable,
        rate: Fraction,
    ) -> Iterator[int]:
        """Yield a cut of a part for each target: first for that in the middle, then for those
        before and after it in what lies below and above. The part should hold the rows between two
        `shares` of the group.
        """
        if not targets:
            return
        (low, high), (before, after) = part, shares
        place = len(targets) // 2
        share = round(_SHARES * Fraction(targets[place] - before, after - before))
        share = min(max(share, 1), _SHARES - 1)
        cut = low
        if high > low:
            most = max(share, _SHARES - share) * _PARTS
            cut = table._noise.number(spread.runs(low, high, share), rate / most)
        yield from self._cuts(
            spread, (low, cut), (before, targets[place]), targets[:place], table, rate
        )
        yield cut
        yield from self._cuts(
            spread, (cut, high), (targets[place], after), targets[place + 1 :], table, rate
        )


class SpreadRows:
    """Rows by amount, those of one amount spread evenly over the parts of its step. `rounds` are
    those of `find_rounds`.
    """

    def __init__(self, steps: Integers, counts: Integers, rounds: Rounds) -> None:
        self._starts, self._counts, self._rounds = steps * _PARTS, counts, rounds
        self._sums = np.concatenate([[0], np.cumsum(counts)])

    def below(self, parts: Integers) -> Integers:
        """Return the rows below parts of steps, in 1 / _PARTS."""
        if not len(self._starts):
            return np.zeros(len(parts), np.int64)
        place = np.searchsorted(self._starts, parts, side="right") - 1
        inside = np.minimum(parts - self._starts[place], _PARTS) * self._counts[place]
        found: Integers = np.where(place < 0, 0, self._sums[place] * _PARTS + inside)
        return found

    def runs(self, low: int, high: int, share: int) -> Runs:
        """Return the candidates for a cut of the part from `low` to before `high`, with the
        distance of the rows below each from a share of all in it, in 1 / (_SHARES · _PARTS). Round
        amounts have more weight, whatever the rows are.
        """
        first, last = self.below(np.array([low, high]))
        wanted = share * int(last - first)
        inside = slice(*np.searchsorted(self._starts, [low - _PARTS, high]))
        starts = self._starts[inside]
        whole = -(-low // _PARTS) * _PARTS, high // _PARTS * _PARTS  # from where on steps are whole
        ends = np.concatenate([[low, *whole, high], starts, starts + _PARTS])
        ends = np.unique(ends[(low <= ends) & (ends <= high)])
        passed = _SHARES * (self.below(ends) - first) >= wanted
        place = int(np.argmax(passed))  # the first end up to which there are enough rows
        if place:
            passing = self._passing(ends[place - 1], ends[place], first, wanted)
            ends = np.unique(np.append(ends, passing))
        begins, ends = ends[:-1], ends[1:]
        length = ends - begins
        of_first, of_last = (
            _SHARES * (self.below(each) - first) - wanted for each in (begins, ends - 1)
        )
        slope = np.where(length > 1, np.abs(of_last - of_first) // np.maximum(length - 1, 1), 0)
        above = of_first >= 0
        score, ones = np.where(above, of_first, -of_last), np.ones_like(begins)
        weight, first_step, last_step = ones.copy(), begins // _PARTS, (ends - 1) // _PARTS
        columns = [np.where(above, begins, ends - 1), np.where(above, 1, -1), length, score, slope]
        lines = [[*columns, ones, weight]]
        for spacing, offset in self._rounds:
            found = first_step + (offset - first_step) % spacing
            times = np.maximum((last_step - found) // spacing + 1, 0)
            single = first_step == last_step
            weight += spacing * (single & (times > 0))
            some = np.flatnonzero(~single & (times > 0))  # whole steps without rows
            lines.append(
                [
                    found[some] * _PARTS,
                    spacing * _PARTS * ones[some],
                    times[some],
                    score[some],
                    0 * ones[some],
                    _PARTS * ones[some],
                    spacing * ones[some],
                ]
            )
        return Runs(*(np.concatenate(column) for column in zip(*lines, strict=True)))

    def _passing(self, low: int, high: int, first: int, wanted: int) -> int:
        """Return the first part above `low`, up to `high`, below which there are enough rows."""
        while high - low > 1:
            middle = (low + high) // 2
            enough = _SHARES * int(self.below(np.array([middle]))[0] - first) >= wanted
            low, high = (low, middle) if enough else (middle, high)
        return int(high)
