"""What can be asked and shown: a release, a database, a data set of a server, or its wire."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from scumble.model.errors import ParameterError, QueryError, ScumbleError, SourceError
from scumble.model.relational import is_address

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.estimate_table import EstimateTable
    from scumble.server.client import RemoteDataset

Kind = Literal["release", "database", "live", "server", "wire"]
WORDS: dict[Kind, str] = {
    "release": "a release",
    "database": "a database",
    "live": "a database with a delta",
    "server": "a data set of a server",
    "wire": "a data set on the PostgreSQL wire of a server",
}
_JOURNAL = "ledger.sqlite"
_WITHOUT_COPY = {"adbc.postgresql.use_copy": "false"}  # the wire copies answers only
_SYNTAX = "42601"  # the SQLSTATE of a question that is not understood


def kind_of(target: str) -> Kind:
    """Return what is at a path or an address; only PostgreSQL is asked for that.

    What is not there is taken for a release, which then says so. postgresql://host/dataset, without
    a table, is the wire of a server.
    """
    if target.lower().startswith(("http://", "https://")):
        return "server"
    if not is_address(target):
        if not (Path(target) / _JOURNAL).exists():
            return "release"
        from scumble.private.journal.journal import is_live

        return "live" if is_live(target) else "database"
    if target.lower().startswith("sqlite:"):
        return "release"
    if "/" not in urlsplit(target).path.strip("/"):
        return "wire"
    from scumble.public.archive.load import is_linked
    from scumble.public.archive.relations import is_release

    return "release" if is_release(target) or is_linked(target) else "database"


def connected(target: str) -> RemoteDataset:
    """Return the data set of a server at an address."""
    from scumble.server.client import TOKEN, connect

    if not os.environ.get(TOKEN):
        raise ParameterError(
            f"A server is asked with a token: set the environment variable {TOKEN} to it."
        )
    return connect(target)


def ask_wire(target: str, sql: str) -> pa.Table:
    """Ask a data set on the wire of a scumble server; limits are those of 95 %.

    Any other PostgreSQL server is refused: it would give private rows.
    """
    from scumble.model.relational import DatabaseError, driver_errors, read_address
    from scumble.model.relational import connect as connect_database

    try:
        connection = connect_database(read_address(target), autocommit=True)
    except DatabaseError as failure:
        raise SourceError(f"The data set cannot be asked: {failure.reason}.") from None
    with connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**_WITHOUT_COPY)
        refused: ScumbleError
        try:
            cursor.execute("SELECT version()")
            if "scumble" in str(cursor.fetchone()):
                cursor.execute(sql)
                table: pa.Table = cursor.fetch_arrow_table()
                return table
            refused = ParameterError(
                "The server is not one of scumble. A release in a database is named with its "
                "table: postgresql://user@host/database/schema.name."
            )
        except driver_errors() as error:
            refused = _refusal(error)
        raise refused


def _refusal(error: Exception) -> ScumbleError:
    """Return the error that a scumble server told by the wire, whose words are for analysts."""
    found = re.search(r"ERROR:\s+(.*?)(?: at character \d+)?(?:\n|$)", str(error))
    sentence = found[1] if found else "The server refuses the question."
    return (QueryError if getattr(error, "sqlstate", "") == _SYNTAX else ScumbleError)(sentence)


def show_answer(answer: Estimate | Estimates | EstimateTable, level: float) -> None:
    """Print an answer as a table; one of a database with what became of the question."""
    from scumble.cli import printing, shell

    if any(each.status_label for _, each in shell.parts(answer)[0]):
        shell.show_answer(answer, level)
    else:
        printing.show_answer(answer, level)
