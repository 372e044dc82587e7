"""What lies within a published value: the numbers of a bin, the days of a month or year.

`Pieces` cuts every bin at constants, so that comparisons with these are constant on each piece.
The other functions write values that depend on the bin as SQL over the published column.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.query import Expression, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import BinnedNumber, Bins, Dates

Floats = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Values = npt.NDArray[Any]  # numbers of a binned attribute, days of a date


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of the bins of an attribute, in rising order.

    Piece i is in the bin of code `code[i]`, holds the values from `low[i]` to `high[i]`, both
    included, and a share `share[i]` of the bin if values are spread evenly. A missing value is not
    in a piece.
    """

    attribute: Attribute
    code: Indices
    low: Values
    high: Values
    share: Floats

    @cached_property
    def middle(self) -> Values:
        """A value in the middle of each piece."""
        if self.low.dtype.kind == "M":
            found: Values = self.low + (self.high - self.low) // 2
            return found
        return np.clip(self.low / 2 + self.high / 2, self.low, self.high)

    @property
    def bins(self) -> int:
        """The number of bins, without a missing value."""
        return self.attribute.size - self.attribute.missing

    def total(self, weights: Floats) -> Floats:
        """Return the sum of weights of pieces in every bin."""
        found: Floats = np.bincount(self.code, weights, self.bins).astype(np.float64)
        return found

    def chosen(self, mask: Truth) -> Pieces:
        """Return some of the pieces."""
        return Pieces(
            self.attribute, self.code[mask], self.low[mask], self.high[mask], self.share[mask]
        )

    def parted(self, parts: int) -> Pieces:
        """Return the pieces of numbers, each cut into equal parts."""
        steps = np.arange(parts)
        width = (self.high - self.low) / parts
        low = self.low[:, None] + width[:, None] * steps
        high = np.nextafter(low[:, 1:], -np.inf)
        high = np.maximum(np.column_stack([high, self.high]), low)
        return Pieces(
            self.attribute,
            np.repeat(self.code, parts),
            np.minimum(low, self.high[:, None]).reshape(-1),
            high.reshape(-1),
            np.repeat(self.share / parts, parts),
        )


def cut_at(attribute: Attribute, constants: Sequence[float]) -> Pieces:
    """Return the bins of an attribute cut at constants; days are counted from 1970-01-01.

    Each constant in a bin is a piece of its own, between what is below and what is above it. Days
    and the steps of a number are whole: of a constant between two, the lower one is the piece.
    """
    domain = attribute.domain
    points = np.unique(np.array([each for each in constants if np.isfinite(each)], np.float64))
    if isinstance(domain, BinnedNumber):
        unit, last = domain.first_steps, domain.last_steps
        points = np.unique([bisect_right(domain.number.values, each) - 1 for each in points])
    elif isinstance(domain, Dates):
        unit, last = (days.astype(np.int64) for days in domain.ends())
        points = np.unique(np.floor(points).astype(np.int64))
    elif isinstance(domain, Bins):
        unit, last = domain.ends()  # the first of a bin is its edge, and the last bin is closed
    else:
        raise TypeError(attribute)
    whole = unit.dtype.kind == "i"
    edges = np.append(unit, last[-1] + whole)
    rows: list[tuple[int, Any, Any, float]] = []
    first = np.searchsorted(points, unit, "left")
    after = np.searchsorted(points, last, "right")
    for code in np.flatnonzero(first < after).tolist():
        rows += _parts(code, unit[code], last[code], edges[code : code + 2],
                       points[first[code] : after[code]].tolist(), whole)  # fmt: skip
    uncut = np.flatnonzero(first >= after)
    codes = np.concatenate([uncut, np.array([row[0] for row in rows], np.intp)])
    low = np.concatenate([unit[uncut], np.array([row[1] for row in rows], unit.dtype)])
    high = np.concatenate([last[uncut], np.array([row[2] for row in rows], unit.dtype)])
    share = np.concatenate([np.ones(len(uncut)), np.array([row[3] for row in rows])])
    order = np.lexsort((low, codes))
    if isinstance(domain, Dates):
        low, high = low.astype("M8[D]"), high.astype("M8[D]")
    elif isinstance(domain, BinnedNumber):
        low, high = (domain.number.decode(each, None).to_numpy() * 1.0 for each in (low, high))
    return Pieces(attribute, codes[order], low[order], high[order], share[order])


