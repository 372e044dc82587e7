"""The folder of a database: made for a table, or opened with the table that it was made for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scumble.database.counting import Counter
from scumble.database.journal import Journal
from scumble.database.memory import Memory
from scumble.database.space import Space
from scumble.database.terms import Terms
from scumble.engine.rows import Outside, Rows
from scumble.engine.source import open_source
from scumble.errors import LedgerError, ParameterError
from scumble.schema import Schema

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

    def counted(self, schema: Schema, outside: Outside) -> Counter:
        source = open_source(self.source, table=self.table)
        rows = Rows(source, schema, outside=outside, progress=self.progress)
        return Counter.over(rows, schema.names)


def make(
    folder: str | Path, table: Table, schema: Schema, terms: Terms, outside: Outside
) -> tuple[Journal, Counter]:
    """A new ledger for a table; what could be refused is refused before there is a folder."""
    if Path(folder).exists():
        raise LedgerError(f"{folder} exists already. Choose another folder, or open this one.")
    Memory(terms, Space(schema, schema.names))
    counter = table.counted(schema, outside)
    key = secrets.token_bytes(32)
    promise = {
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
        journal.close()
        raise LedgerError(f"{folder} cannot be written: {error.strerror}.") from None
    return journal, counter


def reopen(folder: str | Path, table: Table, schema: Schema | None) -> tuple[Journal, Counter]:
    """The ledger in a folder, and the table that it was made for; another one is refused."""
    journal = Journal.open(folder)
    try:
        promise = journal.promise
        known = Schema.from_dict(promise["schema"])
        given = known if schema is None else asked_about(schema, promise["attributes"])
        journal.expect({**promise, "schema": given.to_dict()})
        counter = table.counted(known, promise["outside"])
        found = counter.fingerprint(_kept(journal.folder / KEY))
        journal.expect({**promise, "data": found})
    except BaseException:
        journal.close()
        raise
    return journal, counter


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
