"""Answers as tables: Arrow, CSV and Parquet, and the choice by the header Accept."""

from __future__ import annotations

import io

import pyarrow as pa
from pyarrow import csv, parquet

from scumble.public.estimate import Estimate, Estimates
from scumble.server.answer_json import AnyEstimate

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"


def preferred(accept: str) -> str:
    """Return the first media type in a header Accept that answers have; JSON by default."""
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in (ARROW, CSV, JSON):
            return kind
    return JSON


def answer_table(answer: AnyEstimate, level: float) -> pa.Table:
    """Return an answer as a table: a row for each group, or one row."""
    if isinstance(answer, Estimate):
        answer = Estimates([], [((), answer)])
    return answer.to_arrow(level)


def arrow_bytes(answer: AnyEstimate, level: float) -> bytes:
    """Return an answer as an Arrow IPC stream."""
    table, out = answer_table(answer, level), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def csv_text(answer: AnyEstimate, level: float) -> str:
    """Return an answer as CSV with a header; lists of notes are joined."""
    table, out = answer_table(answer, level), io.BytesIO()
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            joined = ["; ".join(each or ()) for each in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(joined, pa.string()))
    csv.write_csv(table, out)
    return out.getvalue().decode()


def parquet_bytes(answer: AnyEstimate, level: float) -> bytes:
    """Return an answer as a Parquet file."""
    out = io.BytesIO()
    parquet.write_table(answer_table(answer, level), out)
    return out.getvalue()
