"""Runs of summaries on neighbouring tables: whole releases as lines of numbers, the recorded steps
of a measurement, the exact loss between two records, and the tables themselves.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit import hooks
from scumble.audit.choices import MOST_SCORES
from scumble.model.designs.sides import Sides
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import Candidates
from scumble.private.tables.counter import CellCounter, ListCounter, TensorCounter

Floats = npt.NDArray[np.float64]


def publish_runs(
    mechanism: Summary, schema: Schema, counts: Counts, runs: int, noise: Keystream
) -> Floats:
    """Release a table with these counts `runs` times; return the numbers of each as a row."""
    names = measured_names(mechanism)
    counter = counter_of(mechanism, schema, counts)
    run_numbers = hooks.of_mechanism(mechanism.name, "run_numbers") or _run_numbers
    lines = []
    folder = Path(tempfile.mkdtemp(prefix="scumble-audit-"))
    try:
        for _ in range(runs):
            table = PrivateTable(counter, BudgetAccount(mechanism.promise), noise)
            lines.append(run_numbers(mechanism, table, folder, schema, names))
    finally:
        shutil.rmtree(folder)
    return np.array(lines)


def _run_numbers(
    mechanism: Summary, table: PrivateTable, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    """Release a table and return all numbers of the release."""
    evidence = mechanism.measure(table, folder)
    return file_numbers(cast(Measurements, evidence), folder, schema, names)


def file_numbers(
    evidence: Measurements, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    """Return all numbers in the files of measurements, and those that their design states.

    Where the file has cells of the attributes `names`, they are those of all cells of the domain.
    """
    parts = [each for one in evidence.sums for each in one.parts]
    told_by_sums = isinstance(evidence.design, Sides)
    own = [] if told_by_sums else _file_numbers(evidence, folder, schema, names)
    return own + [n for each in parts for n in _file_numbers(each, folder, schema, names)]


def _file_numbers(
    evidence: Measurements, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    table = pq.read_table(folder / evidence.file, use_threads=False)
    told = [float(getattr(evidence.design, name, None) or 0) for name in ("total", "tau")]
    if all(name in table.column_names for name in names):
        return [*_cells(table, schema, names), *told]
    columns = [table[name].to_numpy() for name in table.column_names]
    numbers = [column for column in columns if column.dtype.kind in "iuf"]
    return [*np.concatenate(numbers).astype(np.float64).tolist(), *told]


def _cells(table: pa.Table, schema: Schema, names: Sequence[str]) -> list[float]:
    """Return for every cell of the domain whether it is published, then its published numbers."""
    codes = [schema[name].encode(table[name])[0] for name in names]
    keys = schema.cell_keys(names).pack(codes).astype(np.int64)
    size = schema.size(names)
    found = []
    for name in [None, *(name for name in table.column_names if name not in names)]:
        column = np.zeros(size)
        column[keys] = 1.0 if name is None else table[name].to_numpy()
        found += column.tolist()
    return found


# Recorded steps. A summary whose plan does not depend on the data is a list of numbers with
# independent noise. On two neighbouring tables it measures the same list with other numbers, so its
# loss is known exactly, and its outputs can be drawn a million times without planning a million
# times.

Counts = npt.NDArray[np.int64]


StepKind = Literal[
    "sums", "cells", "splits", "children", "least", "costs", "chosen", "one of", "top"
]


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One randomised step of a measurement: its true numbers, its noise, and what it decided.

    `kind` tells the kind of step. "sums": every number is published with noise of its own. "cells":
    the counts of all cells of a domain get noise; those at the keys `places` have rows, and what is
    published depends on the noisy counts alone. "splits": `chosen` tells which numbers were above 0
    after noise. "children": the same for the keys `places`; all other keys have the number `floor`,
    and `chosen` holds the keys that were above 0. "least": the numbers are lists that begin at
    `places`, and `chosen` holds the place of the least number of each after geometric noise was
    subtracted. "chosen": the numbers are a choice that follows from earlier noisy numbers. "costs":
    the cheapest sum of some of the numbers decides; the decision is the "chosen" step that follows.
    "one of": permute-and-flip chose one of the numbers, with the scale of `law`. "top": `chosen`
    holds the places of the largest numbers after geometric noise, in falling order.
    """

    kind: StepKind
    numbers: npt.NDArray[Any]
    law: NoiseLaw
    chosen: npt.NDArray[Any] | None = None
    places: npt.NDArray[Any] | None = None
    floor: int = 0


