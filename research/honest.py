"""What an interval that holds for every table costs: coverage and half-width, with and without
what cut boxes leave open.

Releases are made of tables with the shapes of DPBench and of Adult. Random ranges are asked, and
every answer has two intervals of 95 %: that of the noise alone, and the one that is printed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from research.dpbench import Shape, shapes
from research.study import Floats, Step
from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.errors import SourceError
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, Neighbours, PrivacyUnit
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary, create
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.bounds import Bounded
from scumble.public.estimation.interval_laws import noise_half_width
from scumble.public.estimation.measurements.readers import reader_of
from scumble.public.estimation.measurements.readings import (
    NoisyTotal,
    Reader,
    Weights,
    WeightTensor,
)
from scumble.public.sandbox import Sandbox

LEVEL = 0.95
ADULT = "adult_full_48842.csv.gz"
# Numbers of Adult, with the width of a bin; the products of two of them are its grids.
NUMBERS = {
    "age": 1,
    "hours-per-week": 1,
    "education-num": 1,
    "fnlwgt": 10_000,
    "capital-gain": 1_000,
    "capital-loss": 50,
}
GRIDS = 12
GROWN = ("dawa", "privtree", "mosaic", "grid", "kdtree", "pruned quadtree")
FIXED = ("histogram", "hierarchy", "wavelet", "quadtree")
_PRUNE = 8  # nodes with fewer than this many rows / ε are read as leaves


@dataclass(frozen=True)
class Scale:
    """How large the study is: rows of the drawn tables, releases of each, questions of each."""

    sizes: tuple[int, ...]
    runs: int
    questions: int
    epsilons: tuple[float, ...] = (0.1,)
    datasets: tuple[str, ...] | None = None
    neighbours: Neighbours = "add_remove"


FULL = Scale((10**3, 10**4, 10**5, 10**6), 2, 24)
QUICK = Scale((10**4,), 1, 30, datasets=("ADULT", "NETTRACE", "GOWALLA"))


@dataclass(frozen=True, eq=False)
class Table:
    """A table of counts to be released."""

    name: str
    counts: npt.NDArray[np.int64]

    @property
    def schema(self) -> Schema:
        return Shape(self.name, self.counts.astype(np.float64)).schema


class Ranges:
    """Random ranges of a line, or rectangles of a grid; the same for all methods."""

    def __init__(self, shape: Sequence[int], number: int, seed: int) -> None:
        generator = np.random.default_rng([seed, *shape])
        ends = [np.sort(generator.integers(0, size, (2, number)), axis=0) for size in shape]
        self.shape = tuple(shape)
        self.boxes = Boxes(np.stack([e[0] for e in ends]), np.stack([e[1] for e in ends]))

    def truths(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.boxes.sums(summed_area(counts))
        return found

    def __iter__(self) -> Iterator[Weights]:
        for place in range(len(self.boxes)):
            parts = []
            for axis, size in enumerate(self.shape):
                values = np.zeros(size)
                low, high = (int(e[axis, place]) for e in (self.boxes.low, self.boxes.high))
                values[low : high + 1] = 1.0
                parts.append(WeightTensor(("xy"[axis],), values))
            yield Weights(tuple(parts))


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to ranges: the error, half of each interval, and whether it holds the truth."""

    errors: Floats
    noise_half: Floats
    half: Floats
    noise_holds: npt.NDArray[np.bool_]
    holds: npt.NDArray[np.bool_]
    cut: npt.NDArray[np.bool_]

    @classmethod
    def joined(cls, several: Sequence[Answers]) -> Answers:
        names = ("errors", "noise_half", "half", "noise_holds", "holds", "cut")
        return cls(*(np.concatenate([getattr(each, n) for each in several]) for n in names))


def tables(folder: Path, scale: Scale, seed: int = 1) -> Iterator[Table]:
    """Yield a table for each shape of DPBench and size, and the grids of Adult."""
    for number, shape in enumerate(shapes(folder, scale.datasets)):
        for size in scale.sizes:
            yield Table(f"{shape.name} {size}", shape.draw(size, (seed, number, size)))
    yield from adult(folder)


def adult(folder: Path) -> Iterator[Table]:
    """Yield twelve products of two numbers of Adult as they are."""
    from pyarrow import csv

    if not (folder / ADULT).is_file():
        raise SourceError(f"There is no file {ADULT} in {folder}: say --data FOLDER.")
    people = csv.read_csv(folder / ADULT)
    codes = {}
    for name, width in NUMBERS.items():
        values = people[name].to_numpy()
        codes[name] = (values - values.min()) // width
    for one, other in list(combinations(NUMBERS, 2))[:GRIDS]:
        counts = np.zeros([int(codes[name].max()) + 1 for name in (one, other)], np.int64)
        np.add.at(counts, (codes[one], codes[other]), 1)
        yield Table(f"adult: {one}, {other}", counts)


