"""Whether the order of published rows tells anything that the rows do not.

Rows that are sorted by what they show have an order that anybody could have made. Otherwise places
are tried: people with two different secrets are published together, and the place of a person's row
is looked at as a part of what is published of that person.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.claims import CONFIDENCE
from scumble.audit.distinguish import distinguish
from scumble.audit.events import Outputs
from scumble.audit.finding import Finding
from scumble.audit.game import SECRET, WHO
from scumble.audit.shown_rows import VALUES, secret_schema
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Publisher
from scumble.private.publish import publish
from scumble.public.release import Release

SORTED = "The rows are sorted by what they show: anybody could have put them so."


def order_finding(
    mechanism: Publisher, epsilon: float, people: int, *, seed: int | None = None
) -> Finding:
    """What the order of the rows of a publisher tells, against the ε of their contents."""
    rng = np.random.default_rng(seed)
    secrets = rng.integers(0, 2, people) * (VALUES - 1)
    table = pa.table({WHO: np.arange(people), SECRET: secrets})
    release = publish(table, secret_schema(people), mechanism, seed=seed)
    claim = f"the order of the rows of {mechanism.name} tells nothing"
    if in_order(release):
        return Finding("order of rows", claim, "exact", SORTED)
    lines = _lines(release, secrets)
    found = distinguish(*lines, confidence=CONFIDENCE)
    sentence = (
        f"The places of {people} rows imply an ε of at least {found.epsilon:.4g} ({found.event}); "
        f"what the rows show has {epsilon:.4g}."
    )
    return Finding(
        "order of rows",
        claim,
        "refuted" if found.epsilon > epsilon else "stands",
        sentence,
        {"epsilon at least": found.epsilon, "claimed": epsilon},
        CONFIDENCE,
    )


def in_order(release: Release) -> bool:
    """Whether every file of a release is sorted by its own columns, as they stand: values in the
    order of the schema, a missing one last.
    """
    tables = (pq.read_table(release.folder / file) for file in release.evidence.files)
    return all(_sorted(table, release.schema) for table in tables)


def _sorted(table: pa.Table, schema: Schema) -> bool:
    columns = [_ranks(table[name], name, schema) for name in table.column_names]
    if not columns or len(columns[0]) < 2:
        return True
    order = np.lexsort(columns[::-1])  # stable: equal rows may stand in any order
    return all(np.array_equal(column[order], column) for column in columns)


def _ranks(column: pa.ChunkedArray, name: str, schema: Schema) -> npt.NDArray[np.integer[Any]]:
    """What puts the values of a column in order: codes of the schema, or the numbers themselves in
    a column that the publisher has added.
    """
    found: npt.NDArray[np.integer[Any]] = (
        schema[name].encode(column)[0] if name in schema else column.to_numpy()
    )
    return found


def _lines(release: Release, secrets: npt.NDArray[np.int64]) -> tuple[Outputs, Outputs]:
    """What is shown of each person, and in which place, by the secret that they have."""
    table = pq.read_table(release.folder / release.evidence.files[0])
    who = table[WHO].to_numpy()
    places = np.full(len(secrets), -1.0)
    places[who] = np.arange(len(who))
    shown = np.full(len(secrets), -1.0)
    if SECRET in table.column_names:
        shown[who] = table[SECRET].to_numpy()
    lines = np.stack([shown, places], axis=1)
    return lines[secrets == 0], lines[secrets > 0]
