"""Files of a release: linked or copied, synced, moved into place all at once, and verified."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from scumble.model import stored
from scumble.model.errors import ReleaseError


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
