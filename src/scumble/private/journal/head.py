"""The head of the ledger: number and hash of its last entry, in a small file beside it.

Entries cut off at the end leave a chain that hangs together; only somebody who remembers the head
can notice. The file also has the lock that gives one writer after another the place.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scumble.model.errors import LedgerError, ParameterError

_SLOT = 103  # bytes of a line: 20 digits, a hash, 16 digits to check them, two blanks, a line end
_POLL = 0.001  # seconds between two looks at a lock that another process holds
_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


@dataclass(frozen=True, slots=True)
class Head:
    """Where a ledger ends. Its text form can be kept elsewhere, as a seal."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        if found := re.fullmatch(r"\s*(\d{1,18}) ([0-9a-f]{64})\s*", text):
            return cls(int(found[1]), found[2])
        raise ParameterError.of(
            "Journal.verify", "head", "a number, a blank and 64 hex digits", text
        )


class HeadFile:
    """Two lines written in turn, so that a crash in the middle of one leaves the other.

    The line is written before a turn ends and is there for every process at once; the disk gets it
    in the background. After a power failure it may be a few turns old: then the ledger is longer
    than its head, which is what any crash may leave.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._synced: Future[None] | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="scumble-ledger-head")

    @staticmethod
    def create(path: Path, head: Head) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, _line(head) * 2)
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> Head | None:
        """The newest readable line; None if there is none, which no crash leaves."""
        return max(self._lines(), key=_number)

    def write(self, head: Head) -> None:
        """Replace the older line. Only who has the lock may do this."""
        first, second = self._lines()
        older = 0 if _number(first) <= _number(second) else 1
        os.pwrite(self._handle, _line(head), older * _SLOT)
        if self._synced is None or self._synced.running() or self._synced.done():
            if self._synced is not None and self._synced.done():
                self._synced.result()  # a disk that fails is not passed over
            self._synced = self._background.submit(_sync, self._handle)

    def _lines(self) -> tuple[Head | None, Head | None]:
        content = os.pread(self._handle, 2 * _SLOT, 0)
        return _head(content[:_SLOT]), _head(content[_SLOT:])

    def lock(self, patience: float) -> None:
        """Wait until no other process, and no other journal of this one, has the place."""
        limit = time.monotonic() + patience
        while True:
            try:
                return fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise LedgerError(locked(patience)) from None
            time.sleep(_POLL)

    def unlock(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        self._background.shutdown()
        os.close(self._handle)


def locked(patience: float) -> str:
    """The sentence for a ledger that somebody else keeps."""
    return (
        f"The ledger was in use by others for more than {patience:g} seconds. Nothing was written; "
        "try again, or end the program that keeps it."
    )


def _number(head: Head | None) -> int:
    return head.number if head else 0


def _line(head: Head) -> bytes:
    content = f"{head.number:020d} {head.hash}"
    return f"{content} {_check(content)}\n".encode("ascii")


def _head(line: bytes) -> Head | None:
    text = line.decode("ascii", "replace")
    content, _, check = text.rstrip("\n").rpartition(" ")
    if len(line) != _SLOT or _check(content) != check or not content[:20].isdecimal():
        return None
    return Head(int(content[:20]), content[21:])


def _check(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:16]
