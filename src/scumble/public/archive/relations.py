"""A release in PostgreSQL: a table for each of its files, and one for its manifest.

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scumble.model import stored
from scumble.model.errors import ReleaseError, setting
from scumble.model.relational import (
    DatabaseError,
    Postgres,
    Target,
    driver_errors,
    failure_of,
    read_target,
)
from scumble.public.archive.archive import manifest_from_json, manifest_to_json, refuse_seeded
from scumble.public.release import FORMAT, Manifest, Release

if TYPE_CHECKING:
    import pyarrow as pa

POSITION = "_position"
_MANIFEST = "_manifest"
_LONGEST = 64 << 20  # characters of a manifest


def read_release_address(address: str) -> Target:
    """Return the table that an address names; raise `ReleaseError` if it names none."""
    return read_target(address, ReleaseError)


def check_can_write(address: str, *, force: bool = False) -> None:
    """Raise `ReleaseError` if a release cannot be written there. Nothing is written."""
    target = read_release_address(address)
    with ReleaseConnection(target) as connection:
        connection.check_free(force=force)


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
    target = read_release_address(address)
    refuse_seeded(release.manifest.seeded, insecure)
    with ReleaseConnection(target) as connection:
        connection.begin()
        connection.check_free(force=force)
        connection.drop_release()
        connection.write(release)
        connection.commit()
    return address


def read_relation(address: str) -> tuple[Manifest, Path]:
    """Read a release into files of a new temporary folder; return its manifest and the folder.

    Raises `ReleaseError` if the tables are damaged or were changed.
    """
    target = read_release_address(address)
    folder = Path(tempfile.mkdtemp(prefix="scumble-"))
    try:
        with ReleaseConnection(target) as connection:
            connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            manifest = _copy_release(connection, folder)
        return manifest, folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_release(connection: ReleaseConnection, folder: Path) -> Manifest:
    """Write the files of a release to a folder, and return its manifest."""
    manifest, tables = connection.manifest()
    try:
        for name, described in tables.items():
            connection.copy_to(folder / name, described)
    except stored.MALFORMED:
        raise damaged(connection.target) from None
    return manifest


def _suffixes(manifest: Manifest) -> dict[str, str]:
    """Return the suffix of the table of each file; the first file has none."""
    first, *others = manifest.evidence.files
    return {first: "", **{name: f"_{Path(name).stem}" for name in others}}


def _tables(data: Mapping[str, Any], manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return what a manifest says of the table of each file; raise `ValueError` for other tables.

    The manifest may have been written by anybody: no name of a table is taken from it.
    """
    found = {name: stored.table(each) for name, each in stored.table(data["tables"]).items()}
    if {name: each["suffix"] for name, each in found.items()} != _suffixes(manifest):
        raise ValueError("other tables than those of the files of the evidence")
    return found


