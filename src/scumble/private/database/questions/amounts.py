"""Amounts: what one row adds to a sum, by its codes; and the normal form of a sum.

Two texts that ask for the same sum have the same normal form, and so the same number:
`SUM(2 * age)` is twice `SUM(age)`, `SUM(1)` is a count, and `SUM(CASE WHEN sex = 'f' THEN age ELSE
0 END)` is the sum of ages where sex is 'f'. A sum of squares or products of columns is made of
those about the middles of their domains, of sums of the columns, and a count, as variances and
covariances are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.numbers import Number, exact
from scumble.private.database.questions.decomposition import Truth
from scumble.private.database.space import Box, Space
from scumble.private.database.state import COUNT

if TYPE_CHECKING:
    from scumble.public.sandbox import Sandbox

Integers = npt.NDArray[np.int64]

MOST_CELLS = 10**7  # combinations of values over which amounts are evaluated
_LISTED = 64  # amounts that are written into the name of a sum
_MOST_SCALE = 1000  # by which fractional amounts are multiplied to become whole numbers
_FEW = 10_000  # different amounts for which all scales are tried
_ROUND_SCALES = (1, 2, 4, 5, 10, 20, 50, 100, 1000)
_ROUNDING = 1e-11  # relative error of an amount in floating point
_LARGE = 1 << 30


@dataclass(frozen=True)
class Amounts:
    """What one row adds to a number of a database, by its codes of the attributes `axes`.

    `values` are whole numbers over the product of these attributes, in row-major order.

    The noise of every sum has λ times the largest value anywhere, whatever the box. A row at a
    point that the box covers can change the sum by that much, any other row not at all. So a sum
    costs each of its points as much as a count, and sums over several boxes have noise of one
    scale.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: Integers

    @property
    def largest(self) -> int:
        """The largest change of the sum by one row."""
        return int(np.abs(self.values).max(initial=0))

    @cached_property
    def codes(self) -> Mapping[int, Integers]:
        """The codes of an axis for which some row adds something, of axes with other codes too.

        Whether a box has the others does not change its sum.
        """
        found = {}
        some = self.values.reshape(self.sizes) != 0
        for place, axis in enumerate(self.axes):
            known = some.any(axis=tuple(i for i in range(some.ndim) if i != place))
            if not known.all():
                found[axis] = np.flatnonzero(known)
        return found

    def equal_boxes(self, box: Box) -> Iterator[Box]:
        """Yield a box whose ends are among `codes`, and wider ones that have the same sum.

        Journals have these from before sums had one box.
        """
        ends = []
        for axis, known in self.codes.items():
            low, high = np.searchsorted(known, box[axis]).tolist()
            first = int(known[low - 1]) + 1 if low else 0
            after = int(known[high + 1]) if high + 1 < len(known) else self._size(axis)
            lows, highs = dict.fromkeys((box[axis, 0], first)), (box[axis, 1], after - 1)
            ends.append([*product(lows, dict.fromkeys(highs))])
        for chosen in product(*ends):
            found = box.copy()
            for axis, pair in zip(self.codes, chosen, strict=True):
                found[axis] = pair
            yield found

    def _size(self, axis: int) -> int:
        return self.sizes[self.axes.index(axis)]

    def mean(self, box: Box) -> float:
        """Return the mean of the values over the points of a box."""
        inside = tuple(slice(int(box[axis, 0]), int(box[axis, 1]) + 1) for axis in self.axes)
        return float(self.values.reshape(self.sizes)[inside].mean())

    def name(self, space: Space) -> str:
        """Return a name that sums of the same amounts have, and no others.

        It is made of the amounts and not of SQL, whose meaning depends on side tables.
        """
        names = ", ".join(_plain_or_quoted(space.names[axis]) for axis in self.axes)
        if len(self.values) <= _LISTED:
            return f"sum by {names}: {' '.join(map(str, self.values.tolist()))}"
        digest = hashlib.blake2b(np.ascontiguousarray(self.values).tobytes(), digest_size=16)
        return f"sum by {names}: digest {digest.hexdigest()}"


