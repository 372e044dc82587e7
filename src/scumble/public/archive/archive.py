"""Saving and opening a release: a folder with `manifest.json` and its Parquet files.

Each file has a checksum in the manifest. The checksums detect damage and careless edits. They are
not a signature: anyone who can write to the folder can also write new checksums.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

from scumble.model import stored
from scumble.model.errors import OutputExistsError, ReleaseError, ScumbleError, named, writing
from scumble.model.relational import is_address
from scumble.public.archive.files import digest, link_or_copy, swap, sync, verify
from scumble.public.archive.promises import check_promises
from scumble.public.archive.relations import read_relation, save_relation
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

MANIFEST = "manifest.json"
LINKS = "linked.json"  # in a folder with the releases of several tables


def save(
    release: Release, place: str | Path, *, force: bool = False, insecure: bool = False
) -> Path | str:
    """Write a release to a folder or an address, completely or not at all; return the place."""
    if isinstance(place, str) and is_address(place):
        return save_relation(release, place, force=force, insecure=insecure)
    folder = Path(place)
    check_can_save(release, folder, force=force, insecure=insecure)
    partial = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        with writing(folder, ReleaseError):
            partial.mkdir(parents=True)
            _write_files(release, partial)
            swap(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def check_can_save(
    release: Release, folder: Path, *, force: bool = False, insecure: bool = False
) -> None:
    """Raise `ReleaseError` if the release must not be written, or not to that folder."""
    refuse_seeded(release.manifest.seeded, insecure)
    check_folder(folder, force=force)


def check_folder(folder: Path, *, force: bool = False) -> None:
    """Raise `ReleaseError` unless a release may go to the folder: a new or empty one, or with
    `force` one that holds a release.
    """
    check_new_place(folder)
    if is_free(folder):
        return
    check_replaceable(folder)
    if not force:
        raise OutputExistsError.of(folder)


def check_new_place(folder: Path) -> None:
    """Raise `ReleaseError` for the folder in which the command runs, as by an empty name."""
    if folder.absolute() == Path.cwd():
        raise ReleaseError(
            "A release goes to a folder of its own, not to the current one: name it."
        )


def is_free(folder: Path) -> bool:
    """Return whether there is nothing at a path, or an empty folder."""
    with writing(folder, ReleaseError):
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def read(place: str | Path, *, as_stated: bool = False) -> tuple[Manifest, Path, bool]:
    """Return the manifest of a release, the folder of its files, and whether it is temporary.

    A release at an address is read into a temporary folder. `as_stated` as in `load`.
    """
    if isinstance(place, str) and is_address(place):
        return (*read_relation(place, as_stated=as_stated), True)
    manifest, folder = _read_folder(place)
    if not as_stated:
        check_promises(str(folder), manifest, folder)
    return manifest, folder, False


def _read_folder(folder: str | Path) -> tuple[Manifest, Path]:
    path = Path(folder).resolve()
    if not path.is_dir():
        what = f"{path} is not a folder" if path.exists() else f"There is no folder {path}"
        raise ReleaseError(f"{what}. Give the folder that `publish` wrote.")
    try:
        text = stored.read_regular(path / MANIFEST).decode("utf-8")
    except (OSError, ValueError):
        hint = " It is a database: see `scumble db`." if (path / "ledger.sqlite").exists() else ""
        hint = (
            " It has several tables: give the folder of one." if (path / LINKS).exists() else hint
        )
        raise ReleaseError(
            f"{path} is not a release: it has no readable {MANIFEST}.{hint}"
        ) from None
    try:
        data = stored.parse_json(text)
        stored.check_visible(data)
        version, checksum = data["format"], data.pop("checksum")
    except stored.MALFORMED:
        raise ReleaseError(f"{path} is damaged: its {MANIFEST} cannot be read.") from None
    if version != FORMAT:
        raise ReleaseError(
            f"{path} has format {version!r}; this version of scumble reads format {FORMAT}. "
            "Upgrade scumble."
        )
    if _digest_of_json(data) != checksum:
        raise ReleaseError(
            f"{path} is damaged or was changed: {MANIFEST} does not fit its checksum."
        )
    try:
        manifest = manifest_from_json(data)
        files = {stored.text(name): stored.text(each) for name, each in data["files"].items()}
    except (ScumbleError, *stored.MALFORMED):
        raise ReleaseError(
            f"{path} is damaged: its {MANIFEST} does not describe a release."
        ) from None
    if not set(manifest.evidence.files) <= set(files):
        raise ReleaseError(f"{path} is damaged: its {MANIFEST} does not list its data.")
    verify(path, files)
    check_values(str(path), manifest.schema, manifest.evidence, path)
    return manifest, path


def check_replaceable(folder: Path) -> None:
    """Raise `ReleaseError` unless the folder holds a release and no other file.

    `force` replaces a release, and never a file that something else put there.
    """
    if not (folder / MANIFEST).is_file():
        raise ReleaseError(
            f"{folder} exists and is not a release: not even {named('force')} replaces it. "
            "Choose another folder."
        )
    own = {MANIFEST, *FILES}
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in own)
    if foreign:
        raise ReleaseError(
            f"{folder} holds files that are not part of a release ({', '.join(foreign[:3])}): "
            f"not even {named('force')} replaces it."
        )


def pack(release: Release) -> dict[str, bytes]:
    """Return the files of a release by name, as `save` writes them."""
    with TemporaryDirectory(prefix="scumble-") as name:
        _write_files(release, Path(name))
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def unpack(files: Mapping[str, bytes]) -> tuple[Manifest, Path]:
    """Write the files of `pack` to a temporary folder; return the manifest and the folder."""
    folder = Path(mkdtemp(prefix="scumble-"))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        manifest, folder, _ = read(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest, folder


def _write_files(release: Release, folder: Path) -> None:
    names = release.evidence.files
    for name in names:
        link_or_copy(release.folder / name, folder / name, temporary=release.temporary)
    data = manifest_to_json(release.manifest, {name: digest(folder / name) for name in names})
    data["checksum"] = _digest_of_json(data)
    text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, "utf-8")
    for path in (*(folder / name for name in names), folder / MANIFEST, folder):
        sync(path)


def _digest_of_json(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
