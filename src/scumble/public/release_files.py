"""Files of a release: linked or copied, synced, and moved into place all at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


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
