"""How often the selector's choice is as good as the best method, on what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scumble.evaluate.dpbench import EPSILON, Shape, prefixes
from scumble.evaluate.dpbench_reference import Row
from scumble.releases.selection import select

NEAR = 0.05  # of log10 of the error


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


def records(rows: Sequence[Row], occupied: Mapping[str, float] | None = None) -> list[Record]:
    """A record for every dataset and scale at which the chosen method was measured; with
    `occupied`, the selector is told about which share of the cells of a dataset has rows.
    """
    known = occupied or {}
    chosen: dict[tuple[int, int, float | None], str] = {}
    found = []
    for dimensions, dataset, size in dict.fromkeys(
        (row["dimensions"], row["dataset"], row["rows"]) for row in rows
    ):
        here = {r["method"]: r for r in rows if (r["dataset"], r["rows"]) == (dataset, size)}
        key = dimensions, size, known.get(dataset)
        if key not in chosen:
            chosen[key] = _choice(*key)
        if chosen[key] in here:
            best = min(here.values(), key=lambda row: float(row["error"]))
            behind = float(here[chosen[key]]["error"]) - float(best["error"])
            found.append(Record(dataset, size, chosen[key], best["method"], behind))
    return found


def _choice(dimensions: int, size: int, occupied: float | None) -> str:
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
        occupied=occupied,
    ).method


def occupied(shapes: Sequence[Shape]) -> dict[str, float]:
    """Which share of the cells of each grid has rows, to one digit: what an owner may know."""
    shares = {s.name: float((s.shares > 0).mean()) for s in shapes if s.shares.ndim > 1}
    return {name: float(f"{part:.1g}") for name, part in shares.items()}


def sentence(found: Sequence[Record], told: str = "") -> str:
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
        f"The selector{told} is within {NEAR} of the best method in {near} of {len(found)} cases "
        f"({near / len(found):.0%}), {mean:.3f} behind in the mean"
        + (f"; not for {', '.join(missed)}." if missed else ".")
    )
