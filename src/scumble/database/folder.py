"""The folder of a database: made for a table, or opened with the table that it was made for."""

from __future__ import annotations

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
    salt = secrets.token_bytes(16)
    promise = {
        "terms": terms.to_dict(),
        "attributes": list(schema.names),
        "schema": schema.to_dict(),
        "outside": outside,
        "salt": salt.hex(),
        "data": counter.fingerprint(salt),
    }
    return Journal.create(folder, promise), counter


def reopen(folder: str | Path, table: Table, schema: Schema | None) -> tuple[Journal, Counter]:
    """The ledger in a folder, and the table that it was made for; another one is refused."""
    journal = Journal.open(folder)
    try:
        promise = journal.promise
        known = Schema.from_dict(promise["schema"])
        given = known if schema is None else asked_about(schema, promise["attributes"])
        journal.expect({**promise, "schema": given.to_dict()})
        counter = table.counted(known, promise["outside"])
        journal.expect({**promise, "data": counter.fingerprint(bytes.fromhex(promise["salt"]))})
    except BaseException:
        journal.close()
        raise
    return journal, counter


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