def _plain_or_quoted(name: str) -> str:
    """Return a name that can be told from others in a list, in quotes where it needs them."""
    return quoted(name) if set(name) & set(',:"') else name


@dataclass(frozen=True)
class Summand:
    """A sum in normal form: `factor` times a number of the database, for the rows `within`.

    `kind` is the name of the number, a count or the sum of `amounts`. `within` has the codes of
    some axes outside of which a row adds nothing. `limits` are the least and largest amount of a
    row. An average of the sum has `offset` added to it. `columns` are numbers with weights that add
    up to the number, where it is a polynomial of columns of degree 2 at most; with `squares` the
    degree is 2, and only these numbers are bought.
    """

    kind: str = COUNT
    amounts: Amounts | None = None
    factor: Fraction = Fraction(1)
    within: Mapping[int, Truth] = field(default_factory=dict)
    limits: tuple[float, float] = (1.0, 1.0)
    offset: Fraction = Fraction(0)
    columns: tuple[ColumnSum, ...] = ()
    squares: bool = False


@dataclass(frozen=True)
class ColumnSum:
    """The sum of a column, or of a square or product, with its weight in another sum.

    Without amounts it is a count.
    """

    kind: str
    weight: Fraction
    amounts: Amounts | None = None


@dataclass(frozen=True)
class Evaluated:
    """The amounts of an expression over the product of some axes: `values / scale`."""

    axes: tuple[int, ...]
    values: Integers  # one axis for each of `axes`
    scale: int

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.values.min()) / self.scale, float(self.values.max()) / self.scale

    def summand(self, space: Space, *, restrict: bool = True) -> Summand:
        """Return the normal form; some value is not 0. Without `restrict` it has no `within`."""
        axes, values, within = list(self.axes), self.values, dict[int, Truth]()
        for axis in self.axes:
            place = axes.index(axis)
            some = (values != 0).any(axis=tuple(i for i in range(values.ndim) if i != place))
            if not some.all() and not restrict:
                continue
            inside = np.compress(some, values, axis=place)
            first = inside.take([0], axis=place)
            if (inside == first).all():
                if not some.all():
                    within[axis] = some
                values = first.squeeze(place)
                del axes[place]
        if not axes:
            only = Fraction(int(values), self.scale)
            return Summand(COUNT, None, only, within, self.limits)
        factor = _common(values)
        values = values // factor
        if len(axes) == 1 and (own := column(space, axes[0])) is not None:
            found = _multiple(values, own, restrict=restrict)
            if found is not None:
                times, codes = found
                if not codes.all():
                    within[axes[0]] = codes
                return Summand(
                    column_kind(space, axes[0]),
                    Amounts((axes[0],), values.shape, own),
                    times * Fraction(factor, self.scale),
                    within,
                    self.limits,
                )
        amounts = Amounts(tuple(axes), values.shape, np.ascontiguousarray(values).reshape(-1))
        kind, (columns, squares) = amounts.name(space), _columns(space, axes, values)
        if [each.kind for each in columns] == [kind]:  # a square or product itself
            columns, squares = (), False
        scaled = Fraction(factor, self.scale)
        return Summand(kind, amounts, scaled, within, self.limits, columns=columns, squares=squares)

    def centred(
        self, space: Space, axis: int, counted: Truth
    ) -> tuple[Evaluated, Fraction, Fraction] | None:
        """Return amounts, a factor and an offset of which an average is made.

        The average of a·x + b, where x is the column of an axis, is a times that of x, plus b.
        `counted` are the cells in which a row counts. None if this is no average of a·x + b.
        """
        own = column(space, axis)
        if own is None or not _small(own, self.values):
            return None
        shape = [len(own) if each == axis else 1 for each in self.axes]
        x = np.broadcast_to(own.reshape(shape), self.values.shape)
        xs, values = x[counted], self.values[counted]
        if not len(xs) or (xs == xs[0]).all():
            return None
        other = int(np.argmax(xs != xs[0]))
        run, rise = int(xs[other] - xs[0]), int(values[other] - values[0])
        if not rise or ((values - values[0]) * run != (xs - xs[0]) * rise).any():
            return None
        slope = Fraction(rise, run)
        shift = int(values[0]) - slope * int(xs[0])
        return Evaluated(self.axes, x * counted, 1), slope / self.scale, shift / self.scale


