"""Coverage of correlations and regressions, by the laws themselves over sums with normal noise.

The sums of x, y and their products have independent normal noise, and the number of rows is known.
Each seed is one release; its questions share the noise, so that each is counted by itself. The
checks are two-sided where the noise is small: an interval that is right then covers its level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binom, norm

import scumble as sc
from scumble.model.query import Expression, Query, quoted
from scumble.public.estimate import Estimate
from scumble.public.estimation.selecting.regressions import Regression
from scumble.public.estimation.selecting.selection import Selection
from scumble.public.sql.aggregates import Term

ROWS = 1000
LEVELS = (0.8, 0.95)
FALSE_ALARM = 1e-6
WHAT = ("slope", "intercept", "corr", "r2")
X, Y = (Expression(quoted(name), (name,)) for name in "xy")


@dataclass(frozen=True)
class Normal:
    stderr: float

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = float(norm.ppf((1 + level) / 2)) * self.stderr
        return value - half, value + half


class Polynomial(dict[tuple[str, ...], float]):
    """The factors of products of columns, as Python evaluates SQL."""

    def __add__(self, other: Any) -> Polynomial:
        found = Polynomial(self)
        for key, factor in _polynomial(other).items():
            found[key] = found.get(key, 0.0) + factor
        return found

    def __mul__(self, other: Any) -> Polynomial:
        found = Polynomial()
        for (one, a), (two, b) in product(self.items(), _polynomial(other).items()):
            key = tuple(sorted(one + two))
            found[key] = found.get(key, 0.0) + a * b
        return found

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Polynomial:
        return self + _polynomial(other) * -1.0

    def __rsub__(self, other: Any) -> Polynomial:
        return _polynomial(other) + self * -1.0

    def __truediv__(self, other: float) -> Polynomial:
        return self * (1 / other)


def _polynomial(value: Any) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial({(): float(value)})


NAMES = {name: Polynomial({(name,): 1.0}) for name in "xy"}


@cache
def _read(sql: str) -> Polynomial:
    text = sql.replace("::DOUBLE", "").replace('"x"', "x").replace('"y"', "y")
    return _polynomial(eval(text, {}, dict(NAMES)))


@dataclass
class Sums:
    """Noisy sums in place of a release: what `Regression` asks a selection for."""

    values: dict[tuple[str, ...], float]
    noises: dict[tuple[str, ...], float]
    fixed: bool = False
    keys: tuple[tuple[()]] = ((),)
    plan: Any = field(default_factory=lambda: SimpleNamespace(clauses=(), notes=(), text=""))

    @property
    def groups(self) -> Any:
        attributes = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 9)) for name in "xy"]
        return SimpleNamespace(schema=sc.Schema(attributes))

    @property
    def sandbox(self) -> Any:
        return SimpleNamespace(limits=lambda *_: (-50.0, 50.0))

    def ask_about(self, key: tuple[()], queries: list[Query]) -> list[Estimate]:
        return [self.ask(query)[key] for query in queries]

    def ask(self, query: Query) -> dict[tuple[()], Estimate]:
        if query.aggregate == "count":
            return {(): Estimate(float(ROWS), Normal(0.0), "")}
        assert query.argument is not None
        form = _read(query.argument.sql)
        scale = ROWS if query.aggregate == "mean" else 1
        value = sum(factor * self.values[key] for key, factor in form.items())
        noise = math.hypot(*(factor * self.noises[key] for key, factor in form.items()))
        return {(): Estimate(value / scale, Normal(noise / scale), "")}


def _table(correlation: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(1.5, 2, ROWS)
    y = 3 + 2 * (correlation * (x - 1.5) + math.sqrt(1 - correlation**2) * rng.normal(0, 2, ROWS))
    return x, y


def _coverage(
    correlation: float, noise: float, seeds: int
) -> tuple[dict[tuple[str, float], int], dict[str, int]]:
    """Return how many intervals hold the truth, by what is asked and level; and how many numbers
    there are.
    """
    x, y = _table(correlation)
    columns = {"x": x, "y": y}
    keys: list[tuple[str, ...]] = [("x",), ("y",), ("x", "x"), ("x", "y"), ("y", "y")]
    exact = {key: float(np.prod([columns[n] for n in key], axis=0).sum()) for key in keys}
    noises = {("x",): 8.0, ("y",): 16.0, ("x", "x"): 32.0, ("x", "y"): 64.0, ("y", "y"): 128.0}
    noises = {key: noise * each for key, each in noises.items()}
    slope, intercept = np.polyfit(x, y, 1)
    r = float(np.corrcoef(x, y)[0, 1])
    truths = {"slope": slope, "intercept": intercept, "corr": r, "r2": r * r}
    rng = np.random.default_rng(5)
    held = dict.fromkeys(product(WHAT, LEVELS), 0)
    answered = dict.fromkeys(WHAT, 0)
    for _ in range(seeds):
        drawn = {key: exact[key] + rng.normal(0, noises[key]) for key in keys}
        sums = Sums({(): float(ROWS), **drawn}, {(): 0.0, **noises})
        for what in WHAT:
            term = Term("regression", Y, option=what, second=X)
            found = Regression(cast(Selection, sums), term, ()).estimate()
            answered[what] += not math.isnan(found.value)
            for level in LEVELS:
                low, high = found.interval(level)
                held[what, level] += low <= truths[what] <= high
    return held, answered


def _check(correlation: float, noise: float, seeds: int) -> None:
    held, answered = _coverage(correlation, noise, seeds)
    for (what, level), many in held.items():
        assert many >= binom.ppf(FALSE_ALARM, seeds, level), (what, level, many)
        if noise <= 0.3 and what != "r2":
            # Products of errors, which intervals allow for, are 2 % of the errors here.
            most = binom.ppf(1 - FALSE_ALARM, seeds, min(level + 0.06, 1))
            assert many <= most, (what, level, many)
    assert noise > 1 or min(answered.values()) == seeds


@pytest.mark.parametrize("noise", [0.3, 8])
def test_intervals_hold(noise: float) -> None:
    _check(0.6, noise, 60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("noise", [5, 15])
@pytest.mark.parametrize("correlation", [-0.95, 0, 0.5])
def test_intervals_hold_everywhere(correlation: float, noise: float) -> None:
    """Up to so much noise that some tables have no number."""
    _check(correlation, noise, 100)
