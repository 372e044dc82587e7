"""The one function that crosses the wall: private rows in, a release out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from scumble.engine.rows import Rows
from scumble.engine.source import open_source
from scumble.errors import ParameterError
from scumble.evidence import Evidence
from scumble.guarantee import Guarantee, Guarantees
from scumble.ledger import Account
from scumble.mechanism import Mechanism, Publisher, Summary
from scumble.noise.source import Source
from scumble.private import PrivateTable
from scumble.release import SEEDED, Manifest, Release
from scumble.schema import Schema


def publish(
    source: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism,
    *,
    table: str | None = None,
    outside: Literal["error", "drop", "missing"] = "error",
    reveal: bool = False,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """Publish a private table.

    `source` is a path (CSV, Parquet, DuckDB with `table`) or any table that speaks Arrow. `outside`
    says what happens to a row with a value outside its domain: an error that names the row, the row
    dropped, or the value missing. `reveal` allows private values in error messages, for the owner's
    eyes. `seed` makes the release repeatable and NOT PRIVATE: for tests. `progress` is called with
    the number of rows read.
    """
    if not isinstance(mechanism, (Publisher, Summary)):
        allowed = "a mechanism such as Uniform(epsilon=1)"
        raise ParameterError.of("publish", "mechanism", allowed, mechanism)
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    mechanism.check(known)
    noise = Source(seed)
    opened = open_source(source, table=table)
    rows = Rows(opened, known, outside=outside, reveal=reveal, progress=progress)
    folder = Path(tempfile.mkdtemp(prefix="scumble-"))
    try:
        evidence = _evidence(mechanism, rows, noise, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    guarantees = mechanism.guarantee(known, getattr(evidence, "rows", None))
    manifest = Manifest(
        mechanism=mechanism.name,
        parameters=mechanism.parameters,
        schema=known,
        guarantees=Guarantees(_qualified(promise, known, noise.seeded) for promise in guarantees),
        evidence=evidence,
        outside=outside,
        seeded=noise.seeded,
    )
    return Release(manifest, folder, temporary=True, remarks=rows.remarks())


def _evidence(mechanism: Publisher | Summary, rows: Rows, noise: Source, folder: Path) -> Evidence:
    if isinstance(mechanism, Publisher):
        return mechanism.perturb(rows, noise, folder)
    account = Account(mechanism.promise)
    return mechanism.measure(PrivateTable(rows, account, noise), folder)


def _qualified(promise: Guarantee, schema: Schema, seeded: bool) -> Guarantee:
    """The promise with what weakens it: domains that were read from the data, and a fixed seed."""
    if schema.from_data:
        names = ", ".join(schema.from_data)
        leak = (
            f"The domain of {names} was read from the private data and is published with the "
            "schema: a leak that this promise does not cover, until the owner declares it public."
        )
        promise = replace(promise, limits=(leak, *promise.limits))
    if seeded:
        promise = replace(
            promise, sentence=f"{SEEDED} {promise.sentence}", limits=(SEEDED, *promise.limits)
        )
    return promise
