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

EXISTS = "That a release exists tells that every value lies in its domain."


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
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("publish", "schema", "a Schema or the path of one", schema)
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
    shown = _shown(known, evidence)
    worst = _weakened(mechanism, shown, outside)
    fine_print = (EXISTS,) if outside == "error" else ()
    manifest = Manifest(
        mechanism=mechanism.name,
        parameters=mechanism.parameters,
        schema=shown,
        guarantees=Guarantees(
            _qualified(each, worst, fine_print, noise.seeded)
            for each in mechanism.achieved(known, evidence)
        ),
        evidence=evidence,
        report=mechanism.report(known, evidence),
        outside=outside,
        seeded=noise.seeded,
    )
    remarks = rows.remarks()
    if evidence.rows == 0:
        remarks += ("The release has no rows.",)
    return Release(manifest, folder, temporary=True, remarks=remarks)


def _evidence(mechanism: Publisher | Summary, rows: Rows, noise: Source, folder: Path) -> Evidence:
    if isinstance(mechanism, Publisher):
        return mechanism.perturb(rows, noise, folder)
    account = Account(mechanism.promise)
    return mechanism.measure(PrivateTable(rows, account, noise), folder)


def _shown(schema: Schema, evidence: Evidence) -> Schema:
    """What is published of the schema: the columns of the evidence, names of identifiers, and
    what the mechanism added.
    """
    hidden = [attribute.name for attribute in schema.identifiers]
    named = {*evidence.columns, *hidden}
    shown = schema.select([name for name in schema.names if name in named])
    return Schema([*shown, *evidence.added])


def _weakened(mechanism: Mechanism, schema: Schema, outside: str) -> tuple[str, ...]:
    """What the promises of any mechanism do not cover, because of how the table was read."""
    limits = []
    if schema.from_data:
        names = ", ".join(schema.from_data)
        limits.append(
            f"The domain of {names} was read from the private data and is published with the "
            "schema: a leak that this promise does not cover, until the owner declares it public."
        )
    if outside == "drop" and isinstance(mechanism, Publisher):
        limits.append(
            "Rows with a value outside its domain were left out: who is known to be in the table, "
            "and is missing from the release, had such a value. It is not protected."
        )
    return tuple(limits)


def _qualified(
    promise: Guarantee, worst: tuple[str, ...], fine_print: tuple[str, ...], seeded: bool
) -> Guarantee:
    """The promise with what weakens it, the worst first."""
    sentence = f"{SEEDED} {promise.sentence}" if seeded else promise.sentence
    limits = (*((SEEDED,) if seeded else ()), *worst, *promise.limits, *fine_print)
    return replace(promise, sentence=sentence, limits=limits)
