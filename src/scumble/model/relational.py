"""Addresses of databases, connections to them by ADBC, and sentences for their errors.

`postgresql://user@host/database` names a database, `postgresql://user@host/database/schema.name` a
table in it, and `sqlite:///people.db` a file. No message has words of the server, which can quote
values, or of the address, which can name users and hosts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from scumble.model.errors import ScumbleError, SourceError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"
_SYSTEMS = {"postgresql": POSTGRESQL, "postgres": POSTGRESQL, "sqlite": SQLITE}
# By the first characters of the SQLSTATE of an error, the longest first.
_REASONS = {
    "42P01": "there is no such table, or the query names one that does not exist",
    "42703": "the query names a column that does not exist",
    "42501": "permission is denied",
    "3F000": "there is no such schema",
    "25006": "the query writes, and a source is only read",
    "57014": "the server cancelled the query",
    "53100": "the disk of the server is full",
    "08": "the connection was lost",
    "22": "the query cannot be computed for some value",
    "28": "the server refused the user or the password",
    "3D": "there is no such database",
    "42": "the query is not valid SQL",
    "53": "the server has too few resources",
    "57": "the server was shut down",
}
# For SQLite, and for errors in the middle of a result, which have no SQLSTATE.
_SENTENCES = (
    (r"no such table", _REASONS["42P01"]),
    (r"no such column", _REASONS["42703"]),
    (r"syntax error", _REASONS["42"]),
    (r"readonly database|read-only transaction", _REASONS["25006"]),
    (r"division by zero|out of range|invalid (input|byte)|overflow", _REASONS["22"]),
    (r"cancell?ing statement", _REASONS["57014"]),
    (r"terminating connection|closed the connection|connection .*lost", _REASONS["08"]),
    (r"not a database", "it is no database file"),
    (r"locked|busy", "another connection holds it open"),
)


def is_address(text: str) -> bool:
    """Whether a text is an address, and not a path."""
    return _ADDRESS.match(text) is not None


@dataclass(frozen=True)
class Address:
    """The address of a database: its system, the form for the driver, and the database's name."""

    system: str
    uri: str = field(repr=False)
    name: str

    def __str__(self) -> str:
        return f"the {self.system} database{f' {self.name!r}' if self.name else ''}"


@dataclass(frozen=True)
class Target:
    """A table in a PostgreSQL database."""

    database: Address
    schema: str
    table: str

    def __str__(self) -> str:
        return f"table {self.schema}.{self.table} of {self.database}"

    def relation(self, suffix: str = "") -> str:
        """Return the quoted name of the table, or of another one whose name begins with it."""
        return f'"{self.schema}"."{self.table}{suffix}"'


def read_address(address: str) -> Address:
    """Read an address. `postgresql+driver://`, as SQLAlchemy writes it, is `postgresql://`."""
    scheme, _, rest = address.partition("://")
    system = _SYSTEMS.get(scheme.lower().partition("+")[0])
    if system is None:
        raise SourceError(
            "An address of a database begins with postgresql:// or sqlite://. The one that was "
            "given begins with something else."
        )
    if system == SQLITE:
        path = Path(unquote(rest.partition("?")[0])[1:])
        if not path.is_file():
            raise SourceError(
                f"There is no file '{path}'. An address of a file is sqlite:///people.db, and "
                "with a path from the root sqlite:////folder/people.db."
            )
        return Address(system, f"file:{quote(str(path))}?mode=ro", path.name)
    parts = urlsplit(f"postgresql://{rest}")
    options = parse_qs(parts.query)
    if parts.password or "password" in options or "sslpassword" in options:
        raise SourceError(
            "The address of the database has a password in it, which others can read in lists of "
            "processes and logs. Leave it out, and use PGPASSFILE, PGSERVICE or PGPASSWORD."
        )
    name = unquote(parts.path.lstrip("/")) or "".join(options.get("dbname", []))
    return Address(system, f"postgresql://{rest}", name)


