"""The folder of a database: made for a table, or opened with the table that it was made for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scumble.model import dialect
from scumble.model.errors import LedgerError, ParameterError
from scumble.model.schema.schema import Schema
from scumble.private.database.counting import Counter
from scumble.private.database.growth import Addition, named
from scumble.private.database.space import Space
from scumble.private.database.state import Memory
from scumble.private.database.terms import Terms
from scumble.private.journal.entries import APPEND, check_word
from scumble.private.journal.journal import Journal
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows

# The key of the table's fingerprint. With both, who knows all rows but one could try what that one
# is; so it is no part of the ledger, which auditors may get.
KEY = "table.key"
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Table:
    """A private table that is asked about: where it is, and how it is read."""

    source: Any
    table: str | None = None
    progress: Progress | None = None

    @classmethod
    def of(cls, batch: Any, progress: Progress | None = None) -> Table:
        """A batch of rows: a source, or a pair of a DuckDB file and the name of a table in it."""
        if isinstance(batch, tuple) and len(batch) == 2:
            return cls(*batch, progress)
        return cls(batch, None, progress)

    def counted(self, schema: Schema, outside: Outside) -> Counter:
        source = open_source(self.source, table=self.table)
        rows = Rows(source, schema, outside=outside, progress=self.progress)
        return Counter.over(rows, schema.names)


def make(
    folder: str | Path, table: Table, schema: Schema, terms: Terms, outside: Outside
) -> tuple[Journal, dict[str, Counter]]:
    """A new ledger for a table; what could be refused is refused before there is a folder."""
    if Path(folder).exists():
        raise LedgerError(f"{folder} exists already. Choose another folder, or open this one.")
    Memory(terms, Space(schema, schema.names))
    counter = table.counted(schema, outside)
    key = secrets.token_bytes(32)
    promise: dict[str, Any] = {
        "terms": terms.to_dict(),
        "attributes": list(schema.names),
        "schema": schema.to_dict(),
        "outside": outside,
        "data": counter.fingerprint(key),
    }
    journal = Journal.create(folder, promise)
    try:
        _keep(journal.folder / KEY, key)
    except OSError as error:
        (journal.folder / KEY).unlink(missing_ok=True)  # nobody shall open what may not be paid for
        journal.close()
        raise LedgerError(f"{folder} cannot be written: {error.strerror}.") from None
    return journal, {promise["data"]: counter}


def reopen(
    folder: str | Path, table: Table, batches: Sequence[Table], schema: Schema | None
) -> tuple[Journal, dict[str, Counter]]:
    """The ledger in a folder, and by their fingerprints the table that it was made for and the
    batches that were added to it; others are refused.
    """
    journal = Journal.open(folder)
    try:
        promise = journal.promise
        known = Schema.from_dict(journal.promised("schema"))
        given = known if schema is None else asked_about(schema, promise["attributes"])
        journal.expect({**promise, "schema": given.to_dict()})
        added = [entry.unchanged() for entry in journal.entries(kind=APPEND)]
        if len(added) != len(batches):
            raise LedgerError(_other_number(journal.folder, len(added), len(batches)))
        secret = _kept(journal.folder / KEY)
        counter = table.counted(known, promise["outside"])
        journal.expect({**promise, "data": counter.fingerprint(secret)})
        more = [each.counted(known, promise["outside"]) for each in batches]
        tables = {promise["data"]: counter, **named(added, more, secret)}
    except BaseException:
        journal.close()
        raise
    return journal, tables


def addition(journal: Journal, table: Table) -> Addition:
    """Rows that are to be added to a database, read as its table was."""
    promise = journal.promise
    counter = table.counted(Schema.from_dict(promise["schema"]), promise["outside"])
    return Addition.of(counter, _kept(journal.folder / KEY))


def grow(folder: str | Path, table: Table, key: str | None = None, *, again: bool = False) -> int:
    """Add rows to the database in a folder, whose earlier rows need not be there; the number of
    the batch that they are. Rows that are there already are refused, but for `again`.
    """
    check_word("key", key)
    with Journal.open(folder) as journal:
        rows = addition(journal, table)
        with journal.turn() as turn:
            added = [entry for entry in turn.news() if entry.kind == APPEND]
            if not again and (key is None or turn.find(key) is None):
                rows.refuse_twice(journal.promise["data"], added)
            return int(rows.enter(turn, key, len(added) + 2).payload["batch"])


def _other_number(folder: Path, added: int, given: int) -> str:
    return (
        f"Batches of rows that were added to the database in {folder}: {added}. Batches that are "
        f"given: {given}. Give all of them as {dialect.named('batches')}, in the order in which "
        "they were added."
    )


def _keep(path: Path, key: bytes) -> None:
    """Write a key for its owner alone, to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key.hex().encode())
        file.flush()
        os.fsync(file.fileno())


def _kept(path: Path) -> bytes:
    try:
        return bytes.fromhex(path.read_text("utf-8"))
    except (OSError, ValueError):
        raise LedgerError(
            f"{path} is missing or damaged: without it nobody can tell whether this is the table "
            "that the database was made for."
        ) from None


def schema_of(schema: Schema | str | Path) -> Schema:
    """A schema, or the one in a file."""
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("Database", "schema", "a Schema or the path of one", schema)
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def asked_about(schema: Schema, attributes: Sequence[str] | None) -> Schema:
    """The attributes that can be asked about, in the order of the schema."""
    if isinstance(attributes, str):
        raise ParameterError.of("Database", "attributes", "a list of names", attributes)
    wanted = [each.name for each in schema.published] if attributes is None else attributes
    for name in wanted:
        if schema[name].domain is None:  # a name that is not there has its own sentence
            allowed = "attributes with a domain; identifiers cannot be asked about"
            raise ParameterError.of("Database", "attributes", allowed, name)
    return schema.select([name for name in schema.names if name in wanted])
