"""Amounts: what a row adds to the sum of a column, in whole steps from a public centre."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.numbers import Number, exact
from scumble.model.schema.schema import Schema

Integers = npt.NDArray[np.int64]

MOST_STEPS = 1 << 33  # of one amount: the sum over a billion rows is below 2^63


@dataclass(frozen=True)
class Amounts:
    """The amounts low, low + step, ... of a column, `size` in all; `missing` if there may be none.

    A row adds its number of steps less `centre`, and so an integer from -largest to largest.
    """

    column: str
    low: Fraction
    step: Fraction
    size: int
    missing: bool

    @classmethod
    def of(cls, schema: Schema, name: str) -> Amounts:
        """Return the amounts of a column; SchemaError if it has no amounts."""
        attribute = schema[name]
        if attribute.limits_needed:
            raise SchemaError(attribute.how_to_limit())
        number: IntegerRange | Number | None = attribute.number
        if number is None and isinstance(attribute.domain, IntegerRange):
            number = attribute.domain
        if number is None:
            raise SchemaError(
                f"'{name}' has no amounts to add up: it is {_described(attribute)}. Sums are of "
                "columns of the type number, or integer."
            )
        if number.size > MOST_STEPS:
            raise SchemaError(
                f"'{name}' has {number.size:,} amounts, and sums take at most {MOST_STEPS:,}: "
                "choose nearer limits or a larger step."
            )
        step = exact(number.step) if isinstance(number, Number) else Fraction(1)
        return cls(name, exact(number.low), step, number.size, attribute.missing)

    @property
    def centre(self) -> int:
        """The middle of the limits, rounded down to a step."""
        return (self.size - 1) // 2

    @property
    def largest(self) -> int:
        """The most that one row adds, with either sign."""
        return max(self.size - 1 - self.centre, 1)

    @property
    def high(self) -> Fraction:
        return self.low + (self.size - 1) * self.step

    @property
    def width(self) -> float:
        """How far the limits are apart."""
        return float(self.high - self.low)

    @property
    def middle(self) -> Fraction:
        """The amount of the centre."""
        return self.low + self.centre * self.step

    def steps(self, codes: npt.NDArray[Any]) -> Integers:
        """Return what rows add, given the codes of the column; 0 where there is no amount."""
        found = codes.astype(np.int64) - self.centre
        if self.missing:
            found[codes == self.size] = 0
        return found

    def present(self, codes: npt.NDArray[Any]) -> Integers:
        """Return 1 for the rows that have an amount, else 0."""
        return (codes < self.size).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "low": str(self.low),
            "step": str(self.step),
            "size": self.size,
            "missing": self.missing,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Amounts:
        found = cls(
            stored.text(data["column"]),
            stored.fraction(data["low"]),
            stored.fraction(data["step"]),
            stored.whole(data["size"], least=1),
            stored.flag(data["missing"]),
        )
        if found.step <= 0:
            raise ValueError("steps are above 0")
        return found


def _described(attribute: Attribute) -> str:
    return "an identifier" if attribute.domain is None else f"a {attribute.describe()}"
