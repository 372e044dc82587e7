"""Amounts of money: how much worse limits for budget are than the best limits of the same grid.

`python -m research numbers --data FOLDER` prints the table; the folder has the files of `TABLES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

import scumble as sc
from scumble.model.schema.numbers import UnlimitedNumber
from scumble.private.limits import grid_of, private_limits

Floats = npt.NDArray[np.float64]

TABLES = {
    "adult_full_48842.csv.gz": "capital-gain",
    "census_income_kdd_299285.csv.gz": "wage_per_hour",
    "nhanes_2017_2018_8366.csv": "AnnualHouseholdIncome",
}
EPSILON = 0.1
SEEDS, QUICK = 100, 10
MOST = 1.5  # times the error with the best limits, as the median over seeds


@dataclass(frozen=True)
class LimitsFigure:
    """The error of a mean with limits for budget, as multiples of that with the best limits."""

    table: str
    column: str
    rows: int
    best: tuple[float, float]
    usual: tuple[float, float]
    median: float
    worst_tenth: float


def read_amounts(path: Path, column: str) -> Floats:
    """Return the amounts of a column that are not missing."""
    convert = pa.csv.ConvertOptions(include_columns=[column], column_types={column: pa.float64()})
    table = pa.csv.read_csv(path, convert_options=convert)
    return np.asarray(table.column(column).drop_null().to_numpy(), np.float64)


def error_of_mean(amounts: Floats, low: float, high: float) -> float:
    """Return the root mean square error of the mean of clamped amounts at `EPSILON`, if people are
    replaced: what clamping changes, and the noise of the sum.
    """
    bias = np.clip(amounts, low, high).mean() - amounts.mean()
    noise = np.sqrt(2) * (high - low) / EPSILON / len(amounts)
    return float(np.hypot(bias, noise))


def study_limits(path: Path, column: str, seeds: int) -> LimitsFigure:
    """Choose limits with many seeds, and compare with all limits of the grid."""
    amounts = read_amounts(path, column)
    attribute = sc.Attribute(column, "quasi", UnlimitedNumber())
    firsts, lasts = grid_of(attribute).ends()
    near = 10 * np.abs(amounts).max()
    lows, highs = (ends[np.abs(ends) <= near] for ends in (firsts[firsts <= 0], lasts[lasts >= 0]))
    pairs = [(low, high) for low, high in product(lows, highs) if low < high]
    best = min(pairs, key=lambda pair: error_of_mean(amounts, *pair))
    least = error_of_mean(amounts, *best)
    schema, table = sc.Schema((attribute,)), pa.table({column: amounts})
    chosen = []
    for seed in range(seeds):
        options = sc.PublishOptions(seed=seed)
        found = private_limits(table, schema, column, epsilon=EPSILON, options=options)
        chosen.append((found.low, found.high))
    ratios = [error_of_mean(amounts, *pair) / least for pair in chosen]
    return LimitsFigure(
        path.name.partition(".")[0],
        column,
        len(amounts),
        (float(best[0]), float(best[1])),
        max(set(chosen), key=chosen.count),
        float(np.median(ratios)),
        float(np.quantile(ratios, 0.9)),
    )
