"""How often the selector's choice is as good as the best method, on what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from research.dpbench import EPSILON, Shape, prefixes
from research.dpbench_reference import Row
from scumble.compare.selection import select

NEAR = 0.05  # of log10 of the error
# Their noise does not depend on the data, so that their errors in rows are one number for all
# datasets and scales: it is pooled.
FIXED = ("histogram", "hierarchy", "wavelet", "quadtree", "workload")


@dataclass(frozen=True)
class Record:
    """The choice for a dataset of some size, with its error and the least one."""

    dataset: str
    rows: int
    chosen: str
    best: str
    behind: float

    @property
    def near(self) -> bool:
        return self.behind <= NEAR


def records(rows: Sequence[Row]) -> list[Record]:
    """A record for every dataset and scale at which the chosen method was measured."""
    pooled = {
        (method, dimensions): _pooled(rows, method, dimensions)
        for method, dimensions in {(row["method"], row["dimensions"]) for row in rows}
        if method in FIXED
    }
    chosen: dict[tuple[int, int], str] = {}
    found = []
    for dimensions, dataset, size in dict.fromkeys(
        (row["dimensions"], row["dataset"], row["rows"]) for row in rows
    ):
        here = {
            row["method"]: float(row["error"])
            for row in rows
            if (row["dataset"], row["rows"]) == (dataset, size)
        }
        for method in here:
            if method in FIXED:
                here[method] = pooled[method, dimensions] - log10(size)
        key = dimensions, size
        if key not in chosen:
            chosen[key] = _choice(*key)
        if chosen[key] in here:
            best = min(here, key=lambda method: here[method])
            behind = here[chosen[key]] - here[best]
            found.append(Record(dataset, size, chosen[key], best, behind))
    return found


def _pooled(rows: Sequence[Row], method: str, dimensions: int) -> float:
    """The mean of log10 of the error in rows."""
    kept = [r for r in rows if (r["method"], r["dimensions"]) == (method, dimensions)]
    return float(np.mean([float(row["error"]) + log10(row["rows"]) for row in kept]))


def _choice(dimensions: int, size: int) -> str:
    """What the selector says, given the public shape, the number of rows and the questions; of the
    4096 prefix sums every sixteenth, to be quick.
    """
    cells = 4096 if dimensions == 1 else 128
    schema = Shape("any", np.ones((cells,) * dimensions)).schema
    return select(
        schema,
        schema.names,
        rows=size,
        epsilon=EPSILON,
        neighbours="add_remove",
        workload=prefixes(cells)[15::16] if dimensions == 1 else "ranges",
    ).method


def sentence(found: Sequence[Record]) -> str:
    """In how many cases the choice was near the best, and where it was not."""
    if not found:
        return "The methods that the selector chooses were not measured."
    near = sum(record.near for record in found)
    mean = float(np.mean([record.behind for record in found]))
    missed = [
        f"{r.dataset} {r.rows:,} ({r.chosen} {r.behind:.2f} behind {r.best})"
        for r in found
        if not r.near
    ]
    return (
        f"The selector is within {NEAR} of the best method in {near} of {len(found)} cases "
        f"({near / len(found):.0%}), {mean:.3f} behind in the mean"
        + (f"; not for {', '.join(missed)}." if missed else ".")
    )
