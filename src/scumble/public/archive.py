"""A release as a folder: `manifest.json` and its Parquet files, each with a checksum.

The checksums find damage and careless edits. They are no signature: who can write the folder can
also write new checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scumble.model.dialect import named, setting
from scumble.model.errors import ReleaseError, ScumbleError
from scumble.model.evidence.evidence import evidence
from scumble.model.privacy.guarantee import Guarantee, Guarantees
from scumble.model.schema.schema import Schema
from scumble.public.release import FORMAT, Manifest, Release

MANIFEST = "manifest.json"
FILES = (
    "records.parquet", "tuples.parquet", "rows.parquet", "values.parquet", "cells.parquet",
    "sums.parquet", "tables.parquet", "regions.parquet",
)  # fmt: skip


def save(release: Release, folder: Path, *, force: bool = False, insecure: bool = False) -> Path:
    """Write a release: all of it, or nothing."""
    refuse(release, folder, force=force, insecure=insecure)
    try:
        partial = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
        partial.mkdir(parents=True)
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        _fill(release, partial)
        _swap(partial, folder)
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def refuse(release: Release, folder: Path, *, force: bool = False, insecure: bool = False) -> None:
    """Complain about what must not be written, or not to that place."""
    if release.manifest.seeded and not insecure:
        raise ReleaseError(
            "This release was made with a fixed seed and is NOT PRIVATE: who knows the seed can "
            f"undo it. Publish without a seed, or say {setting('insecure', True)} for a test."
        )
    if folder.exists() and not force:
        raise ReleaseError(
            f"{folder} exists already. Choose another folder, or say {setting('force', True)} to "
            "replace it."
        )
    if folder.exists():
        refuse_strangers(folder)


def load(folder: str | Path) -> Release:
    """Open a release folder, and refuse one that is damaged or was changed."""
    path = Path(folder).resolve()
    if not path.is_dir():
        raise ReleaseError(f"{path} is not a folder. Give the folder that `publish` wrote.")
    try:
        text = (path / MANIFEST).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        hint = " It is a database: see `scumble db`." if (path / "ledger.sqlite").exists() else ""
        raise ReleaseError(
            f"{path} is not a release: it has no readable {MANIFEST}.{hint}"
        ) from None
    try:
        data = json.loads(text)
        version, checksum = data["format"], data.pop("checksum")
    except (ValueError, TypeError, KeyError, AttributeError):
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
        manifest = _manifest(data)
        files = dict(data["files"])
    except (ScumbleError, ValueError, TypeError, KeyError):
        raise ReleaseError(
            f"{path} is damaged: its {MANIFEST} does not describe a release."
        ) from None
    if not set(manifest.evidence.files) <= set(files):
        raise ReleaseError(f"{path} is damaged: its {MANIFEST} does not list its data.")
    _verify(path, files)
    return Release(manifest, path)


def refuse_strangers(folder: Path) -> None:
    """Force replaces a release, and never a file that somebody else put there."""
    if not (folder / MANIFEST).is_file():
        raise ReleaseError(
            f"{folder} exists and is not a release: not even {named('force')} replaces it."
        )
    own = {MANIFEST, *FILES}
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in own)
    if strangers:
        raise ReleaseError(
            f"{folder} holds files that are not part of a release ({', '.join(strangers[:3])}): "
            f"not even {named('force')} replaces it."
        )


def _fill(release: Release, folder: Path) -> None:
    names = release.evidence.files
    for name in names:
        _put(release.folder / name, folder / name, temporary=release.temporary)
    data = _data(release.manifest, {name: digest(folder / name) for name in names})
    data["checksum"] = _digest_of_json(data)
    text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, "utf-8")
    for path in (*(folder / name for name in names), folder / MANIFEST, folder):
        _to_disk(path)


def _put(source: Path, target: Path, *, temporary: bool) -> None:
    """A temporary file becomes the saved one; of a saved one, the new folder gets a copy of its
    own.
    """
    try:
        if temporary:
            os.link(source, target)
            return
    except OSError:
        pass  # another file system, or one without links
    shutil.copyfile(source, target)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(partial: Path, folder: Path) -> None:
    """Put the finished folder in place; an old one moves aside first and is removed last."""
    old = partial.with_name(partial.name + "-old")
    if folder.exists():
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    _to_disk(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _data(manifest: Manifest, files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "format": manifest.format,
        "software": manifest.software,
        "mechanism": manifest.mechanism,
        "parameters": dict(manifest.parameters),
        "seeded": manifest.seeded,
        "outside": manifest.outside,
        "guarantees": [guarantee.to_dict() for guarantee in manifest.guarantees],
        "schema": manifest.schema.to_dict(),
        "evidence": manifest.evidence.to_dict(),
        "report": dict(manifest.report),
        "files": dict(files),
    }


def _manifest(data: Mapping[str, Any]) -> Manifest:
    return Manifest(
        mechanism=data["mechanism"],
        parameters=data["parameters"],
        schema=Schema.from_dict(data["schema"]),
        guarantees=Guarantees(map(Guarantee.from_dict, data["guarantees"])),
        evidence=evidence(data["evidence"]),
        report=data["report"],
        outside=data["outside"],
        seeded=data["seeded"],
        software=data["software"],
        format=data["format"],
    )


def _verify(folder: Path, files: Mapping[str, str]) -> None:
    for name, expected in files.items():
        if Path(name).name != name:
            raise ReleaseError(f"{folder} is damaged: it names a file outside of itself.")
        if not (folder / name).is_file():
            raise ReleaseError(f"{folder} is damaged: {name} is missing.")
        if digest(folder / name) != expected:
            raise ReleaseError(
                f"{folder} is damaged or was changed: {name} does not fit its checksum."
            )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_json(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
