"""One thread for the linear algebra of numpy and scipy.

Both bring a copy of OpenBLAS, whose threads wait for the next product in a loop that keeps a
processor busy. A search with many small products takes up to three times the processor time on two
threads, and no less time on the clock. Sums are also rounded in another order on another number of
threads, so that what a search finds would depend on the machine.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

# OpenBLAS as it comes with numpy and scipy, or is installed on its own; with indices of 32 or 64
# bits.
_NAMES = [
    (f"{prefix}_get_num_threads{suffix}", f"{prefix}_set_num_threads{suffix}")
    for prefix in ("scipy_openblas", "openblas")
    for suffix in ("", "64_")
]
_lock = threading.Lock()
_inside = 0  # blocks of `one_thread` that run now
_before: list[int] = []


class _Library(NamedTuple):
    """The functions of one copy of OpenBLAS."""

    get: ctypes._NamedFuncPointer
    set: ctypes._NamedFuncPointer


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread, that of other threads of the process included. Other
    libraries than OpenBLAS are left as they are.
    """
    global _inside
    with _lock:
        if not _inside:
            _before[:] = [library.get() for library in _libraries()]
            _set([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(_before)


def _set(threads: list[int]) -> None:
    for library, number in zip(_libraries(), threads, strict=True):
        library.set(number)


@cache
def _libraries() -> tuple[_Library, ...]:
    """The copies of OpenBLAS of numpy and scipy, loaded."""
    found = []
    for path in _files():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for get, put in _NAMES:
            if hasattr(library, get) and hasattr(library, put):
                found.append(_Library(getattr(library, get), getattr(library, put)))
                break
    return tuple(found)


def _files() -> Iterator[Path]:
    """Yield the libraries that stand beside numpy and scipy, as their wheels bring them."""
    for package in ("numpy", "scipy"):
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            for folder in (Path(place).with_name(f"{package}.libs"), Path(place, ".dylibs")):
                yield from sorted(folder.glob("*openblas*"))