def _parts(
    code: int, low: Any, high: Any, edges: Values, points: Sequence[Any], whole: bool
) -> list[tuple[int, Any, Any, float]]:
    """Return (code, low, high, share) of the pieces of one bin that is cut at points."""
    left, right = edges.tolist()
    width = right - left
    rows = []
    begin, start = left, low  # the nominal start, and the first value from there on
    for point in points:
        before, after = (
            (point - 1, point + 1)
            if whole
            else (np.nextafter(point, -np.inf), np.nextafter(point, np.inf))
        )
        if start <= before:
            rows.append((code, start, before, (point - begin) / width))
        rows.append((code, point, point, 1 / width if whole else 0.0))
        begin, start = point + whole, after
    if start <= high:
        rows.append((code, start, high, (right - begin) / width))
    return rows


def every_day(attribute: Attribute) -> Pieces:
    """Return every day of a date as a piece of its own."""
    domain = attribute.domain
    if not isinstance(domain, Dates):
        raise TypeError(attribute)
    first, last = domain.ends()
    days = np.arange(first[0], last[-1] + 1)
    lengths = (last - first).astype(np.int64) + 1
    code = np.repeat(np.arange(len(lengths)), lengths)
    return Pieces(attribute, code, days, days, 1 / lengths[code])


# Values by bin as SQL over the published column.


def sql_value(value: Any) -> str:
    """Return a value as SQL in parentheses."""
    if value is None:
        return "(NULL)"
    if isinstance(value, bool | np.bool_):
        return "(TRUE)" if value else "(FALSE)"
    if isinstance(value, np.datetime64):
        return f"(DATE '{value}')"
    number = repr(float(value))
    return f"({number if 'e' in number else number + 'e0'})"


def by_bin(attribute: Attribute, values: Sequence[Any], missing: Any = None) -> str:
    """Return SQL of the value of every bin, and of a missing value."""
    texts = [sql_value(value) for value in values]
    starts = [0, *(at for at in range(1, len(texts)) if texts[at] != texts[at - 1])]
    limits = [sql_value(edge) for edge in _limits(attribute)]
    name = quoted(attribute.name)

    def nested(first: int, last: int) -> str:
        if last - first == 1:
            return texts[starts[first]]
        half = (first + last) // 2
        below, above = nested(first, half), nested(half, last)
        return f"(CASE WHEN {name} < {limits[starts[half]]} THEN {below} ELSE {above} END)"

    found = nested(0, len(starts))
    if not attribute.missing:
        return found
    return f"(CASE WHEN {name} IS NULL THEN {sql_value(missing)} ELSE {found} END)"


def among(attribute: Attribute, holds: Truth, missing: bool = False) -> Expression:
    """Return the condition that the published value is in one of the bins where `holds` is true."""
    name, limits = quoted(attribute.name), [sql_value(edge) for edge in _limits(attribute)]
    steps = np.diff(holds.astype(np.int8), prepend=0, append=0)
    runs = zip(np.flatnonzero(steps > 0).tolist(), np.flatnonzero(steps < 0).tolist(), strict=True)
    parts = []
    for first, after in runs:
        ends = [f"{name} >= {limits[first]}"] if first else []
        ends += [f"{name} < {limits[after]}"] if after < len(holds) else []
        parts.append(" AND ".join(ends) if ends else f"{name} IS NOT NULL")
    if missing and attribute.missing:
        parts.append(f"{name} IS NULL")
    sql = " OR ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    return Expression(sql or "FALSE", (attribute.name,))


def _limits(attribute: Attribute) -> list[Any]:
    """Return the start of every bin: published values of earlier bins are below it."""
    domain = attribute.domain
    if not isinstance(domain, Bins | Dates):
        raise TypeError(attribute)
    return list(domain.ends()[0])


def arrow(values: Values) -> pa.Array:
    """Return values as an Arrow array of numbers or dates."""
    return pa.array(values.astype("M8[D]") if values.dtype.kind == "M" else values)