def method(name: str, schema: Schema, epsilon: float, neighbours: Neighbours) -> Summary:
    """Return the mechanism that is called `name` here."""
    given: dict[str, Any] = {"epsilon": epsilon, "neighbours": neighbours}
    if name == "pruned quadtree":
        given["prune"] = round(_PRUNE / epsilon)
    known = name.removeprefix("pruned ")
    return cast(Summary, create(known, attributes=list(schema.names), **given))


def answers(table: Table, mechanism: Summary, ranges: Ranges, noise: Keystream) -> Answers:
    """Release a table and ask for all ranges."""
    schema, truths = table.schema, ranges.truths(table.counts)
    private = PrivateTable(
        TensorCounter(schema, schema.names, table.counts), BudgetAccount(mechanism.promise), noise
    )
    with tempfile.TemporaryDirectory(prefix="scumble-") as folder:
        evidence = mechanism.measure(private, Path(folder))
        if not isinstance(evidence, Measurements):
            raise TypeError("a summary measures")
        engine = Sandbox(schema, view=Path(folder) / evidence.file)
        reader = cast(Reader, reader_of(evidence, schema, engine))
        found = [
            _answer(reader, weights, truth) for weights, truth in zip(ranges, truths, strict=True)
        ]
    return Answers(*(np.array(column) for column in zip(*found, strict=True)))


def _answer(reader: Reader, weights: Weights, truth: int) -> tuple[float | bool, ...]:
    """Return the numbers of `Answers` for one question, by the laws of the release's answers."""
    reading = reader.read(weights)
    law = NoisyTotal(reading)
    noise = law.interval(reading.value, LEVEL)
    shown = noise
    if reading.low is not None:
        shown = Bounded(law, *reading.limits, 0.0).interval(reading.value, LEVEL)
    ends = [(high - low) / 2 for low, high in (noise, shown)]
    holds = [low <= truth <= high for low, high in (noise, shown)]
    return reading.value - truth, *ends, *holds, reading.low is not None


@dataclass(frozen=True, eq=False)
class Cell:
    """One table at one ε, released by one method: answers to its ranges."""

    table: str
    shape: tuple[int, ...]
    rows: int
    occupied: float  # share of the cells that have rows
    epsilon: float
    neighbours: Neighbours
    method: str
    answers: Answers

    @property
    def kind(self) -> str:
        name, colon, _ = self.table.partition(":")
        return name if colon else f"{len(self.shape)}-D"

    @property
    def half(self) -> float:
        """The mean half-width of the intervals that are printed."""
        return float(self.answers.half.mean())

    @property
    def error(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt((self.answers.errors**2).mean()))


def study(
    folder: Path, scale: Scale, step: Step, *, fixed: bool = False, seed: int = 1
) -> Iterator[Cell]:
    """Yield a cell for each table, ε and method that fits; with `fixed` also for methods whose
    noise does not depend on the data.
    """
    noise = Keystream(seed)
    known: dict[Any, Answers] = {}  # of fixed methods, by domain
    for table in tables(folder, scale, seed):
        shape, rows = table.counts.shape, int(table.counts.sum())
        ranges, occupied = Ranges(shape, scale.questions, seed), float((table.counts > 0).mean())
        for epsilon in scale.epsilons:
            step(f"{table.name}, ε = {epsilon:g}")
            for name in (*GROWN, *(FIXED if fixed else ())):
                if name == "dawa" and len(shape) > 1:
                    continue
                key = name, shape, epsilon
                found = known.get(key)
                if found is None:
                    found = _answered(table, name, epsilon, ranges, scale, noise)
                if name in FIXED:
                    known[key] = found
                who = scale.neighbours
                yield Cell(table.name, shape, rows, occupied, epsilon, who, name, found)


def _answered(
    table: Table, name: str, epsilon: float, ranges: Ranges, scale: Scale, noise: Keystream
) -> Answers:
    if name == "histogram":
        return _histogram(ranges, epsilon, scale.neighbours)
    mechanism = method(name, table.schema, epsilon, scale.neighbours)
    made = 1 if name in FIXED else scale.runs
    return Answers.joined([answers(table, mechanism, ranges, noise) for _ in range(made)])


def _histogram(ranges: Ranges, epsilon: float, neighbours: Neighbours) -> Answers:
    """Return what a histogram answers to ranges, by the law of its noise: nothing is drawn.

    If the number of rows is published, the noise of a range is that of its cells less its share of
    the noise of all cells.
    """
    person = PrivacyUnit(neighbours)
    law = DiscreteLaplace(Fraction(person.sensitivity) / Fraction(str(epsilon)))
    cells, every = ranges.boxes.cells.astype(np.float64), prod(ranges.shape)
    share = cells / every if person.keeps_rows else np.zeros(len(cells))
    squares = cells * (1 - share) ** 2 + (every - cells) * share**2
    fourths = cells * (1 - share) ** 4 + (every - cells) * share**4
    pairs = zip(squares.tolist(), fourths.tolist(), strict=True)
    half = np.array(
        [noise_half_width(s * law.variance, f * law.fourth, 1.0, LEVEL) for s, f in pairs]
    )
    true = np.ones(len(cells), bool)
    return Answers(np.sqrt(squares * law.variance), half, half, true, true, ~true)
