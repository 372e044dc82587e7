"""The limit on the rows of each person, over units of work.

Which rows of a person are the first ones depends on all units before, and no process has to know
all persons to find out. One job writes the identifiers of each unit, in parts by a hash of the
identifier. A second one reads a part of all units, in the order of the rows, and writes which rows
are too many. The job that follows reads the units again, without these rows. Files are encrypted
with a key of the release: no file of the staging folder tells who is in the table.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from scumble.model.errors import ScumbleError
from scumble.private.tables.persons.limit import (
    RowLimit,
    TextCounts,
    UnitLimit,
    laid_out,
    parts_of,
)
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import TablePiece

MOST_PARTS = 1 << 8
_NONCE = 12  # bytes
Note = Callable[[Any], None]
Places = npt.NDArray[np.uint32]


class PersonCounts(NamedTuple):
    """What reading a unit has shown, for the progress and the remarks of the owner, and for the
    comparison with another pass.
    """

    rows: int
    outside_columns: frozenset[str]
    outside_counts: dict[str, int]
    fingerprint: dict[str, bytes]


class Section(NamedTuple):
    """A piece of an encrypted file."""

    path: Path
    number: int
    begin: int
    end: int

    def read(self, key: bytes) -> bytes:
        """Return its content."""
        with self.path.open("rb") as file:
            file.seek(self.begin)
            data = file.read(self.end - self.begin)
        try:
            return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], _label(self.number))
        except InvalidTag:
            raise ScumbleError(
                "A file of the staging folder was changed by somebody else; nothing was published."
            ) from None


def write_sections(path: Path, key: bytes, contents: Iterable[bytes]) -> list[Section]:
    """Write an encrypted file of several sections. It gets its name when it is complete."""
    cipher, found, begin = AESGCM(key), [], 0
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        for number, content in enumerate(contents):
            nonce = os.urandom(_NONCE)
            file.write(nonce + cipher.encrypt(nonce, content, _label(number)))
            found.append(Section(path, number, begin, file.tell()))
            begin = found[-1].end
    part.rename(path)
    return found


def packed(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow stream: only its own rows, and not all of its buffers."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _label(number: int) -> bytes:
    return b"section %d" % number


class PeopleFingerprint:
    """An HMAC over the identifiers of a unit: see `fingerprints`."""

    def __init__(self, key: bytes) -> None:
        # Of the lengths and of the bytes, so that it does not depend on the sizes of batches.
        self._macs = [hmac.new(key, name, hashlib.sha256) for name in (b"lengths", b"people")]

    def watch(self, people: pa.Array) -> None:
        """Add identifiers in canonical form; one that is missing has the length -1."""
        _, places, there = laid_out(people)
        self._macs[0].update(np.where(there, np.diff(places), -1).astype(np.int64).data)
        texts, places, _ = laid_out(pc.drop_null(people))
        self._macs[1].update(texts[places[0] : places[-1]].data)

    def result(self) -> bytes:
        """Return the fingerprint of all identifiers so far."""
        return b"".join(mac.digest() for mac in self._macs)


class UnitOfPeople(NamedTuple):
    """A unit whose identifiers are to be written: the keys of the file and of the fingerprint."""

    unit: TablePiece
    key: bytes
    fingerprint: bytes


@dataclass(frozen=True)
class IdentifiersJob:
    """Writes the identifiers of a unit and the places of their rows, in parts by a hash.

    Of each person only the first `most` rows of the unit are written: the others are too many
    whatever the units before have.
    """

    person: str
    most: int
    parts: int
    staging: Path

    def run(self, content: UnitOfPeople, note: Note) -> tuple[list[Section], PersonCounts]:
        print_ = PeopleFingerprint(content.fingerprint)
        limit, known = RowLimit(self.person, self.most), TextCounts({}, self.most)
        rows, people, parts, first = [], [], [], 0
        for batch in content.unit.batches([self.person]):
            names = limit.canonical(batch.column(self.person))
            print_.watch(names)
            kept = np.flatnonzero(known.keep(names)[0])
            people.append(pc.take(names, pa.array(kept)))
            parts.append(parts_of(people[-1], self.parts))
            rows.append((first + kept).astype(np.uint32))
            first += len(names)
            note(None)
        path = self.staging / f"people{content.unit.number}-{secrets.token_hex(4)}"
        sections = self._cut(rows, people, parts)
        written = write_sections(path, content.key, sections)
        return written, PersonCounts(first, frozenset(), {}, {self.person: print_.result()})

    def _cut(
        self, rows: list[Places], people: list[pa.Array], parts: list[npt.NDArray[Any]]
    ) -> Iterator[bytes]:
        """Yield the rows and identifiers of each part, in the order of the rows."""
        names = pa.concat_arrays([pa.array([], pa.large_binary()), *people])
        places = np.concatenate([np.empty(0, np.uint32), *rows])
        part = np.concatenate([np.empty(0, np.int64), *parts])
        order = np.argsort(part, kind="stable")
        names, places = pc.take(names, pa.array(order)), places[order]
        ends = np.cumsum(np.bincount(part, minlength=self.parts)).tolist()
        for begin, end in pairwise([0, *ends]):
            columns = [pa.array(places[begin:end]), names[begin:end]]
            yield packed(pa.RecordBatch.from_arrays(columns, ["row", "person"]))


class PartOfPeople(NamedTuple):
    """One part of the identifiers of all units, in the order of the units."""

    number: int
    sections: list[Section]
    key: bytes


@dataclass(frozen=True)
class SurplusJob:
    """Writes, for every unit, the places of the rows of one part that are too many."""

    most: int
    staging: Path

    def run(self, content: PartOfPeople, note: Note) -> list[Section]:
        path = self.staging / f"surplus{content.number}-{secrets.token_hex(4)}"
        return write_sections(path, content.key, self._surplus(content, note))

    def _surplus(self, content: PartOfPeople, note: Note) -> Iterator[bytes]:
        known = TextCounts({}, self.most)
        for section in content.sections:
            [batch] = pa.ipc.open_stream(section.read(content.key))
            kept, _ = known.keep(batch.column("person"))
            yield batch.column("row").to_numpy()[~kept].tobytes()
            note(None)


class LimitedUnit(NamedTuple):
    """A unit without the rows that are too many because of units before it."""

    unit: TablePiece
    person: str
    most: int
    surplus: list[Section]
    key: bytes
    fingerprint: bytes

    def limited(self, rows: Rows, print_: PeopleFingerprint) -> Rows:
        """Return the rows of this unit with the limit; `print_` sees the identifiers."""
        found = [np.frombuffer(each.read(self.key), np.uint32) for each in self.surplus]
        surplus = np.sort(np.concatenate(found)).astype(np.int64)
        limit = partial(UnitLimit, surplus=surplus, watch=print_.watch)
        return rows.limited(self.person, self.most, limit)
