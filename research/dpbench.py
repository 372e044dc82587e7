"""DPBench's protocol (Hay et al., SIGMOD 2016): tables are drawn at several scales from the shapes
of real histograms and released by every method that fits; the errors of prefix sums, or of random
rectangles, are measured.

The code that users run is measured: the mechanism measures a table through the meter, writes its
file, and the estimates are read from the file.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from research.study import Floats, Row, Step
from scumble.model.errors import ParameterError, SchemaError, SourceError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary, mechanisms
from scumble.private.mechanism_metadata import ComparisonPreset
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

EPSILON = 0.1
SCALES = (10**3, 10**4, 10**5, 10**6, 10**7)
METHODS = tuple(
    name for name, kind in mechanisms().items() if issubclass(kind, Summary) and kind.for_ranges
)
ONE, TWO = "dpbench_1d_histograms.csv", "dpbench_2d_histograms_256.csv.gz"
_RECTANGLES = 2000


@dataclass(frozen=True)
class Scale:
    """How large the benchmark is."""

    draws: int
    runs: int
    scales: tuple[int, ...] = SCALES
    datasets: tuple[str, ...] | None = None  # None: all
    methods: tuple[str, ...] = METHODS


DATASETS = ("HEPTH", "INCOME", "ADULT", "NETTRACE", "SF-CABS-E", "GOWALLA", "STROKE")
FULL = Scale(5, 10)
QUICK = Scale(2, 2, (10**3, 10**5), DATASETS, tuple(m for m in METHODS if m != "workload"))


@dataclass(frozen=True, eq=False)
class Shape:
    """A real histogram, as probabilities of its cells."""

    name: str
    shares: Floats

    @property
    def schema(self) -> Schema:
        """The attributes: x, and y for a grid."""
        domains = [IntegerRange(0, size - 1) for size in self.shares.shape]
        return Schema(tuple(Attribute(n, "quasi", d) for n, d in zip("xy", domains, strict=False)))

    def draw(self, scale: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the counts of a random table of `scale` rows with this shape."""
        generator = np.random.default_rng(list(seed))
        drawn = generator.multinomial(scale, self.shares.reshape(-1)).astype(np.int64)
        return drawn.reshape(self.shares.shape)


