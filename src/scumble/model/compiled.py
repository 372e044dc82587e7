"""Loops that numba compiles: the one place through which compiled code is reached.

    @kernel
    def count_ones(words, counts, ones, row, left): ...

Importing a file of kernels is cheap: numba is imported when one of them is first called. A kernel
may call kernels, also those of other files.

Compiled code is kept in the user's cache folder (`cache_folder`). numba finds it by the signature,
the source file of the kernel, the processor and its own version. It does not see that a called
kernel or a constant of another file has changed. So the code lies in a folder named by a hash of
the files of the kernels that may be called and of the versions of scumble and numpy. A constant of
a kernel belongs into a file of kernels: elsewhere only another version of scumble makes it seen.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from scumble._version import __version__

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()


class kernel(Generic[P, R]):  # noqa: N801  # it is used as a decorator
    """A loop that numba compiles, or reads from the cache, at the first call."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function: Any = function
        self._dispatcher: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, (self._dispatcher or self.compiled)(*args, **kwargs))

    @property
    def compiled(self) -> Any:
        """The loop as compiled by numba."""
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = _make_dispatcher(self)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What numba asks a global for: a kernel that calls this one calls the compiled loop."""
        return self.compiled._numba_type_


def _make_dispatcher(loop: kernel[..., Any]) -> Any:
    """Return numba's function, with a cache if there is a folder that only this user writes.

    Without one, each process compiles for itself.
    """
    import numba.core.caching

    caching: Any = numba.core.caching

    class Cache(caching.FunctionCache):  # type: ignore[misc]
        """Damaged files and full disks cost time, and never an answer."""

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # whatever a damaged file leads to
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(Exception):
                super().save_overload(sig, data)

    dispatcher: Any = numba.njit(nogil=True)(loop.function)
    config: Any = numba.config
    before = config.CACHE_DIR  # that of others, who also use numba in this process
    try:
        folder = _open_folder(loop)
        config.CACHE_DIR = str(folder)
        cache = Cache(loop.function)
        if folder in Path(cache.cache_path).parents:  # numba takes others where it cannot write
            dispatcher._cache = cache
    except (OSError, RuntimeError):  # the second is numba's for a folder that it cannot use
        pass
    finally:
        config.CACHE_DIR = before
    return dispatcher


# --- the cache of compiled code ------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the user's folder for compiled code; SCUMBLE_CACHE replaces it."""
    given = os.environ.get("SCUMBLE_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        home = str(Path.home() / "Library" / "Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "scumble"


def is_trusted(folder: Path, refused: int = stat.S_IWGRP | stat.S_IWOTH) -> bool:
    """Return whether a folder is this user's, and neither a group nor others can write there:
    compiled code is trusted when it is read, and somebody else's would run as this user.
    """
    found = folder.stat()
    return not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & refused
    )


def _open_folder(loop: kernel[..., Any]) -> Path:
    """Return the folder of the compiled code of a loop; OSError if it cannot be used."""
    import numpy as np

    content = hashlib.sha256(f"{__version__} {np.__version__}".encode())
    for file in sorted(_source_files(loop)):
        content.update(Path(file).read_bytes())
    top = cache_folder()
    top.parent.mkdir(parents=True, exist_ok=True)
    folder = top / content.hexdigest()[:16]
    top.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    # numba makes folders and files inside by the umask, so nobody else may come in at all.
    if not is_trusted(top) or not is_trusted(folder, stat.S_IRWXG | stat.S_IRWXO):
        raise PermissionError(f"others can write into {folder}")
    return folder


def _source_files(loop: kernel[..., Any]) -> set[str]:
    """Return the files of a loop and of all kernels that are known there, and so on."""
    files: set[str] = set()
    waiting = [loop]
    while waiting:
        function = waiting.pop().function
        if function.__code__.co_filename not in files:
            files.add(function.__code__.co_filename)
            waiting += [each for each in function.__globals__.values() if isinstance(each, kernel)]
    return files
