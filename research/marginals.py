"""How far released marginals are from the true ones: mean L1 distances of normalised tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import QueryError, SourceError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, create
from scumble.private.publish import publish
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from scumble.public.release import Release

Tables = dict[tuple[str, ...], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class MarginalErrors:
    """Means over all sets of `ways` attributes of Σ |estimated share - true share|, from 0 to 2.

    `plain` is of the unbiased estimates (None if the release does not have them for every set) and
    `fitted` of the non-negative tables.
    """

    ways: int
    sets: int
    plain: float | None
    fitted: float
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One release, the seconds it took, and its errors."""

    release: Release
    seconds: float
    errors: tuple[MarginalErrors, ...]


def trial(
    source: Any,
    schema: Schema,
    mechanism: Mechanism,
    *,
    ways: Iterable[int] = (2, 3),
    seed: int | None = None,
) -> Trial:
    """Publish a table whose exact marginals may be known here, and compare."""
    begin = time.perf_counter()
    release = publish(source, schema, mechanism, seed=seed)
    seconds = time.perf_counter() - begin
    errors = tuple(_errors(release, true_marginals(source, schema, each)) for each in ways)
    return Trial(release, seconds, errors)


def true_marginals(source: Any, schema: Schema, ways: int) -> Tables:
    """The exact counts of all sets of so many attributes."""
    sets = list(combinations(schema.names, ways))
    counts = RowCounter(Rows(source, schema)).counts(sets, PrivacyUnit("replace"))
    return dict(zip(sets, counts, strict=True))


def _errors(release: Release, truths: Tables) -> MarginalErrors:
    begin = time.perf_counter()
    fitted = [_distance(release, names, truths[names], nonnegative=True) for names in truths]
    seconds = time.perf_counter() - begin
    ways = len(next(iter(truths)))
    return MarginalErrors(
        ways, len(truths), _plain(release, truths), float(np.mean(fitted)), seconds
    )


def _plain(release: Release, truths: Tables) -> float | None:
    try:
        found = [_distance(release, names, truths[names], nonnegative=False) for names in truths]
    except QueryError:  # some set was not measured
        return None
    return float(np.mean(found))


def _distance(
    release: Release, names: tuple[str, ...], truth: npt.NDArray[np.int64], *, nonnegative: bool
) -> float:
    estimated = release.marginal(names, nonnegative=nonnegative).columns[-1].to_numpy()
    shares = estimated / max(float(estimated.sum()), 1.0)
    return float(np.abs(shares - truth / max(int(truth.sum()), 1)).sum())


# All two-way and three-way marginals of two real tables, beside what is known of other systems.

Row = dict[str, Any]
Step = Callable[[str], None]

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
    """One row for each table, method and size of marginals: the error of the unbiased estimates, of
    the non-negative tables fitted to them, and the seconds to publish and to fit.
    """
    for dataset, (table, schema) in tables(folder).items():
        for ways in (2, 3):
            step(f"{dataset}, all {ways}-way marginals")
            given: dict[str, Any] = {"attributes": list(schema.names), "ways": ways, "epsilon": 1}
            given["neighbours"] = "add_remove"
            methods = {"marginals": create("marginals", delta=1e-9, **given)}
            if dataset == "nltcs":
                methods["fourier"] = create("fourier", **given)
            for name, mechanism in methods.items():
                found = trial(table, schema, mechanism, ways=[ways], seed=seed)
                [errors] = found.errors
                yield {
                    "dataset": dataset,
                    "method": name,
                    "ways": ways,
                    "least squares": errors.plain,
                    "non-negative": errors.fitted,
                    "seconds": found.seconds + errors.seconds,
                }


# The estimate of every cell from a release, as its own reader makes it: for benchmarks.

Floats = npt.NDArray[np.float64]


def reconstruct(evidence: Measurements, schema: Schema, folder: Path) -> Floats:
    """A tensor over the attributes of the release; rows that it does not tell apart are spread
    evenly, as its answers take them to be.
    """
    table = pq.read_table(folder / evidence.file)
    shape = [schema[name].size for name in evidence.columns]
    return _KINDS[evidence.design.kind](evidence, table, shape)


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
    from scumble.model.designs.box_tree import RegionTree
    from scumble.public.estimation.measurements.box_tree import RegionsReader

    tree = RegionTree.read(table, evidence.columns)
    reader = RegionsReader.of_tree(tree, evidence.columns, evidence.design)
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


_KINDS: dict[str, Callable[[Any, pa.Table, list[int]], Floats]] = {
    "cells": _cells,
    "product": _product,
    "regions": _regions,
    "matrix": _matrix,
}
