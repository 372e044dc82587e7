"""Amounts: what a row adds to the sum of a column, in whole steps from a public centre.

`Products` are the amounts of a moment: a row adds the product of what it has in two columns.
"""

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
MOST_PRODUCTS = 1 << 40  # of a product: the sum over eight million rows is below 2^63


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

    def again(self, schema: Schema) -> Amounts:
        """Return the amounts that a schema says for the same column."""
        return Amounts.of(schema, self.column)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose codes tell what a row adds."""
        return (self.column,)

    @property
    def centre(self) -> int:
        """The middle of the limits, rounded down to a step."""
        return (self.size - 1) // 2

    @property
    def largest(self) -> int:
        """The most that one row adds, with either sign."""
        return max(self.size - 1 - self.centre, 1)

    @property
    def reach(self) -> int:
        """The steps from the lower limit to the upper one, at least 1: what a row divides among the
        sides of its cell (see `PrivacyUnit.sided`).
        """
        return max(self.size - 1, 1)

    @property
    def sides(self) -> int:
        """How many sides a cell has: above the lower limit, below the upper one and, where it may
        be missing, without an amount.
        """
        return 3 if self.missing else 2

    @property
    def high(self) -> Fraction:
        return self.low + (self.size - 1) * self.step

    @property
    def codes(self) -> int:
        """How many codes the column has: one more if there may be no amount."""
        return self.size + self.missing

    @property
    def width(self) -> float:
        """How far the limits are apart."""
        return float(self.high - self.low)

    @property
    def middle(self) -> Fraction:
        """The amount of the centre."""
        return self.low + self.centre * self.step

    def above(self, *columns: npt.NDArray[Any]) -> Integers:
        """Return the steps of rows above the lower limit, given the codes of the columns; 0 where
        there is no amount.
        """
        [codes] = columns
        found = codes.astype(np.int64, copy=self.missing)
        if self.missing:
            found[codes == self.size] = 0
        return found

    def steps(self, *columns: npt.NDArray[Any]) -> Integers:
        """Return the steps of rows above the centre; 0 where there is no amount."""
        return self.above(*columns) - self.centre * self.present(*columns)

    def present(self, *columns: npt.NDArray[Any]) -> Integers:
        """Return 1 for the rows that have an amount, else 0."""
        [codes] = columns
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


@dataclass(frozen=True)
class Products(Amounts):
    """The products A · B of the steps that a row has in two columns, each from its centre.

    With A from -a to a' and B from -b to b', the product is between the least and the largest of
    the products of these ends, and a square between 0 and that of the farther end. These are the
    limits of an amount like any other: `low` is the least, `size` the number of whole numbers from
    there to the largest, and what a row adds is counted from their middle.
    """

    factors: tuple[Amounts, Amounts]

    @classmethod
    def of(cls, schema: Schema, *names: str) -> Products:
        """Return the products of two columns, which may be the same."""
        first, second = (Amounts.of(schema, name) for name in names)
        found = cls.made(first, second)
        if found.size > MOST_PRODUCTS:
            raise SchemaError(
                f"'{found.column}' has {found.size:,} products of steps, and moments take at most "
                f"{MOST_PRODUCTS:,}: choose nearer limits or a larger step."
            )
        if found.missing and first != second:
            raise SchemaError(
                f"'{found.column}' is a moment of two columns of which one may be missing: the "
                "sums of rows that have both are not measured. Ask for the moment of columns "
                "without missing values, or for squares."
            )
        return found

    @classmethod
    def made(cls, first: Amounts, second: Amounts) -> Products:
        ends = [(-each.centre, each.size - 1 - each.centre) for each in (first, second)]
        corners = [one * other for one in ends[0] for other in ends[1]]
        low = 0 if first == second else min(corners)
        step, size = first.step * second.step, max(corners) - low + 1
        name, missing = f"{first.column}*{second.column}", first.missing or second.missing
        return cls(name, low * step, step, size, missing, (first, second))

    def again(self, schema: Schema) -> Products:
        return Products.of(schema, *(each.column for each in self.factors))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.column for each in self.factors))

    def above(self, *columns: npt.NDArray[Any]) -> Integers:
        first, second = self.factors
        found = first.steps(columns[0]) * second.steps(columns[-1])
        found -= int(self.low / self.step)
        if self.missing:
            found[self.present(*columns) == 0] = 0
        return found

    def present(self, *columns: npt.NDArray[Any]) -> Integers:
        first, second = self.factors
        return first.present(columns[0]) * second.present(columns[-1])

    def to_dict(self) -> dict[str, Any]:
        return {"product": [each.to_dict() for each in self.factors]}


def read_amounts(data: Mapping[str, Any]) -> Amounts:
    """Return the amounts that `to_dict` wrote."""
    if "product" not in data:
        return Amounts.from_dict(data)
    first, second = map(Amounts.from_dict, data["product"])
    return Products.made(first, second)


def _described(attribute: Attribute) -> str:
    return "an identifier" if attribute.domain is None else f"a {attribute.describe()}"
