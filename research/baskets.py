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
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from scumble.model.schema.lists import ListDomain

if TYPE_CHECKING:
    from rich.table import Table

Bits = npt.NDArray[np.uint8]
Set = frozenset[int]
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


class Truth:
    """The exact counts of sets of items, by one bit for each basket."""

    def __init__(self, baskets: list[str]) -> None:
        rows: dict[int, list[int]] = {}
        for number, text in enumerate(baskets):
            for item in set(map(int, text.split())):
                rows.setdefault(item, []).append(number)
        self.bits: dict[int, Bits] = {}
        for item, where in rows.items():
            has = np.zeros(len(baskets), bool)
            has[where] = True
            self.bits[item] = np.packbits(has)

    def count(self, items: Set) -> int:
        return _ones(np.bitwise_and.reduce([self.bits[item] for item in items]))

    def top(self, k: int) -> set[Set]:
        """Return the k most frequent sets; of equally frequent ones, shorter ones first."""
        counts = {item: _ones(bits) for item, bits in self.bits.items()}
        items = sorted(counts, key=lambda item: -counts[item])[:k]
        least, found = counts[items[-1]], dict[Set, int]()

        def extend(chosen: Set, bits: Bits | None, left: list[int]) -> None:
            nonlocal least
            if len(found) > 4 * k:  # sets that are rarer than k others need no extension
                least = sorted(found.values(), reverse=True)[k - 1]
                for rare in [each for each, count in found.items() if count < least]:
                    del found[rare]
            for place, item in enumerate(left):
                both = self.bits[item] if bits is None else bits & self.bits[item]
                if (count := _ones(both)) >= least:
                    found[chosen | {item}] = count
                    extend(chosen | {item}, both, left[place + 1 :])

        extend(frozenset(), None, items)
        ranked = sorted(found, key=lambda each: (-found[each], len(each), sorted(each)))
        return set(ranked[:k])


def _ones(bits: Bits) -> int:
    return int(np.unpackbits(bits).sum())


def study(data: Path, step: Callable[[str], None], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the mean and standard error of both measures for each setting."""
    files: dict[str, tuple[list[str], Truth]] = {}
    for name, k, epsilon, delta in SETTINGS:
        step(f"{name}, k = {k}, epsilon = {epsilon}, delta = {delta}")
        if name not in files:
            baskets = read(data / name)
            files[name] = baskets, Truth(baskets)
        baskets, truth = files[name]
        wanted = truth.top(k)
        members = sc.IntegerRange(min(truth.bits), max(truth.bits))
        schema = sc.Schema((sc.Attribute("items", "sensitive", ListDomain("set", members)),))
        mechanism = sc.Baskets(
            "items", top=k, epsilon=epsilon, delta=delta, neighbours="add_remove"
        )
        table, missed, errors, start = pa.table({"items": baskets}), [], [], time.process_time()
        for seed in range(seeds):
            top = sc.publish(table, schema, mechanism, seed=seed).top(k)
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
