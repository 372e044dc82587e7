"""The types of public domain: Category, IntegerRange, Bins, Boolean, Dates, and two of amounts.

`Number` (see `numbers`) has a code for each step between its limits, `BinnedNumber` for each bin.

A domain is a finite, ordered, public list of labels. It converts values to codes 0 to size - 1 and
back. Missing values are handled by `Attribute`, which adds one more code for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SchemaError
from scumble.model.schema import arrow_values
from scumble.model.schema.cell_keys import smallest_unsigned
from scumble.model.schema.numbers import Number, exact, plain_number

Coded = tuple[np.ndarray, np.ndarray]  # codes, and a mask of the values outside the domain

_INTEGER_LOW, _INTEGER_HIGH = -(2**63), 2**63 - 1
_TABLE_LIMIT = 1 << 20
_UNITS = {"day": "D", "month": "M", "year": "Y"}


@dataclass(frozen=True)
class Category:
    """A list of values, all text or all integers.

    With `other`, one of the texts, every value that is not listed is read as that one.
    """

    values: tuple[str, ...] | tuple[int, ...]
    ordered: bool = False
    other: str | None = None
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(_bare, self.values)))
        _check_values(self.values)
        if self.other is not None and self.other not in self.values:
            raise SchemaError(f"'other' must be one of the values. Got {self.other!r} instead.")

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.values)

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.string() if isinstance(self.values[0], str) else pa.int64()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return f"category of {self.size} {'value' if self.size == 1 else 'values'}"

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return pa.array(self.values, self.arrow_type)

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those outside the domain."""
        if self.arrow_type == pa.int64():
            return self._encode_integers(values)
        codes, outside = self._encode_texts(values)
        if self.other is not None and outside.any():
            filled = pc.is_valid(values).to_numpy(zero_copy_only=False)
            codes = put(codes, outside & filled, self.values.index(self.other))
            outside = outside & ~filled
        return codes, outside

    def _encode_texts(self, values: pa.Array) -> Coded:
        text, _ = arrow_values.texts(values)
        labels = pc.cast(self.labels(), text.type)
        places = pc.index_in(text, labels)
        if places.null_count:  # an exact match first, then one without white space
            places = pc.coalesce(places, pc.index_in(pc.utf8_trim_whitespace(text), labels))
        return _codes_of_places(places, self.size)

    def _encode_integers(self, values: pa.Array) -> Coded:
        numbers, unread = arrow_values.integers(values)
        low, high = min(self.values), max(self.values)
        span = int(high) - int(low) + 1
        if span > _TABLE_LIMIT:
            fits = pa.array(np.where(_outside(numbers, _INTEGER_LOW, _INTEGER_HIGH), 0, numbers))
            codes, outside = _codes_of_places(
                pc.index_in(pc.cast(fits, pa.int64()), self.labels()), self.size
            )
            outside |= _outside(numbers, _INTEGER_LOW, _INTEGER_HIGH)
        else:
            places, outside = _subtract(numbers, int(low), int(high))
            table = np.full(span, self.size, smallest_unsigned(self.size + 1))
            table[np.array(self.values, np.int64) - np.int64(low)] = np.arange(self.size)
            codes = lookup(table, places)
            outside |= codes == self.size
        return codes, outside if unread is None else outside | unread

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        width = np.dtype(f"i{smallest_unsigned(2 * self.size).itemsize}")  # signed, as in pandas
        places = pa.array(codes.astype(width, copy=False), mask=nulls)
        if self.arrow_type == pa.int64():
            return pc.take(self.labels(), places)
        return pa.DictionaryArray.from_arrays(places, self.labels(), ordered=self.ordered)


