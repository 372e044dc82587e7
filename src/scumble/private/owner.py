"""OwnedRelease: a release that the owner of its table can continue, by further views or by
inserting and deleting records.

A release that can be continued has a private record, which the public parameter `update_record`
names: a file that is readable by the owner only, and never inside a release folder. That of Aroma
with `identifier` has the true values; that of AlphaBeta with `views` tells whether a table is the
same, and counts the views.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from scumble.model.errors import (
    OutputExistsError,
    ParameterError,
    ReleaseError,
    named,
    setting,
    writing,
)
from scumble.model.evidence.evidence import Evidence
from scumble.model.relational import is_address
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import check_jobs
from scumble.private.engines.open import release_noise
from scumble.private.manifest import (
    UPDATE_RECORD,
    WITHOUT_ITEMS,
    manifest_of,
    new_folder,
    remarks_of,
)
from scumble.private.mechanism import Mechanism, create
from scumble.private.sampling.source import Keystream
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from scumble.public.archive import archive
from scumble.public.archive.load import is_linked, load_any
from scumble.public.archive.relations import check_can_write
from scumble.public.close_categories import OTHER, close_categories
from scumble.public.manifest import FILES, refuse_seeded
from scumble.public.release import Release

Progress = Callable[[int], None]
_FOLDER_ONLY = "A release that can be continued is saved to a folder only."


@dataclass(repr=False)
class OwnedRelease(Release):
    """The result of `publish` and `open`: a release that the owner of the table can continue.

    A continued release is a new one. The old one stays as it is until the new one is saved in its
    place: `release.republish("people.csv").save("people-view", force=True)`.
    """

    update_record: Path | None = None  # the private record, if the release can be continued

    def __post_init__(self) -> None:
        super().__post_init__()
        written = self.folder / UPDATE_RECORD
        if self.temporary and self.update_record is None and written.exists():
            self.update_record = written

    def close_categories(self, schema: Schema, *, other: str = OTHER) -> Schema:
        """Return a schema in which the open categories have the values that this release named.

        `other` takes every value that was not named. Every mechanism can use the closed schema.
        """
        return close_categories(schema, self.schema, self.evidence, self.folder, other)

    def republish(
        self,
        source: Any,
        *,
        table: str | None = None,
        reveal: bool = False,
        seed: int | None = None,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> OwnedRelease:
        """Return the release with one more view of the same table; answers pool all views.

        Only for AlphaBeta with `views` above 1, and with the private record of the release
        (`update_record`). A table with other rows is refused, and so are two second views of one
        first view: the private record counts a view before it is returned. `jobs` is the number of
        processes that read rows; the release does not depend on it.
        """
        check_jobs("republish", jobs)
        mechanism = self._continued("republish", f"alphabeta with {setting('views', 2)} or more")
        rows = self._rows(source, table, reveal, progress)
        with new_folder() as folder, release_noise(rows, seed, jobs) as noise:
            evidence = mechanism.republish(
                self.evidence, self.folder, rows, noise, self.update_record, folder
            )
            if self.update_record is not None and self._unsaved_record:
                shutil.copy(self.update_record, folder / UPDATE_RECORD)
            found = self._next(mechanism, evidence, folder, noise, remarks_of(rows, evidence))
            found.update_record = found.update_record or self.update_record
            return found

    def insert(
        self,
        source: Any,
        *,
        table: str | None = None,
        reveal: bool = False,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> OwnedRelease:
        """Return the release with further records. A record that was in it before with the same
        value shows the same multiset again.

        Only for Aroma with `identifier`, and with the private record of the release
        (`update_record`).
        """
        mechanism = self._continued("insert", _updated())
        rows = self._rows(source, table, reveal, progress)
        with new_folder() as folder, release_noise(rows, seed, jobs=1) as noise:
            evidence = mechanism.insert(
                self.evidence, self.folder, rows, noise, self._private_record(), folder
            )
            return self._next(mechanism, evidence, folder, noise, remarks_of(rows, evidence))

    def delete(self, ids: Iterable[Any]) -> OwnedRelease:
        """Return the release without the records of the identifiers `ids`.

        Only for Aroma with `identifier`, and with the private record of the release
        (`update_record`).
        """
        if isinstance(ids, (str, bytes)):
            raise ParameterError.of("delete", "ids", "a list of identifiers", ids)
        mechanism = self._continued("delete", _updated())
        with new_folder() as folder:
            evidence = mechanism.delete(
                self.evidence, self.folder, list(ids), self._private_record(), folder
            )
            return self._next(mechanism, evidence, folder, None, ())

    def save(
        self,
        folder: str | Path,
        *,
        force: bool = False,
        insecure: bool = False,
        update_record: str | Path | None = None,
    ) -> Path | str:
        """Write the release to a folder of its own, or to a database, and return the place.

        An existing folder is replaced only with `force`. A release that can be continued has a
        private record, which is saved once, as the file `update_record`, never inside the folder. A
        release made with a fixed seed is refused unless `insecure` is true.
        """
        if self.update_record is not None and isinstance(folder, str) and is_address(folder):
            raise ReleaseError(_FOLDER_ONLY)
        place = self._record_place(Path(folder), update_record, force)
        if place is None or self.update_record is None or place == self.update_record:
            return super().save(folder, force=force, insecure=insecure)
        archive.check_can_save(self, Path(folder), force=force, insecure=insecure)
        with new_record(self.update_record, place) as waiting:
            saved = super().save(folder, force=force, insecure=insecure)
            # The old private record stays until the new release is written. After a crash at this
            # point the new one is still in the file `waiting` beside it.
            os.replace(waiting, place)
        self.update_record = place
        return saved

    def __reduce__(self) -> tuple[Any, ...]:
        if self._unsaved_record:
            raise ReleaseError(
                "This release can be continued, and its private record would be lost. Save it "
                "first, then pickle it."
            )
        restore, (kind, packed, _) = super().__reduce__()
        return restore, (kind, packed, {"update_record": self.update_record})

    def _record_place(
        self, folder: Path, update_record: str | Path | None, force: bool
    ) -> Path | None:
        if self.update_record is None:
            if update_record is not None:
                raise ParameterError("This release has no private record: it cannot be continued.")
            return None
        unsaved = self._unsaved_record
        if update_record is None and unsaved:
            raise ReleaseError(
                "This release can be continued, and its private record would be lost. Say where to "
                f"keep it with {named('update_record')}, outside the release folder."
            )
        place = self.update_record if update_record is None else Path(update_record).resolve()
        if not unsaved and place != self.update_record:
            raise ReleaseError(
                f"The private record of this release is kept in {self.update_record}, and a copy "
                f"would go another way: leave {named('update_record')} out."
            )
        refuse_record_place(place, folder, force=force or not unsaved)
        return place

    @property
    def _unsaved_record(self) -> bool:
        return self.update_record is not None and self.update_record.parent == self.folder

    def _continued(self, verb: str, needed: str) -> Any:
        """Return the mechanism of this release if it has the method `verb`, or raise
        ParameterError; `needed` says which mechanism has it.
        """
        manifest = self.manifest
        mechanism = create(manifest.mechanism, **manifest.parameters)
        if not hasattr(mechanism, verb):
            raise ParameterError(
                f"A release by {manifest.mechanism} has no {verb}: that needs {needed}."
            )
        return mechanism

    def _rows(
        self, source: Any, table: str | None, reveal: bool, progress: Progress | None
    ) -> Rows:
        added = {attribute.name for attribute in self.evidence.added}
        known = self.schema.select([name for name in self.schema.names if name not in added])
        opened = open_source(source, table=table)
        outside: Any = self.manifest.outside
        return Rows(opened, known, outside=outside, reveal=reveal, progress=progress)

    def _private_record(self) -> Path:
        if self.update_record is None:
            raise ReleaseError(
                "A release is updated with its private record: name it with "
                f"{named('update_record')}, when the release is opened."
            )
        return self.update_record

    def _next(
        self,
        mechanism: Mechanism,
        evidence: Evidence,
        folder: Path,
        noise: Keystream | None,
        remarks: tuple[str, ...],
    ) -> OwnedRelease:
        seeded = self.manifest.seeded or (noise is not None and noise.seeded)
        manifest = manifest_of(
            mechanism,
            evidence,
            self.schema,
            outside=self.manifest.outside,
            seeded=seeded,
            grouped=any(WITHOUT_ITEMS in each.limits for each in self.guarantees),
        )
        return OwnedRelease(manifest, folder, temporary=True, remarks=remarks)


def _updated() -> str:
    return f"aroma with {setting('identifier', 'COLUMN')}"


def open_release(folder: str | Path, *, update_record: str | Path | None = None) -> OwnedRelease:
    """Open a release folder and return the release. One that is damaged or was changed is refused.

    `update_record` is the file of the private record of a release that can be continued. Only the
    owner has it.
    """
    manifest, files, temporary = archive.read(folder)
    if update_record is not None and not Path(update_record).is_file():
        raise ReleaseError(
            f"{update_record} is not a file. Give the private record that `save` wrote."
        )
    place = None if update_record is None else Path(update_record).resolve()
    return OwnedRelease(manifest, files, temporary=temporary, update_record=place)


def open_saved(
    folder: str | Path, *, update_record: str | Path | None = None
) -> OwnedRelease | Any:
    """Open what `publish` saved: a release, or the releases of several tables (`LinkedRelease`).

    What is damaged or was changed is refused. `update_record` is the file of the private record of
    a release that can be continued. Only the owner has it.
    """
    if update_record is None and is_linked(folder):
        return load_any(folder)
    return open_release(folder, update_record=update_record)


def check_address(
    address: str, mechanism: Mechanism, schema: Schema, *, seeded: bool = False, force: bool = False
) -> None:
    """Raise ReleaseError if a release by this mechanism cannot be saved to the address of a table.

    This is asked before a ledger is charged: a release that cannot be saved is lost.
    """
    refuse_seeded(seeded, insecure=False)
    if mechanism.private_record:
        raise ReleaseError(_FOLDER_ONLY)
    layout = mechanism.layout(schema) or {FILES[0]: ("count",)}
    examples = {file: _example(columns) for file, columns in layout.items()}
    check_can_write(address, examples, force=force)


def _example(columns: Iterable[Attribute | str]) -> pa.Table:
    """Return two rows of a file: one with the longest texts that can be in it, one with all their
    characters.
    """
    found: dict[str, pa.Array] = {}
    for column in columns:
        if isinstance(column, str):
            found[column] = pa.array([0, 0], pa.int64())
        elif pa.types.is_string(column.arrow_type):
            texts = [""] if column.open else column.labels().drop_null().to_pylist()
            longest = max(texts, key=lambda text: len(text.encode()), default="")
            found[column.name] = pa.array([longest, "".join(sorted(set().union(*texts)))])
        else:
            found[column.name] = pa.array([0, 0], pa.int32()).cast(column.arrow_type)
    return pa.table(found)


def refuse_record_place(record: Path, folder: Path, *, force: bool) -> None:
    """Raise ReleaseError if the private record would be written inside a release folder (`folder`
    or another one), or, without `force`, over an existing file.
    """
    place = record.resolve()
    released = any((parent / archive.MANIFEST).exists() for parent in place.parents)
    if released or place.is_relative_to(folder.resolve()):
        raise ReleaseError("The private record must be kept outside of release folders.")
    if place.exists() and not force:
        raise OutputExistsError.of(place)


@contextmanager
def new_record(record: Path, place: Path) -> Iterator[Path]:
    """Copy a private record to a new file beside `place`, readable by its owner only, and sync it
    to disk. The copy is deleted on exit, unless the caller has moved it to `place`.
    """
    waiting = place.with_name(f".{place.name}-{secrets.token_hex(8)}.new")
    with writing(place, ReleaseError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with (
            writing(place, ReleaseError),
            os.fdopen(handle, "wb") as target,
            record.open("rb") as source,
        ):
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        yield waiting
    finally:
        waiting.unlink(missing_ok=True)
