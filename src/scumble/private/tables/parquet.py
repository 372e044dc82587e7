"""Codes of a schema written as Parquet files of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.schema.attribute import Attribute


def table_writer(
    path: Path,
    attributes: Sequence[Attribute],
    extra: Sequence[tuple[str, pa.DataType]] = (),
    *,
    compression: str = "snappy",
) -> pq.ParquetWriter:
    """A Parquet file of plain types: without Arrow's own schema in it, every reader sees the
    same.
    """
    fields = [(a.name, _written_type(a)) for a in attributes]
    schema = pa.schema([*fields, *extra])
    return pq.ParquetWriter(path, schema, store_schema=False, compression=compression)


def decoded(
    attributes: Sequence[Attribute],
    codes: Sequence[npt.NDArray[Any]],
    extra: Sequence[tuple[str, pa.Array]] = (),
) -> pa.RecordBatch:
    """Codes as the values that are published."""
    names = [a.name for a in attributes] + [name for name, _ in extra]
    columns = [a.decode(code) for a, code in zip(attributes, codes, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, *(column for _, column in extra)], names)


def _written_type(attribute: Attribute) -> pa.DataType:
    """Text goes to the file as a dictionary of its values, which saves looking each of them up."""
    return attribute.decode(np.empty(0, attribute.code_type)).type