@dataclass(frozen=True)
class IntegerRange:
    """All integers from `low` to `high`, both included."""

    low: int
    high: int
    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            bound = _bare(getattr(self, end))
            object.__setattr__(self, end, bound)
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise SchemaError(f"The range must be two whole numbers. Got {bound!r} instead.")
            if not _INTEGER_LOW <= bound <= _INTEGER_HIGH:
                raise SchemaError("The range must lie within 64-bit integers.")
        if self.low > self.high:
            raise SchemaError(
                f"The range must start at its lower end. Got {self.low} to {self.high}."
            )

    @property
    def values(self) -> range:
        """The integers in rising order."""
        return range(self.low, self.high + 1)

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.high - self.low + 1

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.int64()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return f"integer {self.low} to {self.high}"

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return pa.array(np.arange(self.low, self.high + 1, dtype=np.int64))

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those outside the domain."""
        numbers, unread = arrow_values.integers(values)
        codes, outside = _subtract(numbers, self.low, self.high)
        return codes, outside if unread is None else outside | unread

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        numbers = codes.astype(np.uint64) + np.uint64(self.low % 2**64)
        return pa.array(numbers.view(np.int64), mask=nulls)


@dataclass(frozen=True)
class Bins:
    """Numbers in bins [e0, e1), [e1, e2), ..., the last one closed.

    A value is published as the middle of its bin.
    """

    edges: tuple[float, ...]
    kind: ClassVar[str] = "binned"

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(map(_bare, self.edges)))
        for edge in self.edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not isfinite(edge):
                raise SchemaError(f"Edges must be numbers. Got {edge!r} instead.")
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if len(self.edges) < 2:
            raise SchemaError(f"Bins need at least two edges. Got {len(self.edges)} instead.")
        for left, right in zip(self.edges, self.edges[1:], strict=False):
            if left >= right:
                raise SchemaError(f"Edges must increase. Got {left:g} before {right:g}.")

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.edges) - 1

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.float64()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return f"number from {self.edges[0]:g} to {self.edges[-1]:g} in {self.size} bins"

    def middles(self) -> np.ndarray:
        """Return the middle of every bin."""
        edges = np.array(self.edges)
        return edges[:-1] / 2 + edges[1:] / 2  # halved first: the sum might overflow

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return pa.array(self.middles())

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest number of every bin."""
        edges = np.array(self.edges)
        last = np.nextafter(edges[1:], -np.inf)
        last[-1] = edges[-1]
        return edges[:-1], last

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those outside the domain."""
        numbers, unread = arrow_values.numbers(values)
        edges = np.array(self.edges)
        with np.errstate(invalid="ignore"):
            outside = ~((numbers >= edges[0]) & (numbers <= edges[-1]))
        codes = _ranks(edges[1:-1], numbers)
        return codes, outside if unread is None else outside | unread

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        return pa.array(lookup(self.middles(), _known(codes, nulls)), mask=nulls)


@dataclass(frozen=True)
class BinnedNumber(Bins):
    """Amounts in bins: `number` has the limits and the step, the edges are steps of it.

    A bin holds the steps from its lower edge to one below its upper edge, the last bin both limits.
    The bin of a value is that of its nearest step.
    """

    number: Number
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        given = [plain_number(edge, "edges") for edge in self.edges]
        super().__post_init__()
        low, high, step = self.number.low, self.number.high, self.number.step
        if given[:1] + given[-1:] != [low, high]:
            raise SchemaError(f"The edges must lie between the limits {low} and {high}.")
        for edge in given:
            if ((exact(edge) - exact(low)) / exact(step)).denominator != 1:
                raise SchemaError(
                    f"An edge must be the lower limit plus whole steps of {step}. Got {edge}."
                )

    @classmethod
    def of(cls, number: Number, inner: Iterable[int | float]) -> BinnedNumber:
        """Return the bins of a number that is cut at edges inside of its limits."""
        return cls((number.low, *inner, number.high), number)

    @classmethod
    def equal(cls, number: Number, bins: int) -> BinnedNumber:
        """Return so many bins of about the same number of steps."""
        if not 1 <= bins < number.size:
            raise SchemaError(f"'bins' must be from 1 to {number.size - 1}. Got {bins!r}.")
        steps = (round(Fraction((number.size - 1) * place, bins)) for place in range(1, bins))
        return cls.of(number, map(number.value, steps))

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return f"{self.number.describe()}, cut into {self.size} bins"

    @cached_property
    def first_steps(self) -> np.ndarray:
        """The code of `number` at which each bin starts."""
        low, step = exact(self.number.low), exact(self.number.step)
        starts = [int((exact(edge) - low) / step) for edge in self.edges[:-1]]
        return np.array(starts, np.int64)

    @cached_property
    def last_steps(self) -> np.ndarray:
        """The code of `number` at which each bin ends, which is still in it."""
        return np.append(self.first_steps[1:] - 1, self.number.size - 1)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest amount of every bin."""
        first, last = (
            self.number.decode(steps, None).to_numpy().astype(np.float64)
            for steps in (self.first_steps, self.last_steps)
        )
        return first, last

    def middles(self) -> np.ndarray:
        """Return the middle of the amounts of every bin."""
        first, last = self.ends()
        return np.clip(first / 2 + last / 2, first, last)

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those that are no numbers."""
        steps, outside = self.number.encode(values)
        return self.bins_of(steps), outside

    def bins_of(self, steps: np.ndarray) -> np.ndarray:
        """Return the codes of the bins of codes of `number`."""
        codes = np.searchsorted(self.first_steps[1:], steps.astype(np.int64), side="right")
        return codes.astype(smallest_unsigned(self.size))


@dataclass(frozen=True)
class Boolean:
    """False and true, in this order."""

    kind: ClassVar[str] = "boolean"

    @property
    def size(self) -> int:
        """The number of codes."""
        return 2

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.bool_()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return "boolean"

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return pa.array([False, True])

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those outside the domain."""
        found, unread = arrow_values.booleans(values)
        codes = found.astype(np.uint8)
        return codes, np.zeros(len(codes), bool) if unread is None else unread

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        return pa.array(codes == 1, mask=nulls)


