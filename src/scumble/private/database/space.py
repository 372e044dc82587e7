"""The space of a database: one axis for each attribute, and boxes in it as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import prod

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates, IntegerRange
from scumble.model.schema.numbers import Number
from scumble.model.schema.schema import Schema
from scumble.public.sql.names import sql_literal, sql_name

Boxes = NDArray[np.int64]  # (n, d, 2): closed intervals of codes, one for each attribute
Box = NDArray[np.int64]  # (d, 2): one of them
Counts = NDArray[np.int64]

_MATRIX = 10**8


class Space:
    """All combinations of values of some attributes. A point is a tuple of codes."""

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self.attributes = tuple(schema[name] for name in names)
        self.names = tuple(names)
        if not self.names or len(set(self.names)) < len(self.names):
            raise ParameterError.of("Space", "names", "attributes that differ", list(names))
        self.sizes = tuple(attribute.size for attribute in self.attributes)
        for attribute in self.attributes:
            if attribute.size >= 1 << 62:
                raise ParameterError(f"{attribute} has too many values for boxes; use bins.")
        self.points = prod(self.sizes)
        self.whole: Box = np.array([(0, size - 1) for size in self.sizes], np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def sql(self, box: Box) -> str:
        """Return a box as a SQL condition; TRUE for the whole space.

        A binned number is compared with edges, and a date by month or year with its first and last
        days, so that the condition also holds for the private values.
        """
        parts = [
            _condition(attribute, size, low, high)
            for attribute, size, (low, high) in zip(
                self.attributes, self.sizes, box.tolist(), strict=True
            )
            if low > 0 or high < size - 1
        ]
        return " AND ".join(parts) or "TRUE"

    def matrix(self, one: int, other: int) -> Counts:
        """Zeros over two attributes, for a map of popularity."""
        if one == other or self.sizes[one] * self.sizes[other] > _MATRIX:
            raise ParameterError(
                f"A map needs two attributes with at most {_MATRIX} pairs of values. "
                f"Got {self.names[one]!r} and {self.names[other]!r} instead."
            )
        return np.zeros((self.sizes[one], self.sizes[other]), np.int64)


def _condition(attribute: Attribute, size: int, low: int, high: int) -> str:
    """An interval of codes, of which the last may stand for a missing value."""
    name = sql_name(attribute.name)
    missing = attribute.missing and high == size - 1
    last = size - 1 - attribute.missing
    if low > last:
        return f"{name} IS NULL"
    if low == 0 and high == last:
        return f"{name} IS NOT NULL"
    found = _interval(attribute, name, low, min(high, last), last)
    return f"({found} OR {name} IS NULL)" if missing else found


def _interval(attribute: Attribute, name: str, low: int, high: int, last: int) -> str:
    domain = attribute.domain
    if isinstance(domain, Bins):
        edges = [f"{name} >= {sql_literal(domain.edges[low])}"] * (low > 0)
        # The last bin is closed, so its upper edge is no limit.
        edges += [f"{name} < {sql_literal(domain.edges[high + 1])}"] * (high < last)
        return " AND ".join(edges)
    if isinstance(domain, Dates):
        days = _days(domain, low, high)
    else:
        if isinstance(domain, Category) and low < high:
            return f"{name} IN ({', '.join(map(sql_literal, domain.values[low : high + 1]))})"
        days = sql_literal(_value(attribute, low)), sql_literal(_value(attribute, high))
    first, final = days
    return f"{name} = {first}" if first == final else f"{name} BETWEEN {first} AND {final}"


def _value(attribute: Attribute, code: int) -> str | float | bool:
    """The value of a code of numbers, of a list, or of false and true."""
    domain = attribute.domain
    if isinstance(domain, Number):
        return domain.value(code)
    if isinstance(domain, IntegerRange):
        return domain.low + code
    if isinstance(domain, Category):
        return domain.values[code]
    return code == 1


def _days(dates: Dates, low: int, high: int) -> tuple[str, str]:
    """The first day of the first period, and the last day of the last."""
    unit = f"M8[{dates.by[0].upper()}]"
    start = np.datetime64(dates.low, "D").astype(unit)
    first: date = (start + low).astype("M8[D]").item()
    final: date = ((start + high + 1).astype("M8[D]") - 1).item()
    return sql_literal(first), sql_literal(final)