def read_target(address: str, error: type[ScumbleError]) -> Target:
    """Read the address of a table in PostgreSQL, `postgresql://user@host/database/schema.table`.

    Anything else raises `error`. Without a schema it is `public`.
    """
    scheme, _, rest = address.partition("://")
    place, mark, options = rest.partition("?")
    database, _, relation = place.rpartition("/")
    schema, _, table = relation.rpartition(".")
    schema = schema or "public"
    postgresql = _SYSTEMS.get(scheme.lower().partition("+")[0]) == POSTGRESQL
    if not postgresql or "/" not in database or not all(map(NAME.fullmatch, (schema, table))):
        raise error(
            "The address of a table is written postgresql://user@host/database/schema.table, with "
            "names of letters, digits and underscores (at most 50 of them). The one that was given "
            "is not."
        )
    try:
        found = read_address(f"{scheme}://{database}{mark}{options}")
    except SourceError as problem:
        raise error(str(problem)) from None
    return Target(found, schema, table)


# --- connections ----------------------------------------------------------------------------------


class DatabaseError(Exception):
    """An error of a database, as a clause without words of the server.

    `state` is the SQLSTATE, empty if it is not known; `lost` says that the connection is gone.
    """

    def __init__(self, reason: str, state: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.state = state
        self.lost = state[:2] in ("08", "57") or reason == _REASONS["08"]


def lost_connection() -> DatabaseError:
    """The error for a connection that is gone."""
    return DatabaseError(_REASONS["08"], "08006")


def connect(address: Address, **options: Any) -> Any:
    """Return a DBAPI connection of ADBC; raise `DatabaseError` if there is none to be had."""
    try:
        if address.system == POSTGRESQL:
            from adbc_driver_postgresql import dbapi
        else:
            from adbc_driver_sqlite import dbapi
    except ImportError as missing:
        raise DatabaseError(
            f"it is read by the package {missing.name}, which is not installed: install "
            "scumble[postgres]"
        ) from None
    failure: DatabaseError
    try:
        return dbapi.connect(address.uri, **options)
    except driver_errors() as error:
        failure = DatabaseError(_connecting(error), "08001")
    raise failure


def driver_errors() -> tuple[type[Exception], ...]:
    """The exceptions of drivers, whose words can quote values."""
    import pyarrow as pa
    from adbc_driver_manager import Error

    return Error, pa.ArrowException, OSError, ValueError


def failure_of(error: Exception) -> DatabaseError:
    """Return the failure that an error of a driver stands for, without its words."""
    state = getattr(error, "sqlstate", None) or ""
    for beginning in sorted(_REASONS, key=len, reverse=True):
        if state.startswith(beginning):
            return DatabaseError(_REASONS[beginning], state)
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, str(error), re.IGNORECASE):
            return DatabaseError(sentence, state)
    return DatabaseError(
        "the database gave an error (run the query yourself to see its words)", state
    )


def _connecting(error: Exception) -> str:
    """Return why a connection could not be made."""
    text = str(error)
    if re.search(r"password|authentication|role .* does not exist|pg_hba", text):
        return f"{_REASONS['28']}; PGPASSFILE, PGSERVICE or PGPASSWORD can name them"
    if re.search(r"database .* does not exist", text):
        return _REASONS["3D"]
    if re.search(r"invalid|missing \"=\"|unexpected", text):
        return "its address is not written as one"
    if re.search(r"unable to open", text):
        return "its file cannot be read"
    return "the server cannot be reached"


class Postgres:
    """A connection to PostgreSQL whose transactions are begun and ended by statements."""

    def __init__(self, address: Address) -> None:
        self.connection = connect(address, autocommit=True)

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows, if it has any; raise `DatabaseError`."""
        failure: DatabaseError
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, parameters or None)
                found: Sequence[tuple[Any, ...]] = cursor.fetchall() if cursor.description else ()
                return list(found)
        except driver_errors() as error:
            failure = failure_of(error)
        # Raised outside of the except clause, so that the error of the driver is not kept.
        raise failure

    def close(self) -> None:
        self.connection.close()
