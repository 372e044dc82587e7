"""Recorded runs on neighbouring tables.

What a summary publishes of a table, run after run: the whole mechanism, and its file read back
as a line of numbers. Trees, whose runs are the slowest, are taken before they are written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.designs.box_tree import BoxNodes
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.noise import NoiseLaw, NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

Floats = npt.NDArray[np.float64]

_DEPTH = 4  # boxes of a tree that are looked at, from the smallest up


def published(
    mechanism: Summary, schema: Schema, counts: Counts, runs: int, noise: Keystream
) -> Floats:
    """So many releases of a table with these counts, one a line."""
    names = mechanism.parameters["attributes"]
    counter = TensorCounter(schema, names, counts)
    found = []
    folder = Path(tempfile.mkdtemp(prefix="scumble-audit-"))
    try:
        for _ in range(runs):
            table = PrivateTable(counter, BudgetAccount(mechanism.promise), noise)
            if grow := getattr(mechanism, "grow", None):
                tree, _ = grow(table)
                found.append(_paths(tree, schema, names))
            else:
                found.append(_line(mechanism.measure(table, folder), folder, schema, names))
    finally:
        shutil.rmtree(folder)
    return np.array(found)


def _line(evidence: Evidence, folder: Path, schema: Schema, names: Sequence[str]) -> list[float]:
    if not isinstance(evidence, Measurements):
        raise TypeError("a summary publishes measurements")
    table = pq.read_table(folder / evidence.file, use_threads=False)
    told = [float(getattr(evidence.design, name, None) or 0) for name in ("total", "tau")]
    if all(name in table.column_names for name in names):
        return [*_cells(table, schema, names), *told]
    columns = [table[name].to_numpy() for name in table.column_names]
    numbers = [column for column in columns if column.dtype.kind in "iuf"]
    return [*np.concatenate(numbers).astype(np.float64).tolist(), *told]


def _cells(table: pa.Table, schema: Schema, names: Sequence[str]) -> list[float]:
    """Every cell of the domain: whether it is there, and its numbers."""
    codes = [schema[name].encode(table[name])[0] for name in names]
    keys = schema.cell_keys(names).pack(codes).astype(np.int64)
    size = schema.size(names)
    found = []
    for name in [None, *(name for name in table.column_names if name not in names)]:
        column = np.zeros(size)
        column[keys] = 1.0 if name is None else table[name].to_numpy()
        found += column.tolist()
    return found


def _paths(tree: BoxNodes, schema: Schema, names: Sequence[str]) -> list[float]:
    """The boxes that hold the first and the last cell of the domain: their sizes and counts."""
    ends = np.array([schema[name].size - 1 for name in names])
    found: list[Any] = []
    for cell in (np.zeros_like(ends), ends):
        inside = (tree.boxes.low <= cell[:, None]) & (cell[:, None] <= tree.boxes.high)
        path = np.flatnonzero(inside.all(axis=0))
        path = np.pad(path, (_DEPTH, 0), mode="edge")[-_DEPTH:]
        found += [*tree.boxes.cells[path].tolist(), *tree.noisy[path].tolist()]
    return [float(number) for number in found]


# What a summary measures, before and after its noise: the exact loss between two tables, and many
# runs at once.
#
# A summary whose plan does not depend on the data is a list of numbers with independent noise.
# Run on two neighbouring tables it measures the same list with other numbers, so its loss is
# known exactly; and its outputs can be drawn a million times without planning a million times.

Counts = npt.NDArray[np.int64]


How = Literal["sums", "cells", "splits", "least", "costs", "chosen"]


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One randomised step of a measurement: its true numbers, its noise, and what it decided.

    `how` tells the kind of step. "sums": every number is published with noise of its own. "cells":
    the counts of all cells of a domain get noise; those at the keys `places` have rows, and what is
    published depends on the noisy counts alone. "splits": `chosen` tells which numbers were above 0
    after noise. "least": the numbers are lists that begin at `places`, and `chosen` holds the place
    of the least number of each after geometric noise was subtracted. "costs": the cheapest sum of
    some of the numbers decides; the decision is the "chosen" step that follows.
    """

    how: How
    numbers: npt.NDArray[Any]
    law: DiscreteLaplace | DiscreteGaussian
    chosen: npt.NDArray[Any] | None = None
    places: npt.NDArray[Any] | None = None