def column(space: Space, axis: int) -> Integers | None:
    """Return the values of a column of whole numbers, or of amounts in steps, by code; 0 for a
    missing one.
    """
    attribute = space.attributes[axis]
    domain = attribute.domain
    if not isinstance(domain, IntegerRange | Number) or attribute.size > MOST_CELLS:
        return None
    first = Fraction(domain.low)
    if isinstance(domain, Number):
        first = exact(domain.low) / exact(domain.step)
    if first.denominator > 1:  # 0.5, 1.5, ...: whole steps apart, but no whole steps
        return None
    values = np.arange(attribute.size, dtype=np.int64) + first.numerator
    if attribute.missing:
        values[-1] = 0
    return values if values.any() else None


def column_kind(space: Space, axis: int) -> str:
    """Return the name of the sum of a column."""
    return f"sum {quoted(space.names[axis])}"


def _small(*arrays: Integers) -> bool:
    """Whether products of the numbers of two arrays fit into 64 bits."""
    return all(int(np.abs(each).max(initial=0)) < _LARGE for each in arrays)


def _common(values: Integers) -> int:
    """Return the greatest common divisor, with the sign of the first value that is not 0."""
    flat = values.reshape(-1)
    sign = 1 if flat[np.argmax(flat != 0)] > 0 else -1
    return sign * int(np.gcd.reduce(flat))


def _multiple(values: Integers, own: Integers, *, restrict: bool) -> tuple[Fraction, Truth] | None:
    """Return a factor and the codes where `values` are that factor times `own`, else 0.

    None if there is no such factor.
    """
    first = int(np.argmax(values != 0))
    if not own[first] or not _small(values, own):
        return None
    top, bottom = int(values[first]), int(own[first])
    same = values * bottom == own * top
    if not restrict and not same.all():
        return None
    if (values[~same] != 0).any():
        return None
    return Fraction(top, bottom), same


def _columns(
    space: Space, axes: Sequence[int], values: Integers
) -> tuple[tuple[ColumnSum, ...], bool]:
    """Return the numbers that make up a sum, with their weights, and whether some are of degree 2.

    There are none unless the sum is a polynomial of columns of degree 2 at most, for rows without
    missing values, and others add nothing to it. With u the code of a column and h half its
    largest, the polynomial is found by differences at the codes 0, and written in u - h, squares
    and products of these, and the column itself.
    """
    own = [column(space, axis) for axis in axes]
    known = values[tuple(slice(space.sizes[i] - space.attributes[i].missing) for i in axes)]
    if any(each is None for each in own) or np.count_nonzero(known) < np.count_nonzero(values):
        return (), False
    if _degree_above_two(known):
        return (), False
    halves = [Fraction(size - 1, 2) for size in known.shape]
    constant, slopes, found = _slope(known, []), [Fraction(0)] * len(axes), list[ColumnSum]()
    for one, half in enumerate(halves):
        first, second = _slope(known, [one]), _slope(known, [one, one])
        # u = (u - h) + h, and u (u - 1) / 2 = (u - h)² / 2 + (h - 1/2) (u - h) + h (h - 1) / 2
        slopes[one] += first + second * (half - Fraction(1, 2))
        constant += first * half + second * half * (half - 1) / 2
        if second:
            found.append(_centred_product(space, [axes[one]] * 2, second / 2))
        for other in range(one + 1, len(axes)):
            if mixed := _slope(known, [one, other]):
                slopes[one] += mixed * halves[other]
                slopes[other] += mixed * half
                constant += mixed * half * halves[other]
                found.append(_centred_product(space, [axes[one], axes[other]], mixed))
    squares = bool(found)
    for axis, slope, half, x in zip(axes, slopes, halves, own, strict=True):
        assert x is not None  # noqa: S101  (looked at above)
        if slope:
            found.append(ColumnSum(column_kind(space, axis), slope, Amounts((axis,), x.shape, x)))
            constant -= slope * (int(x[0]) + half)
    return (*found, *([ColumnSum(COUNT, constant)] if constant else [])), squares


