"""The results of the study of honest intervals: coverage and half-width where boxes are cut, and
how often the selector's choice has the shortest intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from research.honest import Answers, Cell
from research.study import Row
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.recommend import recommend

if TYPE_CHECKING:
    from rich.table import Table

NEAR = 1.1  # times the best half-width
# The constants of the selector were fitted to every third dataset, in the order of the files.
FITTED = (
    "HEPTH", "MEDCOST", "SEARCHLOGS", "BIDS-ALL", "LC-REQ-F1", "LC-DTIR-F1",
    "BJ-CABS-E", "SF-CABS-E", "TWITTER", "MDSALARY-2D",
)  # fmt: skip


def summary(cells: Sequence[Cell]) -> list[Row]:
    """Return coverage and median half-width of the answers that cut boxes, by method and tables."""
    found = []
    for name in dict.fromkeys(cell.method for cell in cells):
        for kind in dict.fromkeys(cell.kind for cell in cells):
            some = [c.answers for c in cells if (c.method, c.kind) == (name, kind)]
            if not some or not (pooled := Answers.joined(some)).cut.any():
                continue
            cut = pooled.cut
            found.append(
                {
                    "method": name,
                    "tables": kind,
                    "cut answers": int(cut.sum()),
                    "coverage before": float(pooled.noise_holds[cut].mean()),
                    "coverage now": float(pooled.holds[cut].mean()),
                    "half before": float(np.median(pooled.noise_half[cut])),
                    "half now": float(np.median(pooled.half[cut])),
                }
            )
    return found


@dataclass(frozen=True)
class Choice:
    """The selector's choice for a table, and its half-width divided by the best one."""

    table: str
    kind: str
    fitted: bool
    method: str
    behind: float


def choices(cells: Sequence[Cell], *, occupied: bool) -> list[Choice]:
    """Return a choice for every table and ε; with `occupied` the selector knows that share."""
    found = []
    for key in dict.fromkeys((c.table, c.epsilon) for c in cells):
        here = {c.method: c for c in cells if (c.table, c.epsilon) == key}
        one = next(iter(here.values()))
        names = "xy"[: len(one.shape)]
        sizes = dict(zip(names, one.shape, strict=True))
        schema = Schema(
            tuple(Attribute(n, "quasi", IntegerRange(0, size - 1)) for n, size in sizes.items())
        )
        share = one.occupied if occupied else None
        chosen = recommend(
            schema, attributes=list(names), rows=one.rows, epsilon=one.epsilon,
            neighbours=one.neighbours, occupied=share,
        ).best.method  # fmt: skip
        behind = here[chosen].half / min(cell.half for cell in here.values())
        dataset = one.table.rpartition(" ")[0]
        found.append(Choice(one.table, one.kind, dataset in FITTED, chosen, behind))
    return found


def sentences(cells: Sequence[Cell]) -> list[str]:
    """Say how often the selector's choice is near the best half-width, by kind of tables."""
    said = []
    for occupied in (True, False):
        found = choices(cells, occupied=occupied)
        groups = {
            "the datasets of the fit": [c for c in found if c.fitted],
            "the other datasets of DPBench": [
                c for c in found if not c.fitted and c.kind != "adult"
            ],
            "Adult": [c for c in found if c.kind == "adult"],
        }
        known = "knows" if occupied else "does not know"
        for words, some in groups.items():
            if some:
                near = sum(c.behind <= NEAR for c in some)
                mean = float(np.exp(np.mean([np.log(c.behind) for c in some])))
                said.append(
                    f"Where it {known} the share of occupied cells, the selector is within 10 % of "
                    f"the shortest intervals in {near} of {len(some)} cases of {words}; "
                    f"{mean:.2f} times the shortest in the mean."
                )
    return [*said, _ceiling(cells)]


def _ceiling(cells: Sequence[Cell]) -> str:
    """Say how often the best rule would be near that knows domain, rows and ε only."""
    near = total = 0
    drawn = [c for c in cells if c.kind != "adult"]
    for key in dict.fromkeys((c.shape, c.rows, c.epsilon) for c in drawn):
        here = [c for c in drawn if (c.shape, c.rows, c.epsilon) == key]
        best = {
            table: min(c.half for c in here if c.table == table)
            for table in dict.fromkeys(c.table for c in here)
        }
        counted = {
            name: sum(c.half <= NEAR * best[c.table] for c in here if c.method == name)
            for name in dict.fromkeys(c.method for c in here)
        }
        near, total = near + max(counted.values()), total + len(best)
    return (
        "No rule that knows the domain, the number of rows and ε only can be within 10 % in more "
        f"than {near} of these {total} cases of DPBench: the best method depends on the data."
    )


def as_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    words = "Intervals of 95 % where ranges cut boxes; before: of the noise alone"
    table = Table(title=words, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(name, justify="left" if name in ("method", "tables") else "right")
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    return table


def _cell(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1%}" if name.startswith("coverage") else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
