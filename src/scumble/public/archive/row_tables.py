"""Rows of a release as plain tables in a database: synthetic rows, or generalised ones.

A table that is written has a comment, by which it is known later: only such a table is replaced.
"""

from __future__ import annotations

import secrets
from typing import Self

import pyarrow as pa

from scumble.model.errors import OutputExistsError, ReleaseError
from scumble.model.relational import DatabaseError, Target
from scumble.public.archive.relations import ReleaseConnection, read_release_address

_COMMENT = "rows of a release, written by scumble"


class _RowsConnection(ReleaseConnection):
    """A connection to a table of rows."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        # Of its own, by which these rows are known if the reply to COMMIT is lost.
        self._comment = f"{_COMMENT} ({secrets.token_hex(8)})"

    def _unusable(self, failure: DatabaseError) -> ReleaseError:
        return ReleaseError(f"Rows cannot be written to {self.target}: {failure.reason}.")

    def _unknown(self) -> ReleaseError:
        return ReleaseError(
            f"The connection was lost while rows were written to {self.target}, and it is not "
            "known whether they are there. Look before you write them again."
        )

    def _is_written(self, again: Self) -> bool:
        return again.comment() == self._comment

    def comment(self) -> str | None:
        """Return the comment on the table, if there is one."""
        with self._told():
            if not self._dialect.exists(self._database, self.target.relation()):
                return None
            return self._dialect.comment(self._database, self.target)

    def check(self, *, force: bool) -> None:
        """Raise `ReleaseError` if there is a table that must not be replaced, or no place."""
        self.check_place()
        if not self.exists():
            return
        if not (self.comment() or "").startswith(_COMMENT):
            raise ReleaseError(
                f"There is a {self.target}, which has no rows of a release, and is not replaced. "
                "Choose another name."
            )
        if not force:
            raise OutputExistsError.of(f"The {self.target}")

    def replace(self, rows: pa.Table) -> None:
        """Write the rows, in place of those that are there."""
        self.run(f"DROP TABLE IF EXISTS {self.target.relation()}")
        with self._told():
            self._dialect.create(
                self._database, self.target, "", _plain(rows).to_reader(), comment=self._comment
            )


def check_rows(address: str, *, force: bool = False) -> None:
    """Raise `ReleaseError` if rows cannot be written to this table. Nothing is written."""
    with _RowsConnection(read_release_address(address)) as connection:
        connection.check(force=force)


def write_rows(rows: pa.Table, address: str, *, force: bool = False) -> None:
    """Write rows to the table of an address, in one transaction."""
    with _RowsConnection(read_release_address(address, create=True)) as connection:
        connection.begin()
        connection.check(force=force)
        connection.replace(rows)
        connection.commit()


def _plain(rows: pa.Table) -> pa.Table:
    """Return a table with types that databases have."""
    for place, field in enumerate(rows.schema):
        kind = field.type
        if pa.types.is_dictionary(kind):
            rows = rows.set_column(place, field.name, rows[place].cast(kind.value_type))
        elif pa.types.is_integer(kind):
            rows = rows.set_column(place, field.name, rows[place].cast(pa.int64()))
    return rows
