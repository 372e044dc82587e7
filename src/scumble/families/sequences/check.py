"""What the audit and the comparison know of sequences: the numbers of short strings, and trips."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq

from scumble.audit.runs import file_numbers
from scumble.families.sequences.design import Parts, Strings
from scumble.families.sequences.publish.trajectories import TripCounter, trip_schema
from scumble.families.sequences.read.models import model_of
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows


def run_numbers(
    mechanism: Summary, table: PrivateTable, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    """Return the numbers of one release: of its strings, and of all other parts."""
    evidence = cast(Measurements, mechanism.measure(table, folder))
    return _list_numbers(evidence, folder, schema, names)


def _list_numbers(
    evidence: Measurements, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    if isinstance(evidence.design, Parts):
        known = Schema((*schema, *evidence.added))
        lines = (_list_numbers(part, folder, known, part.columns) for part in evidence.design.parts)
        return [number for line in lines for number in line]
    if isinstance(evidence.design, Strings):
        return _list_string_numbers(evidence.design, folder / evidence.file)
    return file_numbers(evidence, folder, schema, names)


def _list_string_numbers(design: Strings, file: Path) -> list[float]:
    """Return for every string of one or two symbols whether it was measured, its number, and how
    many noises are in it.
    """
    model = model_of(design, pq.read_table(file, use_threads=False))
    symbols = range(design.alphabet + 1)
    numbers: list[float] = []
    for string in (*product(symbols), *product(symbols[:-1], symbols)):
        known = model.known(string)
        numbers += [0, 0, 0] if known is None else [1, float(known.number), known.noises]
    return numbers


def make_trips(rows: Rows, x: str, y: str, length: int) -> tuple[Schema, TripCounter]:
    """Return the schema of the cells on the way, and the true trips through them."""
    schema = trip_schema(rows.schema, x, y, length)
    return schema, TripCounter(RowCounter(rows), x, y, schema)