def _degree_above_two(values: Integers) -> bool:
    """Whether some third difference of a table of values is not 0."""
    triples = combinations_with_replacement(range(values.ndim), 3)
    return any(_differences(values, axes).any() for axes in triples)


def _slope(values: Integers, axes: Sequence[int]) -> Fraction:
    """Return the difference along some axes at the first values; 0 if there are too few."""
    corner = values[tuple(slice(axes.count(axis) + 1) for axis in range(values.ndim))]
    found = _differences(corner, axes)
    return Fraction(int(found.reshape(-1)[0])) if found.size else Fraction(0)


def _differences(values: Integers, axes: Sequence[int]) -> Integers:
    for axis in axes:
        values = np.diff(values, axis=axis)
    return values


def _centred_product(space: Space, axes: Sequence[int], weight: Fraction) -> ColumnSum:
    """Return the sum of the product of two columns, each less the middle of its domain.

    The columns may be the same. `weight` is that of the product; the number may be a multiple.
    """
    distinct = tuple(dict.fromkeys(axes))
    sizes = tuple(space.sizes[axis] for axis in distinct)
    values = np.ones(sizes, np.int64)
    for axis in axes:
        known = space.sizes[axis] - space.attributes[axis].missing
        codes = np.arange(space.sizes[axis], dtype=np.int64)
        twice = np.where(codes < known, 2 * codes - (known - 1), 0)
        values *= twice.reshape([-1 if each == axis else 1 for each in distinct])
    common = _common(values)
    amounts = Amounts(distinct, sizes, (values // common).reshape(-1))
    return ColumnSum(amounts.name(space), weight * common / 4, amounts)


def evaluate(
    argument: Expression | None, conditions: Sequence[Expression], space: Space, engine: Sandbox
) -> Evaluated:
    """Return what a row adds: the argument (None: 1) where all conditions hold, else 0."""
    parts = [*conditions, *([] if argument is None else [argument])]
    named = {name for part in parts for name in part.attributes}
    axes = tuple(axis for axis, name in enumerate(space.names) if name in named)
    sizes = tuple(space.sizes[axis] for axis in axes)
    if (cells := prod(sizes)) > MOST_CELLS:
        raise QueryError(
            f"{parts[-1].sql} would have to be evaluated for {cells} combinations of values; at "
            f"most {MOST_CELLS} are possible. Ask about fewer columns, or coarser ones."
        )
    found = engine.evaluate(parts, [space.names[axis] for axis in axes])
    holds = np.logical_and.reduce([np.ones(cells, bool), *found[: len(conditions)]])
    numbers = holds * (1.0 if argument is None else np.asarray(found[-1], np.float64))
    values, scale = _whole(numbers, argument)
    return Evaluated(axes, values.reshape(sizes), scale)


def _whole(numbers: npt.NDArray[Any], argument: Expression | None) -> tuple[Integers, int]:
    """Return numbers times the least scale that makes all of them whole, and this scale."""
    some = np.unique(numbers)
    scales: Sequence[int] = _ROUND_SCALES
    if len(some) <= _FEW:
        scales = range(1, _MOST_SCALE + 1)
    for scale in scales if np.isfinite(some).all() else ():
        times = some * scale
        near = np.abs(times - np.rint(times)) <= _ROUNDING * np.maximum(np.abs(times), 1)
        if (np.abs(times) < 2**52).all() and near.all():
            return np.rint(numbers * scale).astype(np.int64), scale
    sql = "1" if argument is None else argument.sql
    raise QueryError(
        f"{sql} is not a whole number for every value, nor is it one after multiplication by a "
        f"number up to {_MOST_SCALE}. Write CAST(ROUND(...) AS INTEGER), in units small enough."
    )