def shapes(folder: Path, names: Sequence[str] | None = None) -> list[Shape]:
    """Return the histograms of 4096 cells and the grids, merged from 256 × 256 to 128 × 128 cells.

    `names` restricts them to some datasets.
    """
    from pyarrow import csv

    for file in (ONE, TWO):
        if not (folder / file).is_file():
            raise SourceError(f"There is no file {file} in {folder}: say --data FOLDER.")
    found = []
    lines = csv.read_csv(folder / ONE)
    for name in lines.column_names[1:]:
        found.append(_shape(name, lines[name].to_numpy()))
    grids = csv.read_csv(folder / TWO)
    dataset = np.array(grids["dataset"].to_pylist())
    columns = [grids[name].to_numpy() for name in ("x", "y", "count")]
    for name in dict.fromkeys(dataset.tolist()):
        x, y, count = (column[dataset == name] for column in columns)
        grid = np.zeros((128, 128))
        np.add.at(grid, (x // 2, y // 2), count)
        found.append(_shape(name, grid))
    return [shape for shape in found if names is None or shape.name in names]


def _shape(name: str, counts: npt.NDArray[Any]) -> Shape:
    return Shape(name, counts.astype(np.float64) / counts.sum())


class Workload:
    """All prefix sums of a histogram, or random rectangles of a grid."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self._ends: list[npt.NDArray[np.int64]] = []
        if len(shape) > 1:
            generator = np.random.default_rng(seed)
            for size in shape:
                corners = np.sort(generator.integers(0, size, (2, _RECTANGLES)), axis=0)
                self._ends += [corners[0], corners[1] + 1]

    def answers(self, tensor: Floats) -> Floats:
        if not self._ends:
            return np.cumsum(tensor)
        sums = np.zeros([size + 1 for size in tensor.shape])
        sums[1:, 1:] = tensor.cumsum(axis=0).cumsum(axis=1)
        left, right, low, high = self._ends
        return np.asarray(sums[right, high] - sums[left, high] - sums[right, low] + sums[left, low])

    def error(self, truth: npt.NDArray[np.int64], estimate: Floats) -> float:
        """Return ‖Wx − Wx̂‖₂ / (rows · questions)."""
        apart = self.answers(estimate - truth)
        return float(np.linalg.norm(apart) / (truth.sum() * len(apart)))


def fitting(shape: Shape, methods: Sequence[str], epsilon: float = EPSILON) -> dict[str, Summary]:
    """The methods that are there and can serve the attributes of a shape."""
    known, schema = mechanisms(), shape.schema
    queries = prefixes(shape.shares.size) if len(schema.names) == 1 else []
    study = ComparisonPreset(
        schema, tuple(schema.names), "add_remove", 1, tuple(queries), lambda: 0.0
    )
    found = {}
    for name in methods:
        if name not in known:
            continue
        try:
            mechanism = known[name].made_for(epsilon, study)
            mechanism.check(schema)
        except (ParameterError, SchemaError):
            continue
        if isinstance(mechanism, Summary):
            found[name] = mechanism
    return found


def prefixes(size: int) -> list[str]:
    """Return the prefix sums of an attribute x with `size` values, as SQL."""
    return [f"SELECT COUNT(*) FROM t WHERE x <= {last}" for last in range(size)]


def released(mechanism: Summary, schema: Schema, counts: Any, noise: Keystream) -> Floats:
    """Release known `counts` and return the estimates of all cells."""
    table = PrivateTable(
        TensorCounter(schema, schema.names, counts), BudgetAccount(mechanism.promise), noise
    )
    with tempfile.TemporaryDirectory(prefix="scumble-") as folder:
        evidence = mechanism.measure(table, Path(folder))
        if not isinstance(evidence, Measurements):
            raise TypeError("a summary measures")
        return reconstruct(evidence, schema, Path(folder))


def benchmark(folder: Path, scale: Scale, step: Step, seed: int = 1) -> Iterator[Row]:
    """Yield a row for each method, dataset and scale: the mean of log10 of the error over draws and
    runs, and its standard error.
    """
    kept: dict[int, dict[str, Summary]] = {}  # by number of dimensions
    noise = Keystream(seed)
    for number, shape in enumerate(shapes(folder, scale.datasets)):
        dimensions = shape.shares.ndim
        if dimensions not in kept:
            step(f"{dimensions} dimensions: methods")
            kept[dimensions] = fitting(shape, scale.methods)
        workload, schema = Workload(shape.shares.shape), shape.schema
        for size in scale.scales:
            step(f"{shape.name}, {size:,} rows")
            tables = [shape.draw(size, (seed, number, size, k)) for k in range(scale.draws)]
            for name, mechanism in kept[dimensions].items():
                begin = time.process_time()
                errors = [
                    workload.error(table, released(mechanism, schema, table, noise))
                    for table in tables
                    for _ in range(scale.runs)
                ]
                elapsed = time.process_time() - begin
                yield _row(name, shape, size, np.log10(errors), elapsed)


def _row(name: str, shape: Shape, size: int, errors: Floats, elapsed: float) -> Row:
    trials = len(errors)
    return {
        "method": name,
        "dataset": shape.name,
        "dimensions": shape.shares.ndim,
        "rows": size,
        "error": float(errors.mean()),
        "stderr": float(errors.std(ddof=1)) / trials**0.5 if trials > 1 else 0.0,
        "trials": trials,
        "milliseconds": 1000 * elapsed / trials,
    }


# The estimates of all cells of a release.


def reconstruct(evidence: Measurements, schema: Schema, folder: Path) -> Floats:
    """Return the estimated counts as a tensor over the attributes of the release.

    Counts of merged cells are spread evenly over the cells, as the release's answers do it.
    """
    table = pq.read_table(folder / evidence.file)
    shape = [schema[name].size for name in evidence.columns]
    return _DESIGNS[evidence.design.kind](evidence, table, shape)


def _cells(evidence: Any, table: pa.Table, shape: list[int]) -> Floats:
    found: Floats = table[evidence.design.count].to_numpy().astype(np.float64).reshape(shape)
    return found


def _product(evidence: Any, table: pa.Table, shape: list[int]) -> Floats:
    design = evidence.design
    groups = design.split(table.column(0).to_numpy())
    tensor: Floats = design.reconstruct(groups)
    sizes = [shape[evidence.columns.index(name)] for name in design.columns]
    order = [design.columns.index(name) for name in evidence.columns]
    return tensor.reshape(sizes).transpose(order)


def _regions(evidence: Any, table: pa.Table, shape: list[int]) -> Floats:
    from scumble.families.boxes.design.box_tree import BoxNodes
    from scumble.families.boxes.read import BoxTreeReader

    tree = BoxNodes.read(table, evidence.columns)
    reader = BoxTreeReader.of_tree(tree, evidence.columns, evidence.design)
    boxes = reader.leaves
    found: Floats = np.zeros(shape)
    density = reader.counts / boxes.cells
    single = boxes.cells == 1
    found[tuple(boxes.low[:, single])] = density[single]
    for place in np.flatnonzero(~single).tolist():
        ends = zip(boxes.low[:, place], boxes.high[:, place], strict=True)
        found[tuple(slice(low, high + 1) for low, high in ends)] = density[place]
    return found


def _matrix(evidence: Any, table: pa.Table, shape: list[int]) -> Floats:
    from scumble.model.designs.matrix import from_table

    merged = evidence.design.merged
    strategy, noisy = from_table(table, merged.cells)
    sizes = merged.total(_outer([block.sizes for block in merged.blocks]))
    by_class = (strategy.estimate(noisy) / sizes)[merged.labels].reshape(merged.shape)
    for axis, block in enumerate(merged.blocks):
        by_class = np.take(by_class, block.labels, axis)
    known = [shape[evidence.columns.index(name)] for name in merged.names]
    order = [merged.names.index(name) for name in evidence.columns if name in merged.names]
    tensor = by_class.reshape(known).transpose(order)
    others = [name not in merged.names for name in evidence.columns]
    spread = [1 if other else size for other, size in zip(others, shape, strict=True)]
    repeated = float(np.prod([s for s, other in zip(shape, others, strict=True) if other]))
    return np.array(np.broadcast_to(tensor.reshape(spread) / repeated, shape))


def _outer(parts: list[Floats]) -> Floats:
    found = parts[0]
    for part in parts[1:]:
        found = np.multiply.outer(found, part)
    return found


_DESIGNS: dict[str, Callable[[Any, pa.Table, list[int]], Floats]] = {
    "cells": _cells,
    "product": _product,
    "regions": _regions,
    "matrix": _matrix,
}
