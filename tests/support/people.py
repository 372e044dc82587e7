"""Fictitious people for tests, and releases built without randomness."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.model.privacy.guarantee import Guarantees
from scumble.public.manifest import Manifest
from scumble.public.release import Release

JOBS = ("cook", "driver", "nurse", "smith", "teacher")


def schema(*, ages: int = 10, jobs: Sequence[str] = JOBS, health: int = 0) -> sc.Schema:
    """Return a schema with age and sex as quasi-identifiers, and job (and health) sensitive."""
    attributes = [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, ages - 1)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.Category(tuple(jobs))),
    ]
    if health:
        attributes.append(sc.Attribute("health", "sensitive", sc.IntegerRange(0, health - 1)))
    return sc.Schema(attributes)


def people(rows: int, domain: sc.Schema, seed: int = 0) -> pa.Table:
    """Return rows drawn from the domain; low codes are more frequent."""
    rng = np.random.default_rng(seed)
    columns = {}
    for attribute in domain:
        codes = np.minimum(
            rng.integers(0, attribute.size, rows), rng.integers(0, attribute.size, rows)
        )
        columns[attribute.name] = attribute.decode(codes.astype(attribute.code_type))
    return pa.table(columns)


def records_release(
    domain: sc.Schema, published: pa.Table, channels: Sequence[UniformChannel]
) -> Release:
    """Return a release of rows that were perturbed elsewhere."""
    folder = Path(tempfile.mkdtemp())
    pq.write_table(published, folder / "records.parquet")
    names = tuple(published.column_names)
    evidence = Records("records.parquet", names, tuple(channels), published.num_rows)
    return Release(Manifest("uniform", {}, domain, Guarantees(), evidence), folder, temporary=True)