@dataclass(frozen=True)
class Dates:
    """Days, months or years, from the one that contains `low` to the one that contains `high`.

    A value is published as the first day of its period.
    """

    low: date
    high: date
    by: Literal["day", "month", "year"] = "day"
    kind: ClassVar[str] = "date"

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if type(bound) is not date:
                raise SchemaError(
                    f"The range must be two dates like 2024-12-31. Got {bound} instead."
                )
        if self.low > self.high:
            raise SchemaError(
                f"The range must start at its lower end. Got {self.low} to {self.high}."
            )
        if self.by not in _UNITS:
            raise SchemaError(f"'by' must be one of {', '.join(_UNITS)}. Got {self.by!r} instead.")

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self._periods())

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.date32()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return f"date {self.low} to {self.high} by {self.by}"

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return pa.array(self._periods().astype("M8[D]"))

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last day of every period."""
        periods = self._periods()
        return periods.astype("M8[D]"), (periods + 1).astype("M8[D]") - 1

    def encode(self, values: pa.Array) -> Coded:
        """Return the codes of values of any type, and a mask of those outside the domain."""
        days, unread = arrow_values.days(values, self.by)
        periods = self._periods()
        first = periods[:1].astype("M8[D]").astype(np.int64)[0]
        last = (periods[-1:] + 1).astype("M8[D]").astype(np.int64)[0] - 1
        codes, outside = _subtract(days, int(first), int(last))
        if self.by != "day":
            every_day = np.arange(first, last + 1).astype("M8[D]").astype(periods.dtype)
            table = (
                (every_day - periods[0]).astype(np.int64).astype(smallest_unsigned(len(periods)))
            )
            codes = lookup(table, codes)
        return codes, outside if unread is None else outside | unread

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        return pc.take(self.labels(), pa.array(codes, mask=nulls))

    def _periods(self) -> np.ndarray:
        bounds = np.array([self.low, self.high], "M8[D]").astype(f"M8[{_UNITS[self.by]}]")
        return np.arange(bounds[0], bounds[1] + 1)


Domain = Category | IntegerRange | Bins | Boolean | Dates | Number


def lookup(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return `table[places]` without bounds checks; Arrow is several times faster than numpy."""
    found: np.ndarray = pc.take(pa.array(table), pa.array(places), boundscheck=False).to_numpy()
    return found


def put(codes: np.ndarray, mask: np.ndarray, code: int) -> np.ndarray:
    """Return the codes with `code` where the mask is set.

    Arithmetic is ten times faster than `np.where`.
    """
    kept: np.ndarray = codes * ~mask
    return kept + mask * codes.dtype.type(code) if code else kept


def _bare(value: Any) -> Any:
    """Convert a numpy scalar to a Python object."""
    return value.item() if isinstance(value, np.generic) else value


def _check_values(values: tuple[Any, ...]) -> None:
    if not values:
        raise SchemaError("A category needs at least one value.")
    kinds = {type(value) for value in values}
    if not (kinds == {str} or kinds == {int}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise SchemaError(f"Values must be all text or all whole numbers. Got {names} instead.")
    if kinds == {str} and not all(value.strip() for value in values):
        raise SchemaError(
            "Empty text cannot be a value: it is read as missing (write missing = true)."
        )
    if kinds == {int} and not all(_INTEGER_LOW <= value <= _INTEGER_HIGH for value in values):
        raise SchemaError("Values must lie within 64-bit integers.")
    if len(set(values)) < len(values):
        twice = next(value for place, value in enumerate(values) if value in values[:place])
        raise SchemaError(f"Values must differ. Got {twice!r} twice.")


def _codes_of_places(places: pa.Array, size: int) -> Coded:
    """Return codes given the positions in the list of labels; null means outside the domain."""
    if not places.null_count:
        return places.to_numpy().astype(smallest_unsigned(size)), np.zeros(len(places), bool)
    outside = pc.is_null(places).to_numpy(zero_copy_only=False)
    return pc.fill_null(places, 0).to_numpy().astype(smallest_unsigned(size)), outside


def _ranks(edges: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return how many edges are at most each number; a loop is faster for few edges."""
    if len(edges) > 100:
        return np.searchsorted(edges, numbers, side="right").astype(
            smallest_unsigned(len(edges) + 1)
        )
    ranks = np.zeros(len(numbers), np.uint8)
    reached = np.empty(len(numbers), bool)
    with np.errstate(invalid="ignore"):
        for edge in edges:
            np.greater_equal(numbers, edge, out=reached)
            ranks += reached.view(np.uint8)
    return ranks


def _outside(numbers: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return a mask of the integers outside low to high; if there are none, min and max suffice."""
    if not len(numbers) or (int(numbers.min()) >= low and int(numbers.max()) <= high):
        return np.zeros(len(numbers), bool)
    found: np.ndarray = (numbers < low) | (numbers > high)
    return found


def _subtract(numbers: np.ndarray, low: int, high: int) -> Coded:
    """Return `numbers - low` in the smallest type for the range, 0 outside it, and that mask.

    Converting to that type before subtracting is exact, because unsigned subtraction wraps, and
    much cheaper.
    """
    outside = _outside(numbers, low, high)
    width = smallest_unsigned(high - low + 1)
    codes = numbers.astype(width)
    codes -= width.type(low % 2 ** (8 * width.itemsize))
    return put(codes, outside, 0) if outside.any() else codes, outside


def _known(codes: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
    """Return the codes with 0 at missing values, so that they are valid positions of labels."""
    return codes if nulls is None else put(codes, nulls, 0)