class RecordedSteps(NoisySteps):
    """The meter's randomised steps, and a list of the true numbers that each of them hides."""

    def __init__(self, source: Keystream) -> None:
        super().__init__(source)
        self.steps: list[RecordedStep] = []

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        self.steps.append(RecordedStep("sums", numbers.copy(), law))
        super().add(numbers, law)

    def decide(self, chosen: npt.NDArray[Any], law: NoiseLaw) -> None:
        self.steps.append(RecordedStep("chosen", chosen.copy(), law))

    def cells(self, keys: npt.NDArray[np.uint64], counts: Counts, law: DiscreteLaplace) -> Counts:
        self.steps.append(RecordedStep("cells", counts.copy(), law, places=keys.copy()))
        return super().cells(keys, counts, law)

    def above_zero(
        self, numbers: Counts, law: DiscreteLaplace, open_: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        above = super().above_zero(numbers, law, open_)
        self.steps.append(RecordedStep("splits", numbers[open_], law, above[open_]))
        return above

    def split_children(
        self, keys: Counts, numbers: Counts, law: DiscreteLaplace, floor: int, size: int
    ) -> Counts:
        chosen = super().split_children(keys, numbers, law, floor, size)
        step = RecordedStep("children", numbers.copy(), law, chosen.copy(), keys.copy(), floor)
        self.steps.append(step)
        return chosen

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

    def one_of(self, scores: Counts, rate: Fraction) -> int:
        place = super().one_of(scores, rate)
        law = DiscreteLaplace(1 / rate)
        self.steps.append(RecordedStep("one of", scores.copy(), law, np.array([place])))
        return place

    def top(
        self, candidates: Candidates, k: int, *, sensitivity: int, epsilon: Fraction
    ) -> npt.NDArray[np.uint64]:
        found = super().top(candidates, k, sensitivity=sensitivity, epsilon=epsilon)
        scores = candidates.dense() if candidates.size <= MOST_SCORES else candidates.scores.copy()
        law = DiscreteLaplace(k * sensitivity / epsilon)
        self.steps.append(RecordedStep("top", scores, law, found.astype(np.int64)))
        return found


class RecordedTable(PrivateTable):
    """A private table that records the randomised steps of its measurements in `steps`."""

    def _steps(self, source: Keystream) -> NoisySteps:
        recorded = RecordedSteps(source)
        self.steps = recorded.steps
        return recorded


def record_steps(
    mechanism: Summary,
    schema: Schema,
    counts: Counts,
    seed: int = 0,
    names: Sequence[str] = (),
    amounts: Mapping[str, int] | None = None,
) -> list[RecordedStep]:
    """Return the steps of one measurement of a table with these counts.

    `names` are the attributes of the cells, if they are not those that the mechanism states, and
    `amounts` the codes that all rows have in the columns that are added up.
    """
    account = BudgetAccount(mechanism.promise)
    counter = counter_of(mechanism, schema, counts, names, amounts)
    table = RecordedTable(counter, account, Keystream(seed))
    grow = getattr(mechanism, "grow", None)
    if grow is not None and not mechanism.parameters.get("sums"):
        grow(table)
        return table.steps
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        mechanism.measure(table, Path(folder))
    return table.steps


@dataclass(frozen=True)
class ExactLoss:
    """The exact loss between two tables: ε of the Laplace noise, and ρ of the Gaussian noise."""

    epsilon: Fraction
    rho: Fraction


def exact_loss(one: Sequence[RecordedStep], other: Sequence[RecordedStep]) -> ExactLoss | None:
    """Return the loss between two records; None if their plans differ, or if a step does more than
    to publish sums.
    """
    plans = [[(each.kind, each.law, each.numbers.shape) for each in two] for two in (one, other)]
    if plans[0] != plans[1] or any(each.kind != "sums" for each in one):
        return None
    epsilon = rho = Fraction(0)
    for first, second in zip(one, other, strict=True):
        gaps = [abs(int(gap)) for gap in (first.numbers - second.numbers).ravel().tolist()]
        if isinstance(first.law, DiscreteLaplace):
            epsilon += sum(gaps) / first.law.scale
        else:
            rho += sum(gap * gap for gap in gaps) / (2 * first.law.parameter)
    return ExactLoss(epsilon, rho)


def draw_outputs(
    steps: Sequence[RecordedStep], runs: int, noise: Keystream
) -> npt.NDArray[np.float64]:
    """Draw the published numbers of `runs` runs of `steps`, with the samplers of a release."""
    columns = []
    for each in steps:
        tiled = np.tile(each.numbers.ravel().astype(np.int64), runs)
        NoisySteps(noise).add(tiled, each.law)
        columns.append(tiled.reshape(runs, -1).astype(np.float64))
    return np.concatenate(columns, axis=1)


# Pairs of neighbouring tables.

_FEW, _MANY = 4, 20
_OFFSET = 10**9
_MANY_LISTS = 72


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables that differ in one person, as the counts of all cells; `words` describes them."""

    words: str
    one: Counts
    other: Counts


def kinds_of(mechanism: Summary, schema: Schema) -> int:
    """Return how many kinds of rows a table of this schema may have: cells, or short lists."""
    return (
        len(short_lists(schema)) if mechanism.of_lists else schema.size(measured_names(mechanism))
    )


def counter_of(
    mechanism: Summary,
    schema: Schema,
    counts: Counts,
    names: Sequence[str] = (),
    amounts: Mapping[str, int] | None = None,
) -> CellCounter:
    """Return the table with these numbers of rows of each kind."""
    if mechanism.of_lists:
        return ListCounter(schema, short_lists(schema), counts)
    return TensorCounter(schema, names or measured_names(mechanism), counts, amounts)


def short_lists(schema: Schema) -> list[tuple[int, ...]]:
    """Return all lists of up to two members of the lists of a schema, the empty one first. Where
    several lists belong together, a code stands for one member of each.
    """
    domain = schema.lists[0].lists
    codes = range(prod(each.lists.members.size for each in schema.lists))
    pairs = combinations(codes, 2) if domain.kind == "set" else product(codes, repeat=2)
    return [(), *product(codes), *pairs]


def measured_names(mechanism: Summary) -> Sequence[str]:
    """Return the columns of the tables that it is tried on: those that it counts and adds up."""
    given = mechanism.parameters
    single = (given["attribute"],) if "attribute" in given else ()
    several = (name for kind in ("attributes", "groups", "sums") for name in given.get(kind, ()))
    return list(dict.fromkeys((*single, *several)))


def tables_of(mechanism: Summary, schema: Schema) -> dict[str, Counts]:
    """Return tables to which a person is added, by description; see `backgrounds`.

    Lists are counted one by one, so that large counts are smaller there.
    """
    kinds = kinds_of(mechanism, schema)
    return backgrounds(kinds, _MANY_LISTS if mechanism.of_lists else _OFFSET)


def backgrounds(cells: int, large: int = _OFFSET) -> dict[str, Counts]:
    """Return tables to which a person is added, by description.

    They hold nobody, one record, the same record a few or many times, a record in each cell, and
    counts so large at both ends of the domain that floating point could lose small numbers.
    """
    nobody: Counts = np.zeros(cells, np.int64)
    record, few, many, offset = (nobody.copy() for _ in range(4))
    record[0], few[-1], many[-1], offset[[0, -1]] = 1, _FEW, _MANY, large
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
    """Yield pairs of neighbours made from a table and a person whose `rows` rows are in one cell.

    The cell is one of `places`. The person is in one table of a pair for the relation "add_remove",
    and in another cell of each table for "replace".
    """
    moved = [counts.copy() for _ in places]
    for table, place in zip(moved, places, strict=True):
        table[place] += rows
    if relation == "add_remove":
        yield from ((counts, table) for table in moved)
    else:
        yield from ((one, two) for number, one in enumerate(moved) for two in moved[:number])


def pairs(tables: Mapping[str, Counts], relation: str, rows: int) -> Iterator[Pair]:
    """Yield pairs whose person is at an end of the domain, or moves from one end to the other."""
    for words, counts in tables.items():
        for one, other in changes(counts, [0, len(counts) - 1], relation, rows):
            yield Pair(words, one, other)
