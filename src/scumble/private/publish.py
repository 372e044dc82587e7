"""The one function that crosses the wall: private rows in, a release out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from scumble.model.errors import ParameterError, named, setting
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.schema import Schema
from scumble.private.ledger.cost import Bill, bill_of
from scumble.private.ledger.ledger import Ledger, opened
from scumble.private.manifest import manifest_of, new_folder, remarks_of
from scumble.private.mechanism import Mechanism, Publisher, Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.owner import OwnedRelease
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.private.tables.source import PartOfSource
from scumble.private.tables.source import Source as PrivateSource

if TYPE_CHECKING:
    from scumble.private.perturbation.aroma import Aroma


@overload
def publish(
    source: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism,
    *,
    table: str | None = None,
    outside: Literal["error", "drop", "missing"] = "error",
    reveal: bool = False,
    seed: int | None = None,
    levels: None = None,
    ledger: Ledger | str | Path | None = None,
    part: Any = None,
    progress: Callable[[int], None] | None = None,
) -> OwnedRelease: ...


@overload
def publish(
    source: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism,
    *,
    table: str | None = None,
    outside: Literal["error", "drop", "missing"] = "error",
    reveal: bool = False,
    seed: int | None = None,
    levels: Sequence[int],
    ledger: Ledger | str | Path | None = None,
    part: Any = None,
    progress: Callable[[int], None] | None = None,
) -> list[OwnedRelease]: ...


def publish(
    source: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism,
    *,
    table: str | None = None,
    outside: Literal["error", "drop", "missing"] = "error",
    reveal: bool = False,
    seed: int | None = None,
    levels: Sequence[int] | None = None,
    ledger: Ledger | str | Path | None = None,
    part: Any = None,
    progress: Callable[[int], None] | None = None,
) -> OwnedRelease | list[OwnedRelease]:
    """Publish a private table.

    `source` is a path (CSV, Parquet, DuckDB with `table`) or any table that speaks Arrow. `outside`
    says what happens to a row with a value outside its domain: an error that names the row, the row
    dropped, or the value missing. `reveal` allows private values in error messages, for the owner's
    eyes. `seed` makes the release repeatable and NOT PRIVATE: for tests. `levels` makes one nested
    view for each k of a list, the mechanism's being the largest (Aroma only). `ledger` is the
    owner's, which is charged before anything is read; with `part`, a value of the column by which
    the ledger knows parts of the table, only the rows of that part are read and charged. `progress`
    is called with the number of rows read.
    """
    if not isinstance(mechanism, (Publisher, Summary)):
        allowed = "a mechanism such as Uniform(epsilon=1)"
        raise ParameterError.of("publish", "mechanism", allowed, mechanism)
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("publish", "schema", "a Schema or the path of one", schema)
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    steps = None if levels is None else _levels(mechanism, levels)
    mechanism.check(known)
    noise = Keystream(seed)
    owner = None if ledger is None else opened(ledger)
    read = _read(open_source(source, table=table), known, owner, part)
    rows = Rows(read, known, outside=outside, reveal=reveal, progress=progress)
    if owner is None:
        return _made(mechanism, steps, rows, noise)
    bill = _bill(mechanism, rows, noise, owner)
    with owner.paid(bill):
        found = _made(mechanism, steps, rows, noise)
        for release in found if isinstance(found, list) else [found]:
            release.remarks = (*release.remarks, str(bill))
    return found


def _bill(mechanism: Mechanism, rows: Rows, noise: Keystream, ledger: Ledger) -> Bill:
    part = rows.source if isinstance(rows.source, PartOfSource) else None
    return bill_of(
        mechanism,
        rows.schema,
        ledger.terms,
        outside=rows.outside,
        seeded=noise.seeded,
        part=None if part is None else part.label,
        column=None if part is None else part.attribute,
    )


def _read(
    source: PrivateSource, schema: Schema, ledger: Ledger | None, part: object
) -> PrivateSource:
    """The table, or the part of it that a ledger knows by a value of its column."""
    if part is None:
        return source
    if ledger is None or ledger.terms.parts is None:
        raise ParameterError(
            "A part is published under a ledger that was created with "
            f"{setting('parts', 'COLUMN')}. Give such a {named('ledger')}, or leave "
            f"{named('part')} out."
        )
    return PartOfSource(source, schema[ledger.terms.parts], part)


def _made(
    mechanism: Publisher | Summary, steps: Sequence[Aroma] | None, rows: Rows, noise: Keystream
) -> OwnedRelease | list[OwnedRelease]:
    if steps is not None:
        return _publish_levels(steps, rows, noise)
    with new_folder() as folder:
        evidence = _evidence(mechanism, rows, noise, folder)
        return _owned(mechanism, evidence, rows, noise, folder)


def _evidence(
    mechanism: Publisher | Summary, rows: Rows, noise: Keystream, folder: Path
) -> Evidence:
    if isinstance(mechanism, Publisher):
        return mechanism.perturb(rows, noise, folder)
    account = BudgetAccount(mechanism.promise)
    return mechanism.measure(PrivateTable(RowCounter(rows), account, noise), folder)


def _owned(
    mechanism: Mechanism,
    evidence: Evidence,
    rows: Rows,
    noise: Keystream,
    folder: Path,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> OwnedRelease:
    outside: Outside = rows.outside
    manifest = manifest_of(mechanism, evidence, rows.schema, outside=outside, seeded=noise.seeded)
    manifest = replace(manifest, report={**manifest.report, **facts, **_part_of(rows)})
    remarks = (
        *mechanism.cautions(rows.schema),
        *remarks_of(rows, evidence),
        *mechanism.noticed(rows.schema, evidence, folder),
    )
    return OwnedRelease(manifest, folder, temporary=True, remarks=remarks)


def _part_of(rows: Rows) -> dict[str, str]:
    """What the readers of a release of a part have to know."""
    if not isinstance(rows.source, PartOfSource):
        return {}
    return {"only rows with": f"{rows.source.attribute.name} = {rows.source.label}"}


def _levels(mechanism: Mechanism, levels: Sequence[int]) -> list[Aroma]:
    """The mechanism of every level, the smallest k first."""
    from scumble.private.perturbation.aroma import Aroma

    if not isinstance(mechanism, Aroma):
        raise ParameterError(f"Only Aroma publishes levels; {mechanism.name} does not.")
    return mechanism.levels(levels)


def _publish_levels(steps: Sequence[Aroma], rows: Rows, noise: Keystream) -> list[OwnedRelease]:
    """One pass over the rows makes all views."""
    with ExitStack() as stack:
        folders = {step.k: stack.enter_context(new_folder()) for step in steps}
        found = steps[-1].perturb_levels(rows, noise, folders)
        together = {"levels drawn together": list(folders), "draw": secrets.token_hex(8)}
        return [
            _owned(each, found[each.k], rows, noise, folders[each.k], together) for each in steps
        ]
