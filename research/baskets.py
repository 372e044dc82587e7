"""Frequent sets of items on public files of baskets: how many of the most frequent sets are missed,
and how far their counts are off.

    python -m research baskets --data FOLDER

The false negative rate is the share of the k truly most frequent sets that are not among the k of
`release.top(k)`. The relative error is the median of |estimate - truth| / truth over these.
"""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.compare.lists import BasketTruth
from scumble.model.schema.lists import ListDomain

if TYPE_CHECKING:
    from rich.table import Table

DELTA = 1e-6
SETTINGS = (
    *(("fimi_mushroom.csv", k, epsilon, None) for k in (50, 100) for epsilon in (0.5, 1)),
    *(("fimi_retail.csv.gz", k, epsilon, None) for k in (50, 100) for epsilon in (0.5, 1)),
    *(("fimi_retail.csv.gz", k, epsilon, DELTA) for k in (50, 100) for epsilon in (0.5, 1)),
)


def read(path: Path) -> list[str]:
    """Return the column `items` of a file of baskets."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        return [row["items"] for row in csv.DictReader(file)]


def study(data: Path, step: Callable[[str], None], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the mean and standard error of both measures for each setting."""
    files: dict[str, tuple[list[str], BasketTruth]] = {}
    for name, k, epsilon, delta in SETTINGS:
        step(f"{name}, k = {k}, epsilon = {epsilon}, delta = {delta}")
        if name not in files:
            baskets = read(data / name)
            files[name] = baskets, BasketTruth(map(int, each.split()) for each in baskets)
        baskets, truth = files[name]
        wanted = set(truth.top(k))
        members = sc.IntegerRange(min(truth.bits), max(truth.bits))
        schema = sc.Schema((sc.Attribute("items", "sensitive", ListDomain("set", members)),))
        mechanism = sc.Baskets(
            "items", top=k, epsilon=epsilon, delta=delta, neighbours="add_remove"
        )
        table, missed, errors, start = pa.table({"items": baskets}), [], [], time.process_time()
        for seed in range(seeds):
            top = sc.publish(
                table, schema, mechanism, options=sc.PublishOptions(seed=seed)
            ).baskets.top(k)
            found = {frozenset(key[0]): each.value for key, each in top}
            missed.append(len(wanted - set(found)) / k)
            counts = {items: max(truth.count(items), 1) for items in found}
            errors.append(np.median([abs(found[s] - n) / n for s, n in counts.items()]))
        yield {
            "file": name,
            "k": k,
            "epsilon": epsilon,
            "delta": delta,
            "missed": _mean(missed),
            "error": _mean(errors),
            "seconds": (time.process_time() - start) / seeds,
        }


def _mean(numbers: list[Any]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1) / np.sqrt(len(numbers)))


def as_table(rows: list[dict[str, Any]]) -> Table:
    """Return the results as a table for the terminal."""
    from rich.table import Table

    table = Table("file", "k", "ε", "δ", "missed", "relative error", "CPU s")
    for row in rows:
        (missed, more), (error, less) = row["missed"], row["error"]
        table.add_row(
            row["file"],
            str(row["k"]),
            f"{row['epsilon']:g}",
            "" if row["delta"] is None else f"{row['delta']:g}",
            f"{missed:.3f} ± {more:.3f}",
            f"{error:.4f} ± {less:.4f}",
            f"{row['seconds']:.2f}",
        )
    return table
