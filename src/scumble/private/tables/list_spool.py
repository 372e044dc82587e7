"""Lists that are read in several passes: kept after the first one, in memory and beyond that in an
encrypted temporary file (decision 33).
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from scumble.model.errors import ScumbleError
from scumble.model.schema.lists import EncodedLists

Numbers = npt.NDArray[Any]

MEMORY = 1 << 25  # bytes of lists that are kept in memory
_ALIGNED = 8  # bytes
_TOGETHER = 1 << 24  # bytes that are encrypted together
_KEY = 256  # bits
_NONCE, _TAG = 12, 16  # bytes: of the name of a section, and to tell whether it was changed


class KeptLists:
    """The lists that `read` yields, which is called once: later passes yield what was kept.

    The first `most` bytes stay in memory, the others go to an `EncryptedFile`. If that has no room,
    `read` is called for every pass. What is kept does not say which lists had values outside.

    `read` must not refer to the owner of these lists: they would outlive it until the next search
    for cycles.
    """

    def __init__(self, read: Callable[[], Iterable[EncodedLists]], most: int | None = None) -> None:
        self._read = read
        self._most = MEMORY if most is None else most
        self._keeps = True
        self.kept: list[tuple[_Kept, _Kept]] | None = None  # lengths and codes of each batch

    def __iter__(self) -> Iterator[EncodedLists]:
        """Yield all lists in batches, which are the same in every pass."""
        if self.kept is None:
            yield from self._first_pass() if self._keeps else self._read()
            return
        for lengths, codes in self.kept:
            offsets = np.concatenate([[0], np.cumsum(lengths.values(), dtype=np.int64)])
            yield EncodedLists(offsets, codes.values(), np.zeros(len(offsets) - 1, bool))

    def _first_pass(self) -> Iterator[EncodedLists]:
        kept: list[tuple[_Kept, _Kept]] = []
        place = _Place(self._most)
        for lists in self._read():
            if self._keeps:
                lengths = lists.lengths.astype(np.min_scalar_type(lists.lengths.max(initial=0)))
                try:
                    kept.append((place.keep(lengths), place.keep(lists.codes)))
                except OSError:  # the disk is full, or there is none
                    self._keeps = False
                    kept, place = [], _Place(0)
            yield lists
        self.kept = kept if self._keeps else None
        pa.default_memory_pool().release_unused()  # what the reader took, and will not need again


class _InMemory(NamedTuple):
    array: Numbers

    def values(self) -> Numbers:
        return self.array


class _InFile(NamedTuple):
    file: EncryptedFile
    sections: list[Section]
    dtype: np.dtype[Any]

    def values(self) -> Numbers:
        """Return the values in a new array."""
        content = bytearray()
        for section in self.sections:
            content += self.file.read(section)
        return np.frombuffer(content, self.dtype)


_Kept = _InMemory | _InFile


class _Place:
    """Where arrays are kept: first in memory of `most` bytes, then in a file.

    The memory is one array, of which only the used pages count. Arrays of their own would lie
    between those of the reader, and keep the memory of these from being returned.
    """

    def __init__(self, most: int) -> None:
        self._memory = np.empty(most, np.uint8)
        self._file: EncryptedFile | None = None

    def keep(self, values: Numbers) -> _Kept:
        """Keep a copy of an array. Raises OSError if the file cannot be made, or not written."""
        size = -(-values.nbytes // _ALIGNED) * _ALIGNED
        if self._file is None and size <= len(self._memory):
            copied = self._memory[: values.nbytes].view(values.dtype)
            copied[:] = values
            self._memory = self._memory[size:]
            return _InMemory(copied)
        self._file = self._file or EncryptedFile()
        content = memoryview(values.tobytes())
        parts = range(0, len(content), _TOGETHER)
        sections = [self._file.append(content[begin : begin + _TOGETHER]) for begin in parts]
        return _InFile(self._file, sections, values.dtype)


class Section(NamedTuple):
    """A piece of an encrypted file: its number, where it begins, and its length."""

    number: int
    begin: int
    length: int


class EncryptedFile:
    """A temporary file without a name, in the folder for temporary files of the system.

    Its space is free again when this object is, or when the process ends, in whatever way. The key
    is in the memory of this process only, so that no copy of the disk tells what was written.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed below)
        self._close = weakref.finalize(self, self._file.close)
        self._cipher = AESGCM(AESGCM.generate_key(_KEY))
        self._sections = self._end = 0

    def append(self, content: bytes | memoryview) -> Section:
        """Write a section. Raises OSError if there is no room for it."""
        section = Section(self._sections, self._end, len(content))
        self._sections += 1  # also if it fails: no two sections are encrypted in the same way
        left = memoryview(self._cipher.encrypt(_nonce(section), content, None))
        self._end += len(left)
        self._file.seek(section.begin)
        while left:
            left = left[self._file.write(left) :]
        return section

    def read(self, section: Section) -> bytes:
        """Return the content of a section."""
        found = bytearray(section.length + _TAG)
        left = memoryview(found)
        try:
            self._file.seek(section.begin)
            while left and (size := self._file.readinto(left)):
                left = left[size:]
            return self._cipher.decrypt(_nonce(section), found, None)
        except (OSError, InvalidTag):
            reason = "A temporary file could not be read again; nothing was published."
        raise ScumbleError(reason)


def _nonce(section: Section) -> bytes:
    """Return the number of a section, which no other section of the same key has."""
    return section.number.to_bytes(_NONCE, "big")
