"""What the audit compares of releases of baskets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.baskets.design import COUNT, ITEMS, WholeBaskets
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.lists import DerivedName
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable


def run_numbers(
    mechanism: Summary, table: PrivateTable, folder: Path, schema: Schema, _: Sequence[str]
) -> list[float]:
    """Return the numbers of one release: of whole baskets, or of chosen items."""
    evidence = cast(Measurements, mechanism.measure(table, folder))
    shown = pq.read_table(folder / evidence.file, use_threads=False)
    if isinstance(evidence.design, WholeBaskets):
        return _list_basket_numbers(evidence.design, shown, schema)
    return _list_item_numbers(evidence, shown, schema)


def _list_item_numbers(evidence: Measurements, table: pa.Table, schema: Schema) -> list[float]:
    """Return which items were chosen, and their numbers; zeros fill up what others may have."""
    [attribute] = schema.lists
    items = attribute.lists.members.labels().to_pylist()
    columns = [str(DerivedName("contains", attribute.name, item)) for item in items]
    chosen = [float(column in evidence.columns) for column in columns]
    numbers = table.column(0).to_numpy().astype(np.float64).tolist()
    most = len(items) * 2 ** (len(items) + 1)
    return [*chosen, *numbers, *[0.0] * (most - len(numbers))]


def _list_basket_numbers(design: WholeBaskets, table: pa.Table, schema: Schema) -> list[float]:
    """Return for every possible basket whether it was published and its number, and the number of
    all baskets.
    """
    [attribute] = schema.lists
    items = attribute.lists.members.labels().to_pylist()
    columns = [str(DerivedName("contains", attribute.name, item)) for item in items]
    places = [columns.index(name) for name in design.attributes]
    numbers = np.zeros((2, 2 ** len(items)))
    for basket, count in zip(table[ITEMS].to_pylist(), table[COUNT].to_pylist(), strict=True):
        numbers[:, sum(1 << places[item] for item in basket)] = 1, count
    return [*numbers.ravel().tolist(), float(design.total)]
