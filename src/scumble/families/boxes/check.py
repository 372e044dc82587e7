"""What the audit compares of trees of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from scumble.families.boxes.publish.base import RegionSummary
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable

_DEPTH = 4  # boxes of a tree that are compared, from the smallest up


def run_numbers(
    mechanism: Summary, table: PrivateTable, _: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    """Return sizes and counts of the boxes that hold the first and the last cell of the domain.

    Runs of trees are the slowest, so that they are taken before they are written to a file.
    """
    boxes = cast(RegionSummary, mechanism)
    tree, _design = boxes.grow(table)
    ends = np.array([schema[name].size - 1 for name in names if name in boxes.names])
    numbers: list[Any] = []
    for cell in (np.zeros_like(ends), ends):
        inside = (tree.boxes.low <= cell[:, None]) & (cell[:, None] <= tree.boxes.high)
        path = np.flatnonzero(inside.all(axis=0))
        path = np.pad(path, (_DEPTH, 0), mode="edge")[-_DEPTH:]
        numbers += [*tree.boxes.cells[path].tolist(), *tree.noisy[path].tolist()]
    return [float(number) for number in numbers]
