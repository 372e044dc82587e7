"""Arithmetic of numbers and of intervals: the operators and functions that apply to aggregates.

`apply` works on values, `apply_interval` on limits, `apply_stderr` on standard errors. NaN stands
for NULL, as where a division is by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Interval = tuple[float, float]
EVERYTHING: Interval = (-math.inf, math.inf)


def apply(name: str, values: Sequence[float]) -> float:
    """Return an operator or function of numbers; NaN if SQL has no finite result."""
    first, last = values[0], values[-1]
    if name == "coalesce":
        return last if math.isnan(first) else first
    if any(map(math.isnan, values)):
        return math.nan
    if name == "nullif":
        return math.nan if first == last else first
    try:
        return _apply(name, first, last, len(values))
    except (ValueError, ZeroDivisionError, OverflowError):
        return math.nan


def _apply(name: str, first: float, last: float, many: int) -> float:
    if name == "negative":
        return -first
    if name == "+":
        return first + last
    if name == "-":
        return first - last
    if name == "*":
        return first * last
    if name == "/":
        return first / last
    if name == "abs":
        return abs(first)
    return _rising(name, first, int(last) if many > 1 else 0)


def _rising(name: str, value: float, places: int) -> float:
    """Return a function that never falls."""
    if name == "round":  # half away from zero, as DuckDB rounds
        scale = 10.0**places
        whole: float = math.copysign(math.floor(abs(value) * scale + 0.5), value) / scale
        return whole
    if math.isinf(value) and name in ("floor", "ceil", "rint"):
        return value
    functions: dict[str, Callable[[float], float]] = {
        "floor": math.floor,
        "ceil": math.ceil,
        "rint": round,
        "sqrt": math.sqrt,
        "ln": math.log,
        "log": math.log10,
        "exp": math.exp,
    }
    return float(functions[name](value))


def apply_interval(name: str, limits: Sequence[Interval]) -> Interval:
    """Return limits of an operator or function of numbers that lie in these intervals."""
    low, high = limits[0]
    if name in ("coalesce", "nullif"):
        return low, high
    if name == "negative":
        return -high, -low
    if name == "abs":
        inside = low <= 0 <= high
        return (0.0 if inside else min(abs(low), abs(high))), max(abs(low), abs(high))
    if name in ("+", "-", "*", "/"):
        return _operator(name, limits[0], limits[1])
    if name in ("sqrt", "ln", "log"):
        floor = 0.0 if name == "sqrt" else -math.inf
        return (_end(name, low, floor), _end(name, high, floor))
    places = int(limits[1][0]) if len(limits) > 1 else 0
    return _limit(name, low, places), _limit(name, high, places)


def _end(name: str, value: float, floor: float) -> float:
    if value <= 0:
        return floor
    return value if math.isinf(value) else _rising(name, value, 0)


def _limit(name: str, value: float, places: int) -> float:
    if math.isinf(value):
        return 0.0 if name == "exp" and value < 0 else value
    try:
        return _rising(name, value, places)
    except OverflowError:
        return math.inf


def _operator(name: str, one: Interval, other: Interval) -> Interval:
    if name == "-":
        other = (-other[1], -other[0])
    if name in "+-":
        return one[0] + other[0], one[1] + other[1]
    if name == "/":
        if other[0] <= 0 <= other[1]:
            return (0.0, 0.0) if one == (0.0, 0.0) else EVERYTHING
        other = (1 / other[1], 1 / other[0])
    ends = [a * b if a and b else 0.0 for a in one for b in other]
    return min(ends), max(ends)


def apply_stderr(name: str, values: Sequence[float], errors: Sequence[float]) -> float:
    """Return a first-order bound of a standard error, whatever the dependence of the parts."""
    first, error = values[0], errors[0]
    if name in ("+", "-"):
        return error + errors[1]
    if name == "*":
        return _times(abs(first), errors[1]) + _times(abs(values[1]), error)
    if name == "/":
        if not values[1]:
            return math.inf
        return (error + _times(abs(first / values[1]), errors[1])) / abs(values[1])
    slopes = {
        "sqrt": lambda: 0.5 / math.sqrt(first),
        "ln": lambda: 1 / first,
        "log": lambda: 1 / (first * math.log(10)),
        "exp": lambda: math.exp(first),
    }
    if name not in slopes:
        return error
    try:
        return _times(abs(slopes[name]()), error)
    except (ValueError, ZeroDivisionError, OverflowError):
        return math.inf


def _times(factor: float, error: float) -> float:
    return factor * error if factor and error else 0.0
