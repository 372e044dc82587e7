"""A release in PostgreSQL or SQLite: a table for each of its files, and one for its manifest.

All of them are written in one transaction, and read in one. The first file has the name of the
release, the others and the manifest that name and a suffix. `_position` is the order of the rows in
the file. Anybody who may read the tables can use them by plain SQL; `load` makes the files of the
release from them and compares their content with the digests in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model import stored
from scumble.model.errors import OutputExistsError, ReleaseError
from scumble.model.relational import (
    NAME,
    DatabaseConnection,
    DatabaseError,
    Target,
    other_table,
    read_place,
)
from scumble.public.archive.dialects import DIALECTS
from scumble.public.archive.promises import check_promises
from scumble.public.archive.row_values import check_values
from scumble.public.manifest import (
    FILES,
    FORMAT,
    Manifest,
    manifest_from_json,
    manifest_to_json,
    refuse_seeded,
)

if TYPE_CHECKING:
    from scumble.public.release import Release


POSITION = "_position"
_MANIFEST = "_manifest"
_REQUIRED = " not null"  # after the type of a column in which no value is missing
_LONGEST = 64 << 20  # characters of a manifest


def read_release_address(address: str, *, create: bool = False) -> Target:
    """Return the table that an address names; raise `ReleaseError` if it names none. `create` lets
    a connection make the file of SQLite.
    """
    return read_place(address, ReleaseError, create=create)


def check_can_write(
    address: str, examples: Mapping[str, pa.Table] | None = None, *, force: bool = False
) -> None:
    """Raise `ReleaseError` if a release cannot be written there. Nothing is written.

    `examples` has a few rows of each file, with all its columns: their tables are made in a
    transaction that is rolled back, since only the database knows all its limits.
    """
    target = read_release_address(address)
    with ReleaseConnection(target) as connection:
        connection.check_free(force=force)
        if examples:
            connection.begin()
            connection.drop_release()
            connection.write_examples(examples)


def is_release(address: str) -> bool:
    """Whether there is a release at an address."""
    with ReleaseConnection(read_release_address(address)) as connection:
        return connection.exists(_MANIFEST)


def save_relation(
    release: Release, address: str, *, force: bool = False, insecure: bool = False
) -> str:
    """Write the tables of a release in one transaction, and return the address.

    An existing release is replaced only with `force`, and a table that is no release never.
    """
    target = read_release_address(address, create=True)
    refuse_seeded(release.manifest.seeded, insecure)
    with ReleaseConnection(target) as connection:
        connection.begin()
        connection.check_free(force=force)
        connection.drop_release()
        connection.write(release)
        connection.commit()
    return address


def read_relation(address: str, *, as_stated: bool = False) -> tuple[Manifest, Path]:
    """Read a release into files of a new temporary folder; return its manifest and the folder.

    Raises `ReleaseError` if the tables are damaged or were changed.
    """
    target = read_release_address(address)
    folder = Path(tempfile.mkdtemp(prefix="scumble-"))
    try:
        with ReleaseConnection(target) as connection:
            connection.begin_reading()
            manifest = _copy_release(connection, folder, as_stated)
        return manifest, folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_release(connection: ReleaseConnection, folder: Path, as_stated: bool) -> Manifest:
    """Write the files of a release to a folder, and return its manifest."""
    manifest, tables = connection.manifest()
    try:
        for name, described in tables.items():
            connection.copy_to(folder / name, described)
    except stored.MALFORMED:
        raise damaged(connection.target) from None
    place = f"The release in {connection.target}"
    check_values(place, manifest.schema, manifest.evidence, folder)
    if not as_stated:
        check_promises(place, manifest, folder)
    return manifest


def _suffixes(files: Iterable[str]) -> dict[str, str]:
    """Return the suffix of the table of each file; the first file has none."""
    first, *others = files
    return {first: "", **{name: f"_{Path(name).stem}" for name in others}}


def _tables(data: Mapping[str, Any], manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return what a manifest says of the table of each file; raise `ValueError` for other tables.

    The manifest may have been written by anybody: no name of a table is taken from it.
    """
    found = {name: stored.table(each) for name, each in stored.table(data["tables"]).items()}
    if {name: each["suffix"] for name, each in found.items()} != _suffixes(manifest.evidence.files):
        raise ValueError("other tables than those of the files of the evidence")
    return found


