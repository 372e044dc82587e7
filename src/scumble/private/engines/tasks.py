"""What workers do: read a unit of work, count or perturb its rows, and write sorted runs.

Nobody compares, hashes or prints a job. To make these methods for all classes here would take 20 ms
in every worker process, so the classes have none.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.lists import EncodedLists
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import Codes, Kernel, RangeKernel
from scumble.private.engines.fingerprints import Fingerprinter
from scumble.private.engines.persons import (
    LimitedUnit,
    Note,
    PeopleFingerprint,
    PersonCounts,
    packed,
)
from scumble.private.sampling.source import STREAM, Keystream
from scumble.private.tables import writer
from scumble.private.tables.counter import (
    CellSet,
    Counts,
    Occupied,
    RowCounter,
    cell_names,
    occupied_cells,
)
from scumble.private.tables.key_pairs import key_tables
from scumble.private.tables.rows import Outside, Rows
from scumble.private.tables.sorted_keys import Keys, StoredRun, packed_rows, sort_keys
from scumble.private.tables.source import Source, TablePiece

UnitOrLimited = TablePiece | LimitedUnit
_SHORT = 1 << 10  # bytes of an answer that is a path
_ROW = PrivacyUnit("add_remove", 1, None)  # the limit on the rows of a person is that of the rows


class Block(TablePiece):
    """A block of rows that the driver has read, for sources that only one process can read."""

    def __init__(
        self, whole: Source, columns: Sequence[str], number: int, first: int, rows: list[Any]
    ) -> None:
        self.description, self.hint = whole.description, whole.hint
        self.columns = whole.columns
        self.number, self.first = number, first
        self._sent = list(columns)
        self._rows: list[pa.RecordBatch] = rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, which must be among those that the driver has read."""
        return (batch.select(list(columns)) for batch in self._rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": [packed(batch) for batch in self._rows]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._rows = [batch for data in state["_rows"] for batch in pa.ipc.open_stream(data)]


@dataclass(eq=False, repr=False)
class ReadSettings:
    """How the rows of a unit are read: the settings of `Rows`."""

    schema: Schema
    outside: Outside
    reveal: bool

    def rows(self, content: UnitOrLimited, note: Note) -> tuple[Rows, Callable[[], PersonCounts]]:
        """Return the rows of a unit, and a function that returns what reading them has shown."""
        unit = content.unit if isinstance(content, LimitedUnit) else content
        last = [unit.first]

        def progress(row: int) -> None:
            last[0] = row
            note(None)

        rows = Rows(unit, self.schema, outside=self.outside, reveal=self.reveal, progress=progress)

        people: dict[str, PeopleFingerprint] = {}
        if isinstance(content, LimitedUnit):
            people = {content.person: PeopleFingerprint(content.fingerprint)}
            rows = content.limited(rows, people[content.person])

        def seen() -> PersonCounts:
            columns = frozenset(rows.outside_columns)
            found = {name: each.result() for name, each in people.items()}
            return PersonCounts(last[0] - unit.first, columns, dict(rows.outside_counts), found)

        return rows, seen


@dataclass(eq=False, repr=False)
class CountJob:
    """Counts the cells of sets of attributes in a unit, or adds up amounts by them."""

    reading: ReadSettings
    sets: tuple[CellSet, ...]
    releases_lock: ClassVar[bool] = True

    @property
    def answer_bytes(self) -> int:
        return sum(8 * self.reading.schema.size(cell_names(each)) for each in self.sets)

    def run(
        self, content: UnitOrLimited, note: Note
    ) -> tuple[list[Counts | Occupied], PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        found = RowCounter(rows).counts(self.sets, _ROW)
        return [_shorter(counts) for counts in found], seen()


def _shorter(counts: Counts) -> Counts | Occupied:
    """Return only the cells that have rows if these take less memory."""
    cells = np.flatnonzero(counts)
    if 2 * len(cells) >= len(counts):
        return counts
    return Occupied(cells.astype(np.uint64), counts[cells])


@dataclass(eq=False, repr=False)
class OccupiedJob:
    """Finds the non-empty cells of a product of attributes in a unit."""

    reading: ReadSettings
    names: tuple[str, ...]
    releases_lock: ClassVar[bool] = True

    def run(self, content: UnitOrLimited, note: Note) -> tuple[Occupied, PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        return RowCounter(rows).occupied(self.names, _ROW), seen()


@dataclass(eq=False, repr=False)
class CodesJob:
    """Returns the codes of a unit."""

    reading: ReadSettings
    names: tuple[str, ...]
    releases_lock: ClassVar[bool] = True

    def run(self, content: TablePiece, note: Note) -> tuple[list[list[Codes]], PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        return list(rows.batches(self.names)), seen()


@dataclass(eq=False, repr=False)
class SortedRowsJob:
    """Returns the packed keys of a unit, sorted."""

    reading: ReadSettings
    names: tuple[str, ...]
    releases_lock: ClassVar[bool] = True

    def run(self, content: TablePiece, note: Note) -> tuple[Keys, PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        return sort_keys(packed_rows(rows, self.names), reuse=True), seen()


@dataclass(eq=False, repr=False)
class ListsJob:
    """Returns the lists of a unit; several of a row belong together."""

    reading: ReadSettings
    names: tuple[str, ...]

    def run(
        self, content: UnitOrLimited, note: Note
    ) -> tuple[list[Sequence[EncodedLists]], PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        return list(RowCounter(rows).all_lists(self.names, _ROW)), seen()


@dataclass(eq=False, repr=False)
class KeysJob:
    """Returns the people of a unit and their keys."""

    reading: ReadSettings
    names: tuple[str, ...]
    person: str | None

    def run(self, content: TablePiece, note: Note) -> tuple[list[pa.Table], PersonCounts]:
        rows, seen = self.reading.rows(content, note)
        found = [each for each in key_tables(rows, self.names, self.person) if len(each)]
        return found, seen()


@dataclass(eq=False, repr=False)
class UnitCellsJob:
    """Finds the non-empty cells of a unit, and its fingerprint."""

    reading: ReadSettings
    names: tuple[str, ...]
    others: tuple[str, ...]
    releases_lock: ClassVar[bool] = True

    def run(
        self, content: tuple[TablePiece, bytes], note: Note
    ) -> tuple[Occupied, dict[str, bytes] | None, PersonCounts]:
        unit, key = content
        rows, seen = self.reading.rows(unit, note)
        print_ = Fingerprinter(key, [*self.names, *self.others])
        pieces = print_.watch(codes for _, codes in rows.units([*self.names, *self.others]))
        radix = self.reading.schema.cell_keys(self.names)
        cells = occupied_cells(radix, (each[: len(self.names)] for each in pieces))
        return cells, print_.result(), seen()


class UnitToMap(NamedTuple):
    """A unit to perturb: its keys, and what the driver gives it."""

    unit: TablePiece
    stream: bytes
    fingerprint: bytes
    given: Any


@dataclass(eq=False, repr=False)
class MapJob:
    """Perturbs the rows of a unit, and writes them as sorted runs of packed rows.

    The fingerprint is told before the last of them is written. All attempts at a unit write into
    one folder, each under a name of its own, which a file gets when it is complete. The answer has
    the runs of each output.
    """

    reading: ReadSettings
    names: tuple[str, ...]
    kernel: Kernel
    outputs: tuple[tuple[Attribute, ...], ...]
    staging: Path
    seconds: float = 0.0  # that a unit takes at least
    releases_lock: ClassVar[bool] = True

    @property
    def answer_bytes(self) -> int:
        return _SHORT * len(self.outputs)

    def run(self, content: UnitToMap, note: Note) -> tuple[list[list[StoredRun]], PersonCounts]:
        rows, seen = self.reading.rows(content.unit, note)
        print_ = Fingerprinter(content.fingerprint, self.names)
        pieces = print_.watch(codes for _, codes in rows.units(self.names))
        stream = Keystream.derived(content.stream, STREAM)
        runs = _attempt(self.staging, f"unit{content.unit.number}", self.outputs)
        for made in self.kernel(stream, pieces, content.given):
            for each, columns in zip(runs, made, strict=True):
                each.add(columns)
        note(print_.result())
        return [each.finish() for each in runs], seen()


class RangeToDraw(NamedTuple):
    """A range of keys: its number, the key of its stream, and what is in it."""

    number: int
    stream: bytes
    content: Any


@dataclass(eq=False, repr=False)
class DrawJob:
    """Draws the rows of a range of keys, and writes them as `MapJob` does."""

    kernel: RangeKernel
    output: tuple[Attribute, ...]
    staging: Path
    answer_bytes: ClassVar[int] = _SHORT
    releases_lock: ClassVar[bool] = True

    def run(self, content: RangeToDraw, note: Note) -> list[StoredRun]:
        [runs] = _attempt(self.staging, f"range{content.number}", [self.output])
        runs.add(self.kernel(Keystream.derived(content.stream, STREAM), content.content))
        return runs.finish()


def _attempt(staging: Path, name: str, outputs: Sequence[Sequence[Attribute]]) -> list[_Runs]:
    """Return where an attempt writes the rows of each output: under a name of its own.

    All files are in one folder: the system takes milliseconds to remove one.
    """
    attempt = secrets.token_hex(4)
    return [
        _Runs(staging, f"{attempt}-{name}-{place}", attributes)
        for place, attributes in enumerate(outputs)
    ]


class _Runs:
    """Collects packed rows, and writes them as sorted runs."""

    def __init__(self, folder: Path, name: str, attributes: Sequence[Attribute]) -> None:
        self._folder, self._name = folder, name
        self._radix = CellKeys([attribute.size for attribute in attributes])
        self._waiting: list[Keys] = []
        self._rows = 0
        self._found: list[StoredRun] = []

    def add(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        self._waiting.append(self._radix.pack(columns, narrow=True))
        self._rows += len(self._waiting[-1])
        if self._rows >= writer.RUN:
            self._spill()

    def finish(self) -> list[StoredRun]:
        """Return all runs."""
        if self._waiting:
            self._spill()
        return self._found

    def _spill(self) -> None:
        path = self._folder / f"{self._name}-{len(self._found)}.run"
        keys = np.concatenate(self._waiting)
        self._waiting, self._rows = [], 0
        self._found.append(StoredRun.write(path, sort_keys(keys, reuse=True)))
