"""Frugal: a toy mechanism in one file, as a developer would add one to a family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scumble.families.histogram.design import Cells
from scumble.families.histogram.publish import write_cells
from scumble.model.evidence.evidence import Measurements
from scumble.model.parameters import free_name
from scumble.model.privacy.guarantee import read_share
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import AttributeSummary


@dataclass(kw_only=True, eq=False, repr=False)
class Frugal(AttributeSummary):
    """Publishes a noisy count of every cell, and spends only a part of its budget.

    Parameters:
        spend: part of epsilon that is spent.

    Promises: ε-DP of the whole release. Proof: the cells are disjoint, and the noise of a Histogram
        with `spend` times ε is a fortiori ε-DP.
    Estimate: the sum of the noisy cells that satisfy the condition; unbiased, of known noise.
    Reference: Dwork, McSherry, Nissim, Smith, TCC 2006, as for Histogram.
    Differs: it has more noise than a Histogram of the same ε, for no good reason at all.
    """

    name = "frugal"

    spend: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._spent = read_share("Frugal", "spend", self.spend) * self.promise.epsilon

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        counts, law = table.noisy_counts(self.names, self.unit, epsilon=self._spent)
        count = free_name("count", self.names)
        write_cells(folder / "cells.parquet", table.schema, self.names, count, counts)
        return Measurements("cells.parquet", self.names, Cells(count, law))
