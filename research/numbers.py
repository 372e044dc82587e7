"""Amounts of money: how much worse limits for budget are than the best limits of the same grid, and
averages of groups than one sum for each group alone.

`python -m research numbers --data FOLDER` prints the table; the folder has the files of `TABLES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

import scumble as sc
from scumble.model.schema.numbers import UnlimitedNumber
from scumble.private.limits import grid_of, private_limits

Floats = npt.NDArray[np.float64]

# Who is asked about: the columns of the sexes and of the ages, by file.
PEOPLE = {
    "adult_full_48842.csv.gz": ("sex", "age"),
    "census_income_kdd_299285.csv.gz": ("sex", "age"),
    "nhanes_2017_2018_8366.csv": ("Gender", "AgeInYearsAtScreening"),
}
# Limits that somebody might choose who knows what the columns are.
AMOUNTS = (
    ("adult_full_48842.csv.gz", "capital-gain", 100_000),
    ("adult_full_48842.csv.gz", "hours-per-week", 100),
    ("census_income_kdd_299285.csv.gz", "wage_per_hour", 5_000),
    ("nhanes_2017_2018_8366.csv", "AnnualHouseholdIncome", 100_000),
)
SHARE, RELEASES = 0.5, 20
YEARS, AGES = 5, 20  # of a group, and groups
WANTED = {"sex": 1.15, "age": 1.2}  # times the half-width of one sum alone

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


@dataclass(frozen=True)
class AverageFigure:
    """The half-width of averages of groups at 95 %, the median of all groups and releases: as a
    multiple of that of one sum alone, and as a share of the average. `held` is the share of the
    intervals that hold the truth.
    """

    table: str
    column: str
    groups: str
    rows: int
    ratio: float
    of_mean: float
    held: float


def study_averages(path: Path, column: str, most: int, releases: int) -> list[AverageFigure]:
    """Publish sums by sex, and by 20 ages, at ε = 1 for people who are replaced.

    The best single sum of clamped amounts of a group has Laplace noise of the width of the limits
    over its share of ε, and is divided by the true number of rows, at no cost. That share is half
    of ε: the release tells the counts as well, for which a single sum would leave the other half.
    """
    sex, age = PEOPLE[path.name]
    convert = pa.csv.ConvertOptions(include_columns=[column, sex, age])
    table = pa.csv.read_csv(path, convert_options=convert)
    table = table.filter(table[column].is_valid())
    amounts = np.clip(table[column].to_numpy().astype(np.float64), 0, most)
    sexes = np.array(table[sex].to_pylist(), str)
    ages = np.minimum(table[age].to_numpy().astype(np.int64) // YEARS, AGES - 1)
    found = []
    for groups, values, domain in (
        ("sex", sexes, sc.Category(tuple(sorted(set(sexes.tolist()))))),
        ("age", ages, sc.IntegerRange(0, AGES - 1)),
    ):
        amount = sc.Attribute("amount", "sensitive", sc.Number(0, most))
        schema = sc.Schema((sc.Attribute("g", "quasi", domain), amount), sc.Unit())
        mechanism = sc.Histogram(["g"], sums=["amount"], epsilon=1, neighbours="replace")
        people, ratios, shares, held = pa.table({"g": values, "amount": amounts}), [], [], []
        for seed in range(releases):
            release = sc.publish(people, schema, mechanism, options=sc.PublishOptions(seed=seed))
            answers: Any = release.ask("SELECT g, AVG(amount) FROM t GROUP BY g")
            for (group,), each in dict(answers.rows).items():
                own = amounts[values == group]
                alone = np.log(20) * most / SHARE / max(len(own), 1)
                if not alone < most / 2:  # nothing is known of so few rows
                    continue
                low, high = each.interval(0.95)
                ratios.append((high - low) / 2 / alone)
                shares.append((high - low) / 2 / max(own.mean(), 1e-9))
                held.append(low <= own.mean() <= high)
        found.append(
            AverageFigure(
                path.name.partition(".")[0],
                column,
                groups,
                len(amounts),
                float(np.median(ratios)),
                float(np.median(shares)),
                float(np.mean(held)),
            )
        )
    return found