class RecordedSteps(NoisySteps):
    """The meter's randomised steps, and a list of the true numbers that each of them hides."""

    def __init__(self, source: Keystream) -> None:
        super().__init__(source)
        self.steps: list[RecordedStep] = []

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        self.steps.append(RecordedStep("sums", numbers.copy(), law))
        super().add(numbers, law)

    def cells(self, keys: npt.NDArray[np.uint64], counts: Counts, law: DiscreteLaplace) -> Counts:
        self.steps.append(RecordedStep("cells", counts.copy(), law, places=keys.copy()))
        return super().cells(keys, counts, law)

    def above_zero(
        self, numbers: Counts, law: DiscreteLaplace, open_: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        above = super().above_zero(numbers, law, open_)
        self.steps.append(RecordedStep("splits", numbers[open_], law, above[open_]))
        return above

    def least(self, scores: Counts, starts: Counts, law: DiscreteLaplace) -> Counts:
        places = super().least(scores, starts, law)
        self.steps.append(RecordedStep("least", scores.copy(), law, places, starts.copy()))
        return places

    def cheapest(
        self, costs: Counts, law: DiscreteLaplace, choose: Callable[[Counts], Counts]
    ) -> Counts:
        self.steps.append(RecordedStep("costs", costs.copy(), law))
        chosen = super().cheapest(costs, law, choose)
        self.steps.append(RecordedStep("chosen", chosen.copy(), law))
        return chosen


class RecordedTable(PrivateTable):
    """A private table that records the randomised steps of its measurements in `steps`."""

    def _steps(self, source: Keystream) -> NoisySteps:
        recorded = RecordedSteps(source)
        self.steps = recorded.steps
        return recorded


def measured(
    mechanism: Summary, schema: Schema, names: Sequence[str], counts: Counts, seed: int = 0
) -> list[RecordedStep]:
    """What a summary looks at in a table with these counts, step by step."""
    account = BudgetAccount(mechanism.promise)
    table = RecordedTable(TensorCounter(schema, names, counts), account, Keystream(seed))
    if grow := getattr(mechanism, "grow", None):
        grow(table)
        return table.steps
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        mechanism.measure(table, Path(folder))
    return table.steps


@dataclass(frozen=True)
class Spent:
    """The exact loss between two tables: pure ε of the Laplace noise, ρ of the Gaussian."""

    epsilon: Fraction
    rho: Fraction


def spent(one: Sequence[RecordedStep], other: Sequence[RecordedStep]) -> Spent | None:
    """The loss of one list of numbers against another; None if they are not the same list, as when
    the plan depends on the data.
    """
    plans = [[(each.how, each.law, each.numbers.shape) for each in two] for two in (one, other)]
    if plans[0] != plans[1] or any(each.how != "sums" for each in one):
        return None
    epsilon = rho = Fraction(0)
    for first, second in zip(one, other, strict=True):
        gaps = [abs(int(gap)) for gap in (first.numbers - second.numbers).ravel().tolist()]
        if isinstance(first.law, DiscreteLaplace):
            epsilon += sum(gaps) / first.law.scale
        else:
            rho += sum(gap * gap for gap in gaps) / (2 * first.law.parameter)
    return Spent(epsilon, rho)


def outputs(
    measured: Sequence[RecordedStep], runs: int, noise: Keystream
) -> npt.NDArray[np.float64]:
    """So many runs of one list of numbers, each with noise of its own, drawn as a release does."""
    columns = []
    for each in measured:
        tiled = np.tile(each.numbers.ravel().astype(np.int64), runs)
        NoisySteps(noise).add(tiled, each.law)
        columns.append(tiled.reshape(runs, -1).astype(np.float64))
    return np.concatenate(columns, axis=1)


# Pairs of neighbouring tables, where a mechanism may be at its worst.

_FEW, _MANY = 4, 20
_OFFSET = 10**9


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables that differ in one person, as the counts of all cells."""

    words: str
    one: Counts
    other: Counts


def backgrounds(cells: int) -> dict[str, Counts]:
    """What else may be in a table: nobody, one record, the same record a few or many times, one of
    each kind, and so many at the ends of the domain that small numbers could get lost.
    """
    nobody: Counts = np.zeros(cells, np.int64)
    record, few, many, offset = (nobody.copy() for _ in range(4))
    record[0], few[-1], many[-1], offset[[0, -1]] = 1, _FEW, _MANY, _OFFSET
    return {
        "nobody else": nobody,
        "one record": record,
        "a few equal records": few,
        "equal records": many,
        "a record of each kind": np.ones(cells, np.int64),
        "large counts": offset,
    }


def changes(
    counts: Counts, places: Sequence[int], relation: str, rows: int
) -> Iterator[tuple[Counts, Counts]]:
    """A table and its neighbours by a person who has all rows in one of some cells."""
    moved = [counts.copy() for _ in places]
    for table, place in zip(moved, places, strict=True):
        table[place] += rows
    if relation == "add_remove":
        yield from ((counts, table) for table in moved)
    else:
        yield from ((one, two) for number, one in enumerate(moved) for two in moved[:number])


def pairs(cells: int, relation: str, rows: int) -> Iterator[Pair]:
    """Pairs whose person is at an end of the domain, or goes from one to the other."""
    for words, counts in backgrounds(cells).items():
        for one, other in changes(counts, [0, cells - 1], relation, rows):
            yield Pair(words, one, other)