class ReleaseConnection:
    """A connection to the tables of a release. Errors become `ReleaseError` without their words."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._dialect = DIALECTS[target.database.system]
        self._written: dict[str, str] = {}  # the digests of JSON values, by the name of their table
        path = target.database.path
        self._new_file = path is not None and not path.exists()
        with self._told():
            self._database = DatabaseConnection(target.database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is not None and self._new_file:
            self._dialect.abandon(self._database, self.target)
        self._database.close()  # what was not committed is rolled back

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise `ReleaseError` in place of errors of the database."""
        try:
            yield
        except DatabaseError as error:
            raise self._unusable(error) from None

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._told():
            return self._database.run(sql, *parameters)

    def begin(self) -> None:
        """Begin to write: one at a time, and after transactions whose connection was lost."""
        path = self.target.database.path
        with self._told():
            try:
                self._dialect.begin_writing(self._database, self.target)
            except DatabaseError:
                if path is None or path.exists():
                    raise
                # Another connection made the file, failed, and has removed it.
                self._database.close()
                self._database = DatabaseConnection(self.target.database)
                self._dialect.begin_writing(self._database, self.target)

    def begin_reading(self) -> None:
        """Begin to read one snapshot."""
        with self._told():
            self._dialect.begin_reading(self._database)

    def commit(self) -> None:
        """End the transaction. If the reply is lost, look up whether the server has committed."""
        try:
            self._database.run("COMMIT")
            return
        except DatabaseError as error:
            failure = error
        if not failure.lost:
            raise self._unusable(failure)
        try:
            with type(self)(self.target) as again:
                again.begin()
                there = self._is_written(again)
        except ReleaseError:
            raise self._unknown() from None
        if not there:
            raise self._unusable(failure)

    def _is_written(self, again: Self) -> bool:
        """Whether another connection finds what this one wrote."""
        return all(
            again.exists_relation(relation)
            and again.run(f"SELECT digest FROM {relation}") == [(digest,)]
            for relation, digest in self._written.items()
        )

    def _unknown(self) -> ReleaseError:
        return ReleaseError(
            f"The connection was lost while a release was written to {self.target}, and it is "
            "not known whether it is there. Look before you publish again: its charge stays."
        )

    def exists(self, suffix: str = "") -> bool:
        return self.exists_relation(self.target.relation(suffix))

    def exists_relation(self, relation: str) -> bool:
        with self._told():
            return self._dialect.exists(self._database, relation)

    def check_place(self) -> None:
        """Raise `ReleaseError` if there is no schema for the table, or its file is read-only."""
        with self._told():
            self._dialect.check_place(self._database, self.target)

    def check_free(self, *, force: bool) -> None:
        """Raise `ReleaseError` if there is a table that must not be replaced, or no schema."""
        self.check_place()
        release = self.exists(_MANIFEST)
        if self.exists() and not release:
            raise ReleaseError(
                f"There is a {self.target}, which is no release, and is not replaced. Choose "
                "another name."
            )
        if release and not force:
            raise OutputExistsError.of(f"The release in {self.target}")

    def drop_release(self) -> None:
        """Drop the tables of the release that is there, if there is one."""
        if self.exists(_MANIFEST):
            manifest, _ = self.manifest()
            for suffix in (_MANIFEST, *_suffixes(manifest.evidence.files).values()):
                self.run(f"DROP TABLE IF EXISTS {self.target.relation(suffix)}")

    def write(self, release: Release) -> None:
        """Create the tables of a release."""
        described = {
            name: self.copy_from(release.folder / name, suffix)
            for name, suffix in _suffixes(release.evidence.files).items()
        }
        self.write_json(_MANIFEST, {**manifest_to_json(release.manifest, {}), "tables": described})

    def write_examples(self, examples: Mapping[str, pa.Table]) -> None:
        """Create the tables of a release from a few rows of each file."""
        for name, suffix in _suffixes(examples).items():
            self._create(suffix, examples[name].schema, examples[name].to_batches())
        self.write_json(_MANIFEST, {})

    def write_json(self, suffix: str, data: Mapping[str, Any]) -> None:
        """Create a table with JSON values and their digest."""
        text = json.dumps(data, ensure_ascii=False, sort_keys=True)
        name = self.target.relation(suffix)
        self.run(f"CREATE TABLE {name} (content text, digest text)")
        self._written[name] = _sha256(text)
        self.run(f"INSERT INTO {name} VALUES ($1, $2)", text, self._written[name])

    def read_json(self, suffix: str) -> dict[str, Any]:
        """Return the JSON values in a table that `write_json` wrote, if they fit their digest."""
        found = self.run(f"SELECT content, digest FROM {self.target.relation(suffix)}")
        if len(found) != 1 or not isinstance(found[0][0], str) or len(found[0][0]) > _LONGEST:
            raise damaged(self.target)
        [(text, digest)] = found
        if _sha256(text) != digest:
            raise damaged(self.target)
        try:
            data = stored.table(stored.parse_json(text))
            stored.check_visible(data)
        except stored.MALFORMED:
            raise damaged(self.target) from None
        return data

    def manifest(self) -> tuple[Manifest, dict[str, dict[str, Any]]]:
        """Return the manifest and what it says of each table, if it fits its digest."""
        if not self.exists(_MANIFEST):
            raise ReleaseError(f"There is no release in {self.target}.")
        data = self.read_json(_MANIFEST)
        try:
            if data.get("format") != FORMAT:
                raise ReleaseError(
                    f"The release in {self.target} has another format than {FORMAT}, the one that "
                    "this version of scumble reads. Upgrade scumble."
                )
            manifest = manifest_from_json(data)
            return manifest, _tables(data, manifest)
        except stored.MALFORMED:
            raise damaged(self.target) from None

    def copy_from(self, path: Path, suffix: str) -> dict[str, Any]:
        """Create the table of a Parquet file, and return its entry in the manifest."""
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow.remove_metadata()
            content = self._create(suffix, schema, file.iter_batches(1 << 16))
        return {"suffix": suffix, **content.to_dict()}

    def _create(
        self, suffix: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> ContentDigest:
        """Create a table, and return the digest of its rows."""
        content = ContentDigest(schema)
        rows = _numbered(schema, batches, content)
        with self._told():
            self._dialect.create(self._database, self.target, suffix, rows, key=POSITION)
        return content

    def copy_to(self, path: Path, described: Mapping[str, Any]) -> None:
        """Write the Parquet file that a table stands for; `described` is its entry."""
        schema = _schema(described["columns"])
        content = ContentDigest(schema)
        relation = self.target.relation(described["suffix"])
        with pq.ParquetWriter(path, schema) as file, self._told():
            for batch in self._dialect.rows(self._database, relation, POSITION, schema):
                content.add(batch)
                file.write_batch(batch)
        if content.to_dict() != {name: described[name] for name in ("columns", "digest")}:
            raise damaged(self.target)

    def _unusable(self, failure: DatabaseError) -> ReleaseError:
        return ReleaseError(f"The release in {self.target} cannot be used: {failure.reason}.")


def damaged(target: Target) -> ReleaseError:
    """Return the error for tables that do not fit their digests."""
    return ReleaseError(f"The release in {target} is damaged or was changed.")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- rows -----------------------------------------------------------------------------------------


class ContentDigest:
    """A digest of the values of a table in their order, whatever batches they come in."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [[each.name, _kind(each)] for each in schema]
        if POSITION in schema.names:
            raise ReleaseError(f"A column cannot be called {POSITION} in a database.")
        _schema(self._columns)  # every type is one that can be read again
        self._hashes = [[hashlib.sha256() for _ in range(3)] for _ in self._columns]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch."""
        for hashes, column in zip(self._hashes, batch.columns, strict=True):
            for each, part in zip(hashes, _parts(column), strict=False):
                each.update(part)

    def to_dict(self) -> dict[str, Any]:
        together = hashlib.sha256(json.dumps(self._columns).encode())
        for hashes in self._hashes:
            for each in hashes:
                together.update(each.digest())
        return {"columns": self._columns, "digest": together.hexdigest()}


def _parts(column: pa.Array) -> Iterator[bytes]:
    """Yield the validity of each value, then fixed-width values, or lengths and contents."""
    yield column.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False).tobytes()
    if pa.types.is_string(column.type):
        texts = [b"" if text is None else text.encode() for text in column.to_pylist()]
        yield b"".join(len(text).to_bytes(8, "little") for text in texts)
        yield b"".join(texts)
    elif pa.types.is_list(column.type):
        yield column.value_lengths().fill_null(0).cast(pa.int64()).to_numpy().tobytes()
        yield column.flatten().cast(pa.int64()).to_numpy().tobytes()
    else:
        plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
        wide = plain.cast(pa.float64() if pa.types.is_floating(plain.type) else pa.int64())
        numbers = wide.fill_null(0).to_numpy(zero_copy_only=False)
        yield (numbers + 0).tobytes()  # -0.0 is kept as 0.0 by SQLite


