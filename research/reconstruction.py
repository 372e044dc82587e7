"""The estimate of every cell from a release, as its own reader makes it: for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema

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
    from scumble.model.designs.regions import RegionTree
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
