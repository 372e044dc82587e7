"""The table that the benchmarks publish: seeded, six columns, as skewed as a census."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BLOCK = 1_000_000
SEXES = ["female", "male"]
REGIONS = [f"region {number:02}" for number in range(20)]
EDUCATIONS = [f"education {number:02}" for number in range(16)]
OCCUPATIONS = [f"occupation {number:02}" for number in range(50)]

SCHEMA = f"""
format = 1
[attributes.age]
role = "quasi"
type = "integer"
range = [0, 99]
[attributes.sex]
role = "quasi"
type = "category"
values = {SEXES}
[attributes.region]
role = "quasi"
type = "category"
values = {REGIONS}
[attributes.education]
role = "quasi"
type = "category"
values = {EDUCATIONS}
[attributes.occupation]
role = "sensitive"
type = "category"
values = {OCCUPATIONS}
[attributes.income]
role = "quasi"
type = "integer"
range = [0, 200]
"""


@functools.cache
def folder() -> Path:
    """A temporary folder that lasts as long as the run."""
    path = Path(tempfile.mkdtemp(prefix="scumble-bench-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def table(rows: int) -> Path:
    """A Parquet file of so many people; a smaller table is the beginning of a larger one."""
    path = folder() / f"people-{rows}.parquet"
    schema = _block(np.random.default_rng(0), 1).schema
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        for start in range(0, rows, BLOCK):
            people = _block(np.random.default_rng([7, start]), min(BLOCK, rows - start))
            writer.write_table(people, row_group_size=122_880)
    return path


def _block(random: np.random.Generator, rows: int) -> pa.Table:
    age = np.minimum(99, 100 * random.beta(1.5, 2.2, rows)).astype(np.int64)
    sex = random.random(rows) < 0.49
    region = _skewed(random.random(rows), len(REGIONS))
    education = _skewed(random.random(rows), len(EDUCATIONS))
    # Neighbouring levels of education share most of their occupations.
    occupation = (_skewed(random.random(rows), len(OCCUPATIONS)) + 3 * education) % len(OCCUPATIONS)
    income = random.lognormal(3.2 + 0.05 * education + 0.1 * sex, 0.6)
    return pa.table(
        {
            "age": age,
            "sex": _text(sex, SEXES),
            "region": _text(region, REGIONS),
            "education": _text(education, EDUCATIONS),
            "occupation": _text(occupation, OCCUPATIONS),
            "income": np.minimum(200, income).astype(np.int64),
        }
    )


def _skewed(uniform: np.ndarray, size: int) -> np.ndarray:
    """Codes with weights 1, 1/2, 1/3, ..."""
    steps = np.cumsum(1 / np.arange(1, size + 1))
    return np.searchsorted(steps / steps[-1], uniform).clip(max=size - 1)


def _text(codes: np.ndarray, values: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int8), values)
