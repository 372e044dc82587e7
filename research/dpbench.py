"""DPBench's protocol (Hay et al., SIGMOD 2016): shapes of real histograms, drawn at several scales,
released by every method that fits, and the error of prefix sums or of random rectangles.

What is measured is what ships: the mechanism measures a table through the meter, writes its file,
and the estimates are read from the file.
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

from research.marginals import reconstruct
from scumble.model.errors import ParameterError, SchemaError, SourceError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary, create, mechanisms
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]
Step = Callable[[str], None]

EPSILON = 0.1
SCALES = (10**3, 10**4, 10**5, 10**6, 10**7)
METHODS = (
    "histogram", "hierarchy", "wavelet", "quadtree", "kdtree", "privtree", "grid", "mosaic", "dawa",
    "workload",
)  # fmt: skip
ONE, TWO = "dpbench_1d_histograms.csv", "dpbench_2d_histograms_256.csv.gz"
_RECTANGLES = 2000


@dataclass(frozen=True)
class Scale:
    """How large the benchmark is."""

    draws: int
    runs: int
    scales: tuple[int, ...] = SCALES
    datasets: tuple[str, ...] | None = None  # or all
    methods: tuple[str, ...] = METHODS


KNOWN = ("HEPTH", "INCOME", "ADULT", "NETTRACE", "SF-CABS-E", "GOWALLA", "STROKE")
FULL = Scale(5, 10)
QUICK = Scale(2, 2, (10**3, 10**5), KNOWN, tuple(m for m in METHODS if m != "workload"))


@dataclass(frozen=True, eq=False)
class Shape:
    """A real histogram, as probabilities of its cells."""

    name: str
    shares: Floats

    @property
    def schema(self) -> Schema:
        """Its attributes, x and for a grid y."""
        kinds = [IntegerRange(0, size - 1) for size in self.shares.shape]
        names = ["x", "y"][: len(kinds)]
        return Schema(tuple(Attribute(n, "quasi", k) for n, k in zip(names, kinds, strict=True)))

    def draw(self, scale: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
        """A table of `scale` rows with this shape."""
        generator = np.random.default_rng(list(seed))
        drawn = generator.multinomial(scale, self.shares.reshape(-1)).astype(np.int64)
        return drawn.reshape(self.shares.shape)


def shapes(folder: Path, names: Sequence[str] | None = None) -> list[Shape]:
    """The histograms of 4096 cells, and the grids of 256 × 256 cells, taken as 128 × 128."""
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


class Questions:
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
        """‖Wx − Wx̂‖₂ / (rows · questions)."""
        apart = self.answers(estimate - truth)
        return float(np.linalg.norm(apart) / (truth.sum() * len(apart)))


def fitting(shape: Shape, methods: Sequence[str], epsilon: float = EPSILON) -> dict[str, Summary]:
    """The methods that are there and can serve the attributes of a shape."""
    known, schema = mechanisms(), shape.schema
    found = {}
    for name in methods:
        if name not in known or (name == "workload" and len(schema.names) > 1):
            continue
        given: dict[str, Any] = {"epsilon": epsilon, "neighbours": "add_remove"}
        if name == "workload":
            given["queries"] = prefixes(shape.shares.size)
        try:
            mechanism = create(name, attributes=list(schema.names), **given)
            mechanism.check(schema)
        except (ParameterError, SchemaError):
            continue
        if isinstance(mechanism, Summary):
            found[name] = mechanism
    return found


def prefixes(size: int) -> list[str]:
    """The questions of one dimension as SQL."""
    return [f"SELECT COUNT(*) FROM t WHERE x <= {last}" for last in range(size)]


def released(mechanism: Summary, schema: Schema, counts: Any, noise: Keystream) -> Floats:
    """The estimates of all cells from a release of known counts."""
    table = PrivateTable(
        TensorCounter(schema, schema.names, counts), BudgetAccount(mechanism.promise), noise
    )
    with tempfile.TemporaryDirectory(prefix="scumble-") as folder:
        evidence = mechanism.measure(table, Path(folder))
        if not isinstance(evidence, Measurements):
            raise TypeError("a summary measures")
        return reconstruct(evidence, schema, Path(folder))


def benchmark(folder: Path, scale: Scale, step: Step, seed: int = 1) -> Iterator[Row]:
    """One row for each method, dataset and scale: the mean of log10 of the error over draws and
    runs, and its standard error.
    """
    kept: dict[int, dict[str, Summary]] = {}
    noise = Keystream(seed)
    for number, shape in enumerate(shapes(folder, scale.datasets)):
        dimensions = shape.shares.ndim
        if dimensions not in kept:
            step(f"{dimensions} dimensions: methods")
            kept[dimensions] = fitting(shape, scale.methods)
        questions, schema = Questions(shape.shares.shape), shape.schema
        for size in scale.scales:
            step(f"{shape.name}, {size:,} rows")
            tables = [shape.draw(size, (seed, number, size, k)) for k in range(scale.draws)]
            for name, mechanism in kept[dimensions].items():
                begin = time.process_time()
                errors = [
                    questions.error(table, released(mechanism, schema, table, noise))
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


# What is known of DPBench's errors, and how a measured one compares.
#
# The figures are means of log10 of the scaled error at ε = 0.1. The error of methods that add
# noise of one law to every table alike does not depend on the dataset: their figures hold for all
# of them.

_ROUNDING = 0.005  # of the figures
NAMES = {
    "histogram": "Identity",
    "hierarchy": "HB",
    "wavelet": "Privelet",
    "quadtree": "quadtree, geometric budget",
    "privtree": "PrivTree",
    "grid": "AG",
    "dawa": "DAWA",
}
_EVERY = {  # by method, dimensions and rows
    ("histogram", 1, 10**5): -4.16,
    ("hierarchy", 1, 10**3): -2.63,
    ("hierarchy", 1, 10**5): -4.63,
    ("wavelet", 1, 10**5): -4.52,
    ("hierarchy", 2, 10**4): -2.86,
    ("hierarchy", 2, 10**6): -4.86,
    ("quadtree", 2, 10**4): -2.82,
    ("quadtree", 2, 10**6): -4.82,
    ("wavelet", 2, 10**4): -2.56,
    ("wavelet", 2, 10**6): -4.56,
}
_ONE = {  # by method, dataset and rows
    ("dawa", "NETTRACE", 10**5): -4.83,
    ("privtree", "SF-CABS-E", 10**4): -3.77,
    ("privtree", "SF-CABS-E", 10**6): -5.53,
    ("privtree", "GOWALLA", 10**4): -3.44,
    ("privtree", "GOWALLA", 10**6): -4.97,
    ("privtree", "STROKE", 10**4): -3.31,
    ("privtree", "STROKE", 10**6): -4.59,
    ("grid", "SF-CABS-E", 10**4): -3.59,
    ("grid", "SF-CABS-E", 10**6): -5.20,
    ("grid", "GOWALLA", 10**4): -3.42,
    ("grid", "GOWALLA", 10**6): -5.16,
}


def reference(row: Row) -> float | None:
    """The figure for the method, dataset and scale of a row, if there is one."""
    found = _ONE.get((row["method"], row["dataset"], row["rows"]))
    return _EVERY.get((row["method"], row["dimensions"], row["rows"])) if found is None else found


@dataclass(frozen=True)
class Verdict:
    """A measured error beside its reference."""

    row: Row
    known: float

    @property
    def good(self) -> bool:
        """At least as good, or not significantly worse."""
        return bool(self.row["error"] <= self.known + self._slack)

    @property
    def word(self) -> str:
        better = self.row["error"] < self.known - self._slack
        return "better" if better else "as good" if self.good else "worse"

    @property
    def _slack(self) -> float:
        """Two standard errors; of few trials as many more as Student's law has for the same
        odds.
        """
        from scipy.special import stdtrit

        times = float(stdtrit(self.row["trials"] - 1, 0.97725))
        return _ROUNDING + times * float(self.row["stderr"])

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row['method']} on {row['dataset']}, {row['rows']:,} rows: {row['error']:.2f} "
            f"± {row['stderr']:.2f}, reference {self.known:.2f} ({NAMES[row['method']]}): "
            f"{self.word}"
        )


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """A verdict for every row that has a reference."""
    for row in rows:
        known = reference(row)
        if known is not None:
            yield Verdict(row, known)
