"""Number: amounts between limits in whole steps; UnlimitedNumber: its limits are still needed.

An amount is clamped to the limits and rounded to the nearest step, a half upwards, so that sums are
exact whole numbers of steps. All of it is exact: a decimal is read as it is written, and a float as
the shortest decimal that stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import floor, isfinite, lcm
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from scumble.model.errors import SchemaError
from scumble.model.schema import arrow_values
from scumble.model.schema.cell_keys import smallest_unsigned

Steps = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_EXACT = 1 << 53  # a float holds every whole number below it
_SHORT = 15  # characters of a decimal that is the shortest one of its float
_LONGEST = 400  # characters of a text that is read as a number
_UNSURE = 2.0**-49  # relative error of a quotient of floats, with room


@dataclass(frozen=True)
class Number:
    """Amounts from `low` to `high` in steps; what lies beyond a limit counts as the limit.

    >>> pay = Number(0, 1000, 0.5)
    >>> codes, outside = pay.encode(pa.array(["-3", "12.25", "12.2", "1e6", "many"]))
    >>> pay.decode(codes, None).to_pylist(), outside.tolist()
    ([0.0, 12.5, 12.0, 1000.0, 0.0], [False, False, False, False, True])
    """

    low: int | float
    high: int | float
    step: int | float = 1
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        for end, name in (("low", "limits"), ("high", "limits"), ("step", "step")):
            object.__setattr__(self, end, plain_number(getattr(self, end), name))
        check_step(self.step)
        if self.low >= self.high:
            raise SchemaError(
                f"The lower limit must be below the upper one. Got {self.low} and {self.high}."
            )
        span = (exact(self.high) - exact(self.low)) / exact(self.step)
        if span.denominator != 1:
            raise SchemaError(
                f"The limits must be a whole number of steps of {self.step} apart. "
                f"Got {self.low} and {self.high}."
            )
        ends = max(abs(self._first), abs(self._first + span.numerator * self._width))
        if max(ends, self._scale) >= _EXACT:
            raise SchemaError(
                f"The limits {self.low} and {self.high} are too wide for steps of {self.step}; "
                "choose a larger step."
            )

    @cached_property
    def _scale(self) -> int:
        """The least number that makes the lower limit and the step whole."""
        return lcm(exact(self.low).denominator, exact(self.step).denominator)

    @cached_property
    def _first(self) -> int:
        return int(exact(self.low) * self._scale)

    @cached_property
    def _width(self) -> int:
        return int(exact(self.step) * self._scale)

    @cached_property
    def size(self) -> int:
        """The number of codes: one for each step, both limits included."""
        return int((exact(self.high) - exact(self.low)) / exact(self.step)) + 1

    @property
    def whole(self) -> bool:
        """Whether every amount is a whole number."""
        return self._scale == 1

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the labels."""
        return pa.int64() if self.whole else pa.float64()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        steps = "" if self.step == 1 else f" in steps of {self.step}"
        return f"number {self.low} to {self.high}{steps}"

    def clamping(self, name: str) -> str:
        """Return the sentence that says how amounts of a column are clamped and rounded."""
        low, high, step = (f"{each:,}" for each in (self.low, self.high, self.step))
        rounded = "" if self.step == 1 and self.whole else f", rounded to {step}"
        return (
            f"Amounts of '{name}' above {high} count as {high}, and those below {low} as "
            f"{low}{rounded}."
        )

    def to_table(self) -> dict[str, Any]:
        """Return the keys of a schema that give the domain."""
        return {"limits": [self.low, self.high], "step": self.step}

    @property
    def values(self) -> Sequence[int | float]:
        """The amounts in rising order, computed when they are looked up."""
        last = self._first + (self.size - 1) * self._width
        return range(self._first, last + 1, self._width) if self.whole else _Amounts(self)

    def value(self, code: int) -> int | float:
        """Return the amount of a code."""
        scaled = self._first + code * self._width
        return scaled if self.whole else scaled / self._scale

    def labels(self) -> pa.Array:
        """Return the value of every code."""
        return self.decode(np.arange(self.size), None)

    def decode(self, codes: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
        """Return the values of codes; null where the mask `nulls` is set."""
        steps = codes.astype(np.int64)
        if nulls is not None:
            steps[nulls] = 0
        scaled = self._first + steps * self._width
        return pa.array(scaled if self.whole else scaled / self._scale, mask=nulls)

    def encode(self, values: pa.Array) -> tuple[np.ndarray, Mask]:
        """Return the codes of values of any type, and a mask of those that are no numbers.

        Infinity is no number. The code of these, and of null, is arbitrary.
        """
        kind = values.type
        if types.is_decimal(kind) or types.is_float16(kind):
            values = pc.cast(values, pa.string() if types.is_decimal(kind) else pa.float32())
            kind = values.type
        if types.is_integer(kind):
            steps, outside = self._of_integers(values), np.zeros(len(values), bool)
        elif types.is_floating(kind):
            if types.is_float32(kind):  # 0.1 is 0.1, not 0.10000000149
                values = pc.cast(pc.cast(values, pa.string()), pa.float64())
            found = pc.fill_null(values, 0.0).to_numpy()
            outside = ~np.isfinite(found)
            steps = self._of_floats(np.where(outside, 0.0, found))
        elif arrow_values.is_text(kind):
            steps, outside = self._of_texts(values)
        else:
            steps, outside = np.zeros(len(values), np.int64), np.ones(len(values), bool)
        return steps.astype(smallest_unsigned(self.size)), outside

    def beyond(self, values: pa.Array) -> Mask:
        """Return a mask of the values that are no numbers or lie beyond the limits."""
        found, unread = arrow_values.numbers(values)
        inside = (found >= float(self.low)) & (found <= float(self.high))
        return ~inside if unread is None else ~inside | unread

    def _of_integers(self, values: pa.Array) -> Steps:
        numbers, _ = arrow_values.integers(values)
        if numbers.dtype == np.uint64:
            numbers = np.minimum(numbers, np.uint64(_EXACT))
        low, high = floor(exact(self.low)), -floor(-exact(self.high))
        found = np.clip(numbers.astype(np.int64), low, high)
        found *= self._scale
        found -= self._first
        if self._width > 1:
            found *= 2
            found += self._width
            found //= 2 * self._width
        return np.clip(found, 0, self.size - 1)

    def _of_floats(self, numbers: npt.NDArray[np.float64]) -> Steps:
        low, step = float(self.low), float(self.step)
        numbers = np.clip(numbers, low, float(self.high))
        quotients = (numbers - low) / step + 0.5
        found = np.floor(quotients).astype(np.int64)
        error = ((np.abs(numbers) + abs(low)) / step + 1) * _UNSURE
        unsure = np.flatnonzero(np.abs(quotients - np.rint(quotients)) <= error)
        if self.whole and len(unsure):  # a multiple of a half is the decimal that stands for it
            twice = 2 * numbers[unsure]
            halves = twice == np.rint(twice)
            twice = twice[halves].astype(np.int64) - 2 * self._first + self._width
            found[unsure[halves]] = twice // (2 * self._width)
            unsure = unsure[~halves]
        if len(unsure):  # between two steps, or too large for a quotient of floats
            different, places = np.unique(numbers[unsure], return_inverse=True)
            steps = [self._of_fraction(exact(number)) for number in different.tolist()]
            found[unsure] = np.array(steps, np.int64)[places]
        return np.clip(found, 0, self.size - 1)

    def _of_texts(self, values: pa.Array) -> tuple[Steps, Mask]:
        text = pc.utf8_trim_whitespace(values)
        floats, unread = arrow_values.numbers(text)
        outside = np.zeros(len(text), bool) if unread is None else unread
        lengths = pc.fill_null(pc.utf8_length(text), 0).to_numpy()
        outside = outside | (lengths > _LONGEST)
        exponent = pc.fill_null(pc.match_substring(text, "e", ignore_case=True), False)
        long = (lengths > _SHORT) | exponent.to_numpy(zero_copy_only=False)
        steps = self._of_floats(np.where(long | outside, 0.0, floats))
        for place in np.flatnonzero(long & ~outside).tolist():
            steps[place] = self._of_fraction(_fraction(text[place].as_py()))
        return steps, outside

    def _of_fraction(self, number: Fraction) -> int:
        nearest = floor((number * self._scale - self._first) / self._width + Fraction(1, 2))
        return min(max(nearest, 0), self.size - 1)


@dataclass(frozen=True)
class UnlimitedNumber:
    """Amounts whose limits the owner has still to write or to buy: `limits_needed = true`."""

    step: int | float = 1
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", plain_number(self.step, "step"))
        check_step(self.step)

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return "number, limits needed"

    def to_table(self) -> dict[str, Any]:
        """Return the keys of a schema that give the domain."""
        return {"step": self.step, "limits_needed": True}


class _Amounts(Sequence[Any]):
    """The amounts of a number that are floats."""

    def __init__(self, number: Number) -> None:
        self._number = number

    def __len__(self) -> int:
        return self._number.size

    def __getitem__(self, code: Any) -> Any:
        return self._number.value(range(self._number.size)[code])


def exact(number: int | float) -> Fraction:
    """Return a number exactly as it is written: 0.1 is one tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def plain_number(given: Any, key: str) -> int | float:
    """Return a number as an int if it is whole; SchemaError unless it is a finite number."""
    given = given.item() if isinstance(given, np.generic) else given
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise SchemaError(f"'{key}' must be made of numbers. Got {given!r} instead.")
    return int(given) if given == int(given) else given


def check_step(step: int | float) -> None:
    """Raise SchemaError unless a step is positive."""
    if step <= 0:
        raise SchemaError(f"'step' must be above 0. Got {step}.")


def _fraction(word: str) -> Fraction:
    mantissa, _, exponent = word.lower().partition("e")
    power = min(max(int(exponent or 0), -2 * _LONGEST), 2 * _LONGEST)  # far beyond all limits
    return Fraction(Decimal(mantissa)) * Fraction(10) ** power
