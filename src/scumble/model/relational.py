"""Addresses of databases, connections to them by ADBC, and sentences for their errors.

`postgresql://user@host/database` names a database, `postgresql://user@host/database/schema.name` a
table in it, `sqlite:///people.db` a file, and `sqlite:///people.db/name` a table in it. No message
has words of the server, which can quote values, or of the address, which can name users and hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from scumble.model.errors import ScumbleError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"
_SYSTEMS = {"postgresql": POSTGRESQL, "postgres": POSTGRESQL, "sqlite": SQLITE}
_SECONDS = 10  # that one connection to a file of SQLite waits for another
# By the first characters of the SQLSTATE of an error, the longest first.
_REASONS = {
    "42P01": "there is no such table, or the query names one that does not exist",
    "42703": "the query names a column that does not exist",
    "42501": "permission is denied",
    "42701": "two columns have one name for the database, of which PostgreSQL compares the first "
    "63 bytes, or a column has a name that the database keeps for itself",
    "42P07": "there is another table of that name",
    "54011": "it has more columns than the database allows",
    "54000": "it has larger rows than the database allows",
    "22P05": "its values have characters that the encoding of the database lacks",
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
    (r"duplicate column", "two columns differ only in upper and lower case"),
    (r"too many columns|at most \d+ columns", _REASONS["54011"]),
    (r"permission denied", _REASONS["42501"]),
    (r"row is too big", _REASONS["54000"]),
    (r"specified more than once|conflicts with a system column", _REASONS["42701"]),
    (r"already exists|already another table", _REASONS["42P07"]),
    (r"no equivalent in encoding", _REASONS["22P05"]),
    (r"locked|busy", "another connection holds it open"),
)


def is_address(text: str) -> bool:
    """Whether a text is an address, and not a path."""
    return _ADDRESS.match(text) is not None


@dataclass(frozen=True)
class Address:
    """The address of a database: its system, the form for the driver, the database's name, and the
    file of SQLite.
    """

    system: str
    uri: str = field(repr=False)
    name: str
    path: Path | None = None

    def __str__(self) -> str:
        return f"the {self.system} database{f' {self.name!r}' if self.name else ''}"


@dataclass(frozen=True)
class Target:
    """A table in a database. In SQLite the schema is `main`."""

    database: Address
    schema: str
    table: str

    def __str__(self) -> str:
        return f"table {self.name} of {self.database}"

    @property
    def name(self) -> str:
        """The name of the table as people write it."""
        return self.table if self.database.system == SQLITE else f"{self.schema}.{self.table}"

    def relation(self, suffix: str = "") -> str:
        """Return the quoted name of the table, or of another one whose name begins with it."""
        return f'"{self.schema}"."{self.table}{suffix}"'


def _system(address: str) -> str | None:
    """Return the database system that an address names, if it is a known one."""
    return _SYSTEMS.get(address.partition("://")[0].lower().partition("+")[0])


def read_address(address: str) -> Address:
    """Read an address. `postgresql+driver://`, as SQLAlchemy writes it, is `postgresql://`."""
    rest = address.partition("://")[2]
    system = _system(address)
    if system is None:
        raise SourceError(
            "An address of a database begins with postgresql:// or sqlite://. The one that was "
            "given begins with something else."
        )
    if system == SQLITE:
        path = _path(address)
        if not path.is_file():
            raise SourceError(
                f"There is no file '{path}'. An address of a file is sqlite:///people.db, and "
                "with a path from the root sqlite:////folder/people.db."
            )
        return Address(system, f"file:{quote(str(path))}?mode=ro", path.name, path)
    parts = urlsplit(f"postgresql://{rest}")
    options = parse_qs(parts.query)
    if parts.password or "password" in options or "sslpassword" in options:
        raise SourceError(
            "The address of the database has a password in it, which others can read in lists of "
            "processes and logs. Leave it out, and use PGPASSFILE, PGSERVICE or PGPASSWORD."
        )
    name = unquote(parts.path.lstrip("/")) or "".join(options.get("dbname", []))
    # The driver takes text for UTF-8, whatever the encoding of the database is.
    mark = "&" if parts.query else "" if rest.endswith("?") else "?"
    return Address(system, f"postgresql://{rest}{mark}client_encoding=utf8", name)


def read_target(address: str, error: type[ScumbleError]) -> Target:
    """Read the address of a table in PostgreSQL, `postgresql://user@host/database/schema.table`.

    Anything else raises `error`. Without a schema it is `public`.
    """
    scheme, _, rest = address.partition("://")
    place, mark, options = rest.partition("?")
    database, _, relation = place.rpartition("/")
    schema, _, table = relation.rpartition(".")
    schema = schema or "public"
    if (
        _system(address) != POSTGRESQL
        or "/" not in database
        or not all(map(NAME.fullmatch, (schema, table)))
    ):
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


def read_place(address: str, error: type[ScumbleError], *, create: bool = False) -> Target:
    """Read the address of a table in PostgreSQL or SQLite, `sqlite:///people.db/table`.

    Anything else raises `error`. Without a table it is `release`. A file that does not exist is
    made when a connection is opened if `create` is true, and otherwise stands for an empty
    database.
    """
    if _system(address) != SQLITE:
        return read_target(address, error)
    path, table = _path(address), "release"
    above = path.parent
    if NAME.fullmatch(path.name) and not above.is_dir() and (above.is_file() or above.suffix):
        path, table = above, path.name
    if path.is_dir() or not path.name or not path.parent.is_dir():
        raise error(
            "The address of a table in SQLite is written sqlite:///people.db/table, and with a "
            "path from the root sqlite:////folder/people.db/table. The one that was given names "
            "no file in a folder that exists."
        )
    if str(path) == ":memory:" or table.lower().startswith("sqlite_"):
        raise error(
            "A table in SQLite is kept in a file, not in memory, and has no name that begins with "
            "sqlite_."
        )
    uri = f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}"
    missing = not create and not path.is_file()
    return Target(Address(SQLITE, ":memory:" if missing else uri, path.name, path), "main", table)


def other_table(address: str, suffix: str, error: type[ScumbleError]) -> str:
    """Return the address of the table whose name is that of an address and a suffix."""
    place, mark, options = address.partition("?")
    target = read_place(address, error)
    if target.database.path is not None:
        return f"sqlite:///{quote(str(target.database.path))}/{target.table}{suffix}"
    return f"{place}{suffix}{mark}{options}"


def _path(address: str) -> Path:
    """Return the path of an address of SQLite."""
    return Path(unquote(address.partition("://")[2].partition("?")[0])[1:])


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
    text = str(error).partition("\n\nQuery was:")[0]  # which names columns
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, text, re.IGNORECASE):
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


class DatabaseConnection:
    """A connection whose transactions are begun and ended by statements."""

    def __init__(self, address: Address) -> None:
        self.connection = connect(address, autocommit=True)
        if address.system == SQLITE:
            self.run(f"PRAGMA busy_timeout = {1000 * _SECONDS}")

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows, if it has any; raise `DatabaseError`."""

        def rows(cursor: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []

        return self._with_cursor(rows)

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the result of a statement in batches; raise `DatabaseError`."""
        failure = None
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
                yield from cursor.fetch_record_batch()
        except driver_errors() as error:
            failure = failure_of(error)
        if failure is not None:
            raise failure

    def ingest(self, table: str, batches: pa.RecordBatchReader, mode: str, **place: str) -> None:
        """Copy batches into a table; raise `DatabaseError`, or what making the batches raises.

        The driver takes every exception in a batch, also that of Ctrl-C, for an error of its own.
        """
        import pyarrow as pa

        raised: list[BaseException] = []

        def kept() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except (Exception, KeyboardInterrupt) as error:
                raised.append(error)
                raise

        reader = pa.RecordBatchReader.from_batches(batches.schema, kept())
        try:
            self._with_cursor(lambda cursor: cursor.adbc_ingest(table, reader, mode, **place))
        except DatabaseError:
            if not raised:
                raise
        if raised:
            raise raised[0]

    def _with_cursor(self, use: Callable[[Any], _Result]) -> _Result:
        failure: DatabaseError
        try:
            with self.connection.cursor() as cursor:
                return use(cursor)
        except driver_errors() as error:
            failure = failure_of(error)
        # Raised outside of the except clause, so that the error of the driver is not kept.
        raise failure

    def close(self) -> None:
        self.connection.close()
