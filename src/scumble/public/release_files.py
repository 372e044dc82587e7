"""Files of a release: linked or copied, synced, moved into place all at once, and verified; and its
manifest as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.model import stored
from scumble.model.errors import ReleaseError, named

if TYPE_CHECKING:
    from scumble.public.release import Manifest


MANIFEST = "manifest.json"
_CONTENTS = "records tuples rows values cells sums tables regions strings keys strata"
FILES = tuple(f"{name}.parquet" for name in _CONTENTS.split())


def link_or_copy(source: Path, target: Path, *, temporary: bool) -> None:
    """Link a temporary file to its new place; copy a saved file."""
    try:
        if temporary:
            os.link(source, target)
            return
    except OSError:
        pass  # another file system, or one without hard links
    shutil.copyfile(source, target)


def sync(path: Path) -> None:
    """Write a file or folder through to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def swap(partial: Path, folder: Path) -> None:
    """Move the finished folder into place; an old one is moved aside first and removed last."""
    old = partial.with_name(partial.name + "-old")
    if folder.exists():
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def verify(folder: Path, files: Mapping[str, str]) -> None:
    """Raise `ReleaseError` unless all files are there and have these checksums."""
    for name, expected in files.items():
        if Path(name).name != name:
            raise ReleaseError(f"{folder} is damaged: it names a file outside of itself.")
        try:
            stored.check_regular(folder / name)
        except ValueError:
            raise ReleaseError(
                f"{folder} is damaged: {name} is a link or no ordinary file."
            ) from None
        except OSError:
            raise ReleaseError(f"{folder} is damaged: {name} is missing.") from None
        if digest(folder / name) != expected:
            raise ReleaseError(
                f"{folder} is damaged or was changed: {name} does not fit its checksum."
            )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_to_json(manifest: Manifest, files: Mapping[str, str]) -> dict[str, Any]:
    """Return a manifest as JSON values; `files` are the checksums of its data files."""
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


def digest_of_json(data: Mapping[str, Any]) -> str:
    """Return the checksum of JSON values, whatever the order of their keys."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_replaceable(folder: Path) -> None:
    """Raise `ReleaseError` unless the folder holds a release and no other file.

    `force` replaces a release, and never a file that something else put there.
    """
    if not (folder / MANIFEST).is_file():
        raise ReleaseError(
            f"{folder} exists and is not a release: not even {named('force')} replaces it."
        )
    own = {MANIFEST, *FILES}
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in own)
    if foreign:
        raise ReleaseError(
            f"{folder} holds files that are not part of a release ({', '.join(foreign[:3])}): "
            f"not even {named('force')} replaces it."
        )
