"""The points at which a program writes, and a failure at one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scumble.private.journal.sqlite_store import SqliteStore
from tests.support.database.nursery import watched

_EVENTS = {"os.mkdir", "os.rename", "sqlite3.connect", "fcntl.flock"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CALLS = [(os, "fsync"), (os, "pwrite"), (SqliteStore, "run"), (SqliteStore, "insert")]
_strikers: list[Callable[[], None]] = []
_hooked: list[bool] = []


@contextmanager
def struck(number: int, strike: Callable[[], None], *, often: bool = False) -> Iterator[list[int]]:
    """Call `strike` at the write point with a number, which counts from 1, or with `often` at all
    from there on. The result has the numbers of the points at which it was called.
    """
    passed, hit = [0], []

    def pass_point(_: str = "") -> None:
        passed[0] += 1
        if passed[0] == number or (often and passed[0] > number):
            hit.append(passed[0])
            strike()

    if not _hooked:
        sys.addaudithook(_heard)  # for the rest of the process
        _hooked.append(True)
    kept = [getattr(owner, name) for owner, name in _CALLS]
    for (owner, name), function in zip(_CALLS, kept, strict=True):
        setattr(owner, name, watched(function, lambda at: pass_point() if at else None, before="x"))
    _strikers.append(pass_point)
    try:
        yield hit
    finally:
        _strikers.remove(pass_point)
        for (owner, name), function in zip(_CALLS, kept, strict=True):
            setattr(owner, name, function)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _strikers:
        return
    if event in _EVENTS or (event == "open" and arguments[2] & _WRITING):
        _strikers[-1]()
