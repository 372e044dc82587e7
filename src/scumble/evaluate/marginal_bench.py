"""All two-way and three-way marginals of two real tables, beside what is known of other systems.

The error of a marginal is the L1 distance between the shares of its cells and the true ones, from 0
to 2; of a release, its mean over all sets of attributes. Estimates come from the published file.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.attribute import Attribute
from scumble.engine.counter import RowCounter
from scumble.engine.rows import Rows
from scumble.errors import SourceError
from scumble.evidence import Measurements
from scumble.kinds import IntegerRange
from scumble.ledger import Account
from scumble.mechanism import Summary, create
from scumble.noise.source import Source
from scumble.private import PrivateTable
from scumble.schema import Schema

Row = dict[str, Any]
Step = Callable[[str], None]
Places = tuple[int, ...]

ADULT, DOMAIN, NLTCS = (
    "adult_coded_48842x14.csv.gz", "adult_coded_domain.json", "nltcs_21574x16.csv.gz",
)  # fmt: skip
REFERENCE = {  # on Adult with ε = 1, δ = 1e-9; by ways
    "all cells alike": {2: 1.534, 3: 1.765},
    "independent attributes": {2: 0.160, 3: 0.350},
    "MST, as published, 197 s": {2: 0.104, 3: 0.227},
    "MST on a tree, in numpy, 0.17 s": {2: 0.108, 3: 0.235},
}


def tables(folder: Path) -> dict[str, tuple[pa.Table, Schema]]:
    """Adult and NLTCS as codes."""
    from pyarrow import csv

    for file in (ADULT, DOMAIN, NLTCS):
        if not (folder / file).is_file():
            raise SourceError(f"There is no file {file} in {folder}: say --data FOLDER.")
    sizes = json.loads((folder / DOMAIN).read_text("utf-8"))
    adult, nltcs = csv.read_csv(folder / ADULT), csv.read_csv(folder / NLTCS)
    return {
        "adult": (adult, _schema(sizes)),
        "nltcs": (nltcs, _schema(dict.fromkeys(nltcs.column_names, 2))),
    }


def _schema(sizes: dict[str, int]) -> Schema:
    kinds = {name: IntegerRange(0, size - 1) for name, size in sizes.items()}
    return Schema(tuple(Attribute(name, "quasi", kind) for name, kind in kinds.items()))


def marginal_benchmark(folder: Path, step: Step, seed: int = 1) -> Iterator[Row]:
    """One row for each table, method, size of marginals and way to read them."""
    noise = Source(seed)
    for dataset, (table, schema) in tables(folder).items():
        names = list(schema.names)
        for ways in (2, 3):
            step(f"{dataset}, all {ways}-way marginals")
            given: dict[str, Any] = {"attributes": names, "ways": ways, "epsilon": 1}
            given["neighbours"] = "add_remove"
            methods = [("marginals", create("marginals", delta=1e-9, **given))]
            if dataset == "nltcs":
                methods.append(("fourier", create("fourier", **given)))
            truths = _truths(table, schema, ways)
            for name, mechanism in methods:
                if isinstance(mechanism, Summary):
                    for row in _measured(mechanism, table, schema, truths, noise):
                        yield {"method": name, "dataset": dataset, "ways": ways, **row}


def _measured(
    mechanism: Summary,
    table: pa.Table,
    schema: Schema,
    truths: dict[Places, npt.NDArray[np.int64]],
    noise: Source,
) -> Iterator[Row]:
    from scumble.designs.residual_solver import Solver
    from scumble.estimators.residual_fit import Fit

    begin = time.process_time()
    private = PrivateTable(RowCounter(Rows(table, schema)), Account(mechanism.promise), noise)
    with tempfile.TemporaryDirectory(prefix="scumble-") as place:
        evidence = mechanism.measure(private, Path(place))
        if not isinstance(evidence, Measurements):
            raise TypeError("a summary measures")
        design: Any = evidence.design
        numbers = pq.read_table(Path(place) / evidence.file)[design.count].to_numpy()
    solver = Solver(design, numbers)
    fit = Fit(solver)
    measured = time.process_time() - begin
    for reading, read in (("least squares", solver.marginal), ("non-negative", fit.table)):
        begin = time.process_time()
        errors = [_distance(read(places), truth) for places, truth in truths.items()]
        elapsed = measured + time.process_time() - begin
        yield {"reading": reading, "error": float(np.mean(errors)), "seconds": elapsed}


def _truths(table: pa.Table, schema: Schema, ways: int) -> dict[Places, npt.NDArray[np.int64]]:
    columns = [table[name].to_numpy().astype(np.int64) for name in schema.names]
    found = {}
    for places in combinations(range(len(columns)), ways):
        shape = [schema[schema.names[place]].size for place in places]
        codes = np.ravel_multi_index([columns[place] for place in places], shape)
        found[places] = np.bincount(codes, minlength=int(np.prod(shape))).reshape(shape)
    return found


def _distance(estimate: npt.NDArray[np.float64], truth: npt.NDArray[np.int64]) -> float:
    """Between shares; an estimate without rows is as far as two tables can be."""
    total = float(estimate.sum())
    if total <= 0:
        return 2.0
    return float(np.abs(estimate / total - truth / truth.sum()).sum())
