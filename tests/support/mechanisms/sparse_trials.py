"""What tests of sparse releases share: small tables behind the meter, the laws of the rules by
definition, and the sums that an answer is made of, worked out without SQL.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

import scumble as sc
from scumble.families.histogram.design import NoiseTails, Rule, Sparse
from scumble.families.histogram.publish import PrivateCells, SelectedCells
from scumble.families.histogram.read.sparse import Amounts, SparseError, empty_cell
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter


def behind_the_meter(
    counts: list[int] | np.ndarray, source: Keystream, promise: Fraction | int = 10**9
) -> PrivateCells:
    """One attribute, whose values have these counts."""
    account = BudgetAccount(PrivacyLoss(Fraction(promise)))
    table = PrivateTable(_counter(tuple(map(int, counts))), account, source)
    return PrivateCells(table, ["a"], PrivacyUnit("add_remove"))


@lru_cache(maxsize=4)
def _counter(counts: tuple[int, ...]) -> TensorCounter:
    schema = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, len(counts) - 1))])
    return TensorCounter(schema, ["a"], np.array(counts, np.int64))


def pmf(scale: float, value: Any) -> Any:
    """The probability of a noise, or of each of an array of them."""
    ratio = math.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** abs(value)


def kept(rule: Literal["filter", "threshold"], limit: int, value: int) -> float:
    """The probability that a noisy count is published, by definition."""
    return float(value >= limit) if rule == "filter" else min(abs(value) / limit, 1.0)


def cell_law(
    rule: Literal["filter", "threshold"], limit: int, scale: float, count: int, reach: int = 60
) -> dict[int | None, float]:
    """P(what is published of a cell): a noisy count, or nothing (None)."""
    law: dict[int | None, float] = {
        value: pmf(scale, value - count) * kept(rule, limit, value)
        for value in range(-reach, reach + 1)
    }
    law = {value: chance for value, chance in law.items() if chance}
    return {**law, None: 1 - sum(law.values())}


def design(
    rule: Rule, law: DiscreteLaplace, *, theta: int = 0, tau: Fraction | int = 0, total: int = 0
) -> Sparse:
    noise = DiscreteLaplace(19 * law.scale)
    return Sparse(rule, law, "count", "weight", theta, Fraction(tau), total, noise)


def amounts(
    made: Sparse, found: SelectedCells, inside: np.ndarray, amount: np.ndarray | None = None
) -> Amounts:
    """The sums over the cells of a condition, given for every cell of the domain."""
    amount = np.ones(len(inside)) if amount is None else amount
    shown = found.keys.astype(int)
    use = inside[shown]
    g, v, w = amount[shown][use], found.counts[use].astype(float), found.weights[use]
    tau, empty = float(made.tau), empty_cell(made)
    sampled = np.abs(v) < tau
    close = made.theta + 3 * (1 + NoiseTails(made.noise).mean) if made.theta else 0
    kinds = [
        w,
        v,
        np.ones(len(v)),
        w / v,
        np.where(sampled, (v + empty.shift) ** 2 * tau * (tau - np.abs(v)) / v**2, 0),
        ~sampled,
        np.where(v < close, w, 0),
    ]
    powers = np.arange(3)
    cells = (amount[inside][:, None] ** powers).sum(axis=0)
    sums = np.array(kinds) @ g[:, None] ** powers
    value = sums[0] - empty.shift * (cells - sums[3])
    possible = amount[inside]
    return Amounts(np.array([value, *sums[1:], cells]), possible.min(), possible.max())


def error(made: Sparse, found: SelectedCells, cells: int, total: int) -> SparseError:
    whole = amounts(made, found, np.ones(cells, bool)).spread()
    return SparseError(replace(made, total=total), whole)
