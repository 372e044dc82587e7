"""Rows of a release as plain tables in PostgreSQL: synthetic rows, or generalised ones.

A table that is written has a comment, by which it is known later: only such a table is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scumble.model.errors import ReleaseError, setting
from scumble.model.relational import DatabaseError, read_target
from scumble.public.archive.relations import ReleaseConnection

if TYPE_CHECKING:
    import pyarrow as pa

_COMMENT = "rows of a release, written by scumble"


class _RowsConnection(ReleaseConnection):
    """A connection to a table of rows."""

    def _unusable(self, failure: DatabaseError) -> ReleaseError:
        return ReleaseError(f"Rows cannot be written to {self.target}: {failure.reason}.")

    def check(self, *, force: bool) -> None:
        """Raise `ReleaseError` if there is a table that must not be replaced, or no schema."""
        self.check_schema()
        if not self.exists():
            return
        name = self.target.relation()
        found = self.run("SELECT obj_description(to_regclass($1)::oid, 'pg_class')", name)
        if found != [(_COMMENT,)]:
            raise ReleaseError(
                f"There is a {self.target}, which has no rows of a release, and is not replaced. "
                "Choose another name."
            )
        if not force:
            raise ReleaseError(
                f"There is a {self.target} already. Choose another name, or say "
                f"{setting('force', True)} to replace it."
            )

    def replace(self, rows: pa.Table) -> None:
        """Write the rows, in place of those that are there."""
        name = self.target.relation()
        self.run(f"DROP TABLE IF EXISTS {name}")
        self.ingest("", _plain(rows).to_reader())
        self.run(f"COMMENT ON TABLE {name} IS '{_COMMENT}'")


def check_rows(address: str, *, force: bool = False) -> None:
    """Raise `ReleaseError` if rows cannot be written to this table. Nothing is written."""
    with _RowsConnection(read_target(address, ReleaseError)) as connection:
        connection.check(force=force)


def write_rows(rows: pa.Table, address: str, *, force: bool = False) -> None:
    """Write rows to the table of an address, in one transaction."""
    with _RowsConnection(read_target(address, ReleaseError)) as connection:
        connection.run("BEGIN")
        connection.check(force=force)
        connection.replace(rows)
        connection.run("COMMIT")


def _plain(rows: pa.Table) -> pa.Table:
    """Return a table with types that PostgreSQL has."""
    import pyarrow as pa

    for place, field in enumerate(rows.schema):
        kind = field.type
        if pa.types.is_dictionary(kind):
            rows = rows.set_column(place, field.name, rows[place].cast(kind.value_type))
        elif pa.types.is_integer(kind):
            rows = rows.set_column(place, field.name, rows[place].cast(pa.int64()))
    return rows