class ReleaseConnection:
    """A connection to the tables of a release. Errors become `ReleaseError` without their words."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._written: dict[str, str] = {}  # the digests of JSON values, by the name of their table
        try:
            self._postgres = Postgres(target.database)
        except DatabaseError as error:
            raise self._unusable(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._postgres.close()  # the server rolls back what was not committed

    def run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        try:
            return self._postgres.run(sql, *parameters)
        except DatabaseError as error:
            raise self._unusable(error) from None

    def begin(self) -> None:
        """Begin to write: one at a time, and after transactions whose connection was lost."""
        name = f"scumble release {self.target.relation()}"
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self.run("BEGIN")
        self.run("SELECT pg_advisory_xact_lock($1)", number)

    def commit(self) -> None:
        """End the transaction. If the reply is lost, look up whether the server has committed."""
        try:
            self._postgres.run("COMMIT")
            return
        except DatabaseError as error:
            failure = error
        if not failure.lost:
            raise self._unusable(failure)
        try:
            with type(self)(self.target) as again:
                again.begin()
                there = all(again._holds(*each) for each in self._written.items())
        except ReleaseError:
            raise ReleaseError(
                f"The connection was lost while a release was written to {self.target}, and it is "
                "not known whether it is there. Look before you publish again: its charge stays."
            ) from None
        if not there:
            raise self._unusable(failure)

    def _holds(self, relation: str, digest: str) -> bool:
        """Whether a table of JSON values has the content with this digest."""
        if self.run("SELECT to_regclass($1) IS NULL", relation) == [(True,)]:
            return False
        return self.run(f"SELECT digest FROM {relation}") == [(digest,)]

    def exists(self, suffix: str = "") -> bool:
        name = self.target.relation(suffix)
        return self.run("SELECT to_regclass($1) IS NOT NULL", name) == [(True,)]

    def check_schema(self) -> None:
        """Raise `ReleaseError` if there is no schema for the table."""
        schema = self.target.schema
        if self.run("SELECT to_regnamespace($1) IS NULL", f'"{schema}"') == [(True,)]:
            raise ReleaseError(
                f"There is no schema {schema} in {self.target.database}. Create it first, or name "
                "another one."
            )

    def check_free(self, *, force: bool) -> None:
        """Raise `ReleaseError` if there is a table that must not be replaced, or no schema."""
        self.check_schema()
        release = self.exists(_MANIFEST)
        if self.exists() and not release:
            raise ReleaseError(
                f"There is a {self.target}, which is no release, and is not replaced. Choose "
                "another name."
            )
        if release and not force:
            raise ReleaseError(
                f"There is a release in {self.target} already. Choose another name, or say "
                f"{setting('force', True)} to replace it."
            )

    def drop_release(self) -> None:
        """Drop the tables of the release that is there, if there is one."""
        if self.exists(_MANIFEST):
            manifest, _ = self.manifest()
            for suffix in (_MANIFEST, *_suffixes(manifest).values()):
                self.run(f"DROP TABLE IF EXISTS {self.target.relation(suffix)}")

    def write(self, release: Release) -> None:
        """Create the tables of a release."""
        described = {
            name: self.copy_from(release.folder / name, suffix)
            for name, suffix in _suffixes(release.manifest).items()
        }
        self.write_json(_MANIFEST, {**manifest_to_json(release.manifest, {}), "tables": described})

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

    def ingest(self, suffix: str, batches: pa.RecordBatchReader) -> None:
        """Create a table from batches, by COPY."""
        name, failure = self.target.table + suffix, None
        try:
            with self._postgres.connection.cursor() as cursor:
                cursor.adbc_ingest(name, batches, "create", db_schema_name=self.target.schema)
        except driver_errors() as error:
            failure = failure_of(error)
        if failure is not None:
            raise self._unusable(failure)

    def copy_from(self, path: Path, suffix: str) -> dict[str, Any]:
        """Create the table of a Parquet file, and return its entry in the manifest."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            content = ContentDigest(file.schema_arrow)
            self.ingest(suffix, _numbered(file, content))
        self.run(f'ALTER TABLE {self.target.relation(suffix)} ADD PRIMARY KEY ("{POSITION}")')
        return {"suffix": suffix, **content.to_dict()}

    def copy_to(self, path: Path, described: Mapping[str, Any]) -> None:
        """Write the Parquet file that a table stands for; `described` is its entry."""
        import pyarrow.parquet as pq

        schema = _schema(described["columns"])
        content = ContentDigest(schema)
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
        relation = self.target.relation(described["suffix"])
        sql = f'SELECT {names} FROM {relation} ORDER BY "{POSITION}"'
        with pq.ParquetWriter(path, schema) as file:
            for batch in self._stream(sql):
                plain = _cast(batch, schema)
                content.add(plain)
                file.write_batch(plain)
        if content.to_dict() != {name: described[name] for name in ("columns", "digest")}:
            raise damaged(self.target)

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        failure = None
        try:
            with self._postgres.connection.cursor() as cursor:
                cursor.execute(sql)
                yield from cursor.fetch_record_batch()
        except driver_errors() as error:
            failure = failure_of(error)
        if failure is not None:
            raise self._unusable(failure)

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
        self._columns = [[each.name, str(each.type)] for each in schema]
        if POSITION in schema.names:
            raise ReleaseError(f"A column cannot be called {POSITION} in PostgreSQL.")
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
    import pyarrow as pa

    yield column.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False).tobytes()
    if pa.types.is_string(column.type):
        texts = [b"" if text is None else text.encode() for text in column.to_pylist()]
        yield b"".join(len(text).to_bytes(8, "little") for text in texts)
        yield b"".join(texts)
    elif pa.types.is_list(column.type):
        rows = [[] if row is None else row for row in column.to_pylist()]
        yield b"".join(len(row).to_bytes(8, "little") for row in rows)
        yield json.dumps([value for row in rows for value in row])[1:-1].encode() + b","
    else:
        plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
        wide = plain.cast(pa.float64() if pa.types.is_floating(plain.type) else pa.int64())
        yield wide.fill_null(0).to_numpy(zero_copy_only=False).tobytes()


def _schema(columns: Sequence[Sequence[str]]) -> pa.Schema:
    """Return the Arrow schema of columns, given by their names and types."""
    import pyarrow as pa

    plain = (pa.bool_(), pa.date32(), pa.float64(), pa.int16(), pa.int32(), pa.int64(), pa.string())
    known = {str(each): each for each in plain}
    element = pa.list_(pa.field("element", pa.int32()))
    known |= {str(element): element}
    try:
        return pa.schema([(stored.text(name), known[kind]) for name, kind in columns])
    except KeyError as error:
        raise ReleaseError(
            f"A release with values of the type {error.args[0]} cannot be kept in PostgreSQL. Save "
            "it to a folder."
        ) from None


def _numbered(file: Any, content: ContentDigest) -> pa.RecordBatchReader:
    """Return the rows of a Parquet file with their positions; `content` takes their values."""
    import numpy as np
    import pyarrow as pa

    schema = file.schema_arrow.remove_metadata()
    numbered = pa.schema([(POSITION, pa.int64()), *schema])

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in file.iter_batches(1 << 16):
            content.add(batch)
            places = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays([places, *batch.columns], schema=numbered)

    return pa.RecordBatchReader.from_batches(numbered, batches())


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of the driver with the types of the release."""
    import pyarrow as pa

    arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
