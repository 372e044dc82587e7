"""The releases of several tables in a database: each as one release, and one table with the links.

The release of the table `visits` at `.../schema.hospital` is `.../schema.hospital_visits`. All are
written in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from scumble.model.errors import ReleaseError
from scumble.model.relational import NAME, other_table
from scumble.public.archive.archive import FILES, refuse_seeded
from scumble.public.archive.relations import ReleaseConnection, damaged, read_release_address
from scumble.public.release import Release

_LINKS = "_linked"


def check_can_write_linked(address: str, names: Sequence[str]) -> None:
    """Raise `ReleaseError` if releases of these tables cannot be written. Nothing is written: their
    tables are made in a transaction that is rolled back, as by `check_can_write`.
    """
    import pyarrow as pa

    example = {FILES[0]: pa.table({"count": [0]})}  # Synthesis publishes no other column
    with ReleaseConnection(read_release_address(address)) as connection:
        _check_free(connection, names)
        connection.begin()
        for name in names:
            with _of_table(connection, name):
                connection.write_examples(example)
        connection.write_json(_LINKS, {})


def save_linked_relation(
    releases: Mapping[str, Release], links: Mapping[str, Any], address: str, *, insecure: bool
) -> str:
    """Write the releases of several tables, and the links between them; return the address."""
    for release in releases.values():
        refuse_seeded(release.manifest.seeded, insecure)
    with ReleaseConnection(read_release_address(address, create=True)) as connection:
        connection.begin()
        _check_free(connection, list(releases))
        for name, release in releases.items():
            with _of_table(connection, name):
                connection.write(release)
        connection.write_json(_LINKS, links)
        connection.commit()
    return address


def read_links(address: str) -> dict[str, Any] | None:
    """Return the links between the releases at an address; None if there are none."""
    with ReleaseConnection(read_release_address(address)) as connection:
        return connection.read_json(_LINKS) if connection.exists(_LINKS) else None


def address_of_table(address: str, name: str) -> str:
    """Return the address of the release of one of several tables.

    The name may come from a table that anybody wrote: it must not change what else is addressed.
    """
    if not NAME.fullmatch(name):
        raise damaged(read_release_address(address))
    return other_table(address, f"_{name}", ReleaseError)


def _check_free(connection: ReleaseConnection, names: Sequence[str]) -> None:
    if connection.exists(_LINKS):
        raise ReleaseError(
            f"There are releases of several tables in {connection.target} already. Choose another "
            "name."
        )
    for name in names:
        with _of_table(connection, name):
            connection.check_free(force=False)


@contextmanager
def _of_table(connection: ReleaseConnection, name: str) -> Iterator[None]:
    """A context in which the connection is to the release of one of several tables."""
    whole = connection.target
    table = f"{whole.table}_{name}"
    if not NAME.fullmatch(table):
        raise ReleaseError(
            f"The table '{name}' cannot be kept in {whole}: names there have letters, digits and "
            "underscores, at most 50 of them. Rename it, or save to a folder."
        )
    connection.target = replace(whole, table=table)
    try:
        yield
    finally:
        connection.target = whole