def _kind(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else _REQUIRED}"


def _schema(columns: Sequence[Sequence[str]]) -> pa.Schema:
    """Return the Arrow schema of columns, given by their names and types, which say whether a value
    may be missing.
    """
    plain = (pa.bool_(), pa.date32(), pa.float64(), pa.int16(), pa.int32(), pa.int64(), pa.string())
    lists = [pa.list_(pa.field("element", each)) for each in (pa.int32(), pa.int64())]
    known = {str(each): (each, True) for each in (*plain, *lists)}
    known |= {f"{each}{_REQUIRED}": (each, False) for each in plain}
    try:
        return pa.schema([pa.field(stored.text(name), *known[kind]) for name, kind in columns])
    except KeyError as error:
        raise ReleaseError(
            f"A release with values of the type {error.args[0]} cannot be kept in a database. Save "
            "it to a folder."
        ) from None


def _numbered(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], content: ContentDigest
) -> pa.RecordBatchReader:
    """Return rows with their positions; `content` takes their values."""
    numbered = pa.schema([(POSITION, pa.int64()), *schema])

    def rows() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            content.add(batch)
            places = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([places, *batch.columns], schema=numbered)

    return pa.RecordBatchReader.from_batches(numbered, rows())


# --- releases of several tables -------------------------------------------------------------------
#
# The releases of several tables in a database: each as one release, and one table with the links.
#
# The release of the table `visits` at `.../schema.hospital` is `.../schema.hospital_visits`. All
# are written in one transaction.

_LINKS = "_linked"


def check_can_write_linked(address: str, names: Sequence[str]) -> None:
    """Raise `ReleaseError` if releases of these tables cannot be written. Nothing is written: their
    tables are made in a transaction that is rolled back, as by `check_can_write`.
    """
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
        raise OutputExistsError.of(
            f"A release of several tables in {connection.target}", "Choose another name."
        )
    for name in names:
        with _of_table(connection, name):
            try:
                connection.check_free(force=False)
            except OutputExistsError:
                raise OutputExistsError.of(
                    f"The release in {connection.target}", "Choose another name."
                ) from None


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
