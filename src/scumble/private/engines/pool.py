"""The engine of several processes: those of `jobs=4`, or the tasks of a Spark cluster.

Workers read the units of Parquet files themselves. Of other sources the driver, which is the
process that publishes, reads blocks and sends them. What cannot be divided (the rows of each person
in the order of the table) is done in the driver, and so is the writing: it merges the sorted runs
that workers leave. The result is that of one process, bit for bit.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.model.errors import ScumbleError
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.lists import EncodedLists
from scumble.private.engines import tasks
from scumble.private.engines.engine import (
    ROWS,
    TUPLES,
    Codes,
    Given,
    Kernel,
    Output,
    RangeKernel,
    range_name,
)
from scumble.private.engines.fingerprints import Fingerprints
from scumble.private.engines.local import LocalEngine
from scumble.private.engines.persons import (
    MOST_PARTS,
    IdentifiersJob,
    LimitedUnit,
    PartOfPeople,
    Section,
    SurplusJob,
    UnitOfPeople,
)
from scumble.private.engines.staging import StagingFolder
from scumble.private.engines.workers import Executor, Job, Task
from scumble.private.sampling.source import FINGERPRINT
from scumble.private.tables import writer
from scumble.private.tables.counter import (
    CellSet,
    Counts,
    Occupied,
    cell_names,
    merged,
    read_names,
)
from scumble.private.tables.key_pairs import KeyPairs, no_keys
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import Keys, Run, StoredRun, merge_sorted, sort_keys
from scumble.private.tables.source import TablePiece

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.key_pairs import KeyCounter

_SHUFFLE = ("people", "staging")  # the unit and the purpose of the key of files in between
# A value is read, encoded, perturbed and sorted in 13 to 20 ns (Uniform, six columns). Whether the
# first worker is started before a unit is done is decided by this.
_VALUE_SECONDS = 10e-9


class PoolEngine:
    """Works on units where an executor does its tasks."""

    def __init__(self, rows: Rows, noise: Keystream, workers: Executor) -> None:
        self.rows = rows
        self._noise = noise
        self._workers = workers
        self._fingerprints = Fingerprints()
        self._reading = tasks.ReadSettings(rows.schema, rows.outside, rows.reveal)
        self._staging: StagingFolder | None = None
        self._runs: dict[Output, list[StoredRun]] = {}
        self._surplus: dict[tuple[str, int], dict[int, list[Section]]] = {}

    def count(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        read = read_names(sets) or [self.rows.schema.published[0].name]
        if self._in_driver(read, unit):
            return self._local().count(sets, unit)
        found = [np.zeros(self.rows.schema.size(cell_names(each)), np.int64) for each in sets]
        job = tasks.CountJob(self._reading, tuple(sets))
        for _, parts in self._read(job, read, self._limited(unit)):
            for counts, part in zip(found, parts, strict=True):
                if isinstance(part, Occupied):
                    counts[part.keys.astype(np.int64)] += part.counts
                else:
                    counts += part
        return found

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        if self._in_driver(names, unit):
            return self._local().occupied(names, unit)
        job = tasks.OccupiedJob(self._reading, tuple(names))
        found: list[Occupied] = []
        for _, part in self._read(job, names, self._limited(unit)):
            found.append(part)
            # Pairs of about the same size: no cell is merged more than a few times.
            while len(found) > 1 and len(found[-2].keys) < 2 * len(found[-1].keys):
                found.append(merged([found.pop(), found.pop()]))
        radix = self.rows.schema.cell_keys(names)
        none = radix.pack([np.empty(0, self.rows.schema[name].code_type) for name in names])
        return merged([Occupied(none, np.empty(0, np.int64)), *found])

    def units(self, names: Sequence[str], others: Sequence[str] = ()) -> dict[int, Occupied]:
        job = tasks.UnitCellsJob(self._reading, tuple(names), tuple(others))
        found: dict[int, Occupied] = {}
        read = self._read(
            job, [*names, *others], lambda unit: (unit, self._key(unit.number, FINGERPRINT))
        )
        for task, (cells, print_) in read:
            if len(cells.keys):
                self._fingerprints.check(task.number, print_)
                found[task.number] = cells
        return dict(sorted(found.items()))

    def batches(self, names: Sequence[str]) -> Iterator[list[Codes]]:
        job = tasks.CodesJob(self._reading, tuple(names))
        return self._in_order(self._read(job, names, lambda unit: unit))

    def sorted_rows(self, names: Sequence[str]) -> Keys:
        job = tasks.SortedRowsJob(self._reading, tuple(names))
        found = [keys for _, keys in self._read(job, names, lambda unit: unit)]
        radix = self.rows.schema.cell_keys(names)
        none = radix.pack([np.empty(0, self.rows.schema[name].code_type) for name in names])
        return sort_keys(np.concatenate([none, *found]), merge=True, reuse=True)

    def _in_order(self, answers: Iterator[tuple[Task, Any]]) -> Iterator[Any]:
        """Yield the pieces that the tasks of all units return, in the order of the units."""
        waiting: dict[int, Any] = {}
        following = 0
        for task, pieces in answers:
            waiting[task.number] = pieces
            while following in waiting:
                yield from waiting.pop(following)
                following += 1

    def lists(self, names: Sequence[str], unit: PrivacyUnit) -> Iterator[Sequence[EncodedLists]]:
        if unit.column is not None and not self._divides_people():
            yield from self._local().lists(names, unit)
            return
        job = tasks.ListsJob(self._reading, tuple(names))
        content = self._limited(unit)
        self.rows.begin_lists(names)
        yield from self._in_order(self._answers(job, names, content))

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        if self.rows.source.units() is None:  # only the driver can read them
            return self._local().keys(names, unit)
        job = tasks.KeysJob(self._reading, tuple(names), unit.column)
        columns = [*names, *([unit.column] if unit.column else [])]
        self.rows.outside_columns.clear()
        self.rows.outside_counts.clear()
        tables = self._in_order(self._answers(job, columns, lambda each: each))
        first = next(tables, no_keys(self.rows, names))
        return KeyPairs(self.rows, names, unit.column, chain([first], tables))

    def map(
        self,
        names: Sequence[str],
        kernel: Kernel,
        outputs: Sequence[Output],
        given: Given | None = None,
    ) -> None:
        staging = self._stage(outputs)
        columns = tuple(output.attributes for output in outputs)
        seconds = self._unit_seconds(len(names))
        job = tasks.MapJob(self._reading, tuple(names), kernel, columns, staging, seconds)

        def content(unit: TablePiece) -> tasks.UnitToMap:
            number = unit.number
            share = None if given is None else given(number)
            keys = (self._key(number, ROWS), self._key(number, FINGERPRINT))
            return tasks.UnitToMap(unit, *keys, share)

        seen = set()
        try:
            for task, runs in self._read(job, names, content):
                for print_ in task.notes:
                    self._fingerprints.check(task.number, print_)
                for output, own in zip(outputs, runs, strict=True):
                    self._runs[output] += own
                if any(runs):
                    seen.add(task.number)
            self._fingerprints.check_units(seen)
            _accept(staging, chain(*self._runs.values()))
        except BaseException:
            self._clear()
            raise

    def _unit_seconds(self, columns: int) -> float:
        """Return how many seconds a unit takes at least that is mapped; 0 if that is not known."""
        source = self.rows.source
        units, rows = len(source.units() or ()), source.rows
        return _VALUE_SECONDS * columns * rows / units if units and rows else 0.0

    def draw(self, ranges: int, content: Given, kernel: RangeKernel, output: Output) -> None:
        staging = self._stage([output])
        job = tasks.DrawJob(kernel, output.attributes, staging)

        def task(number: int) -> Task:
            key = self._noise.unit_key(range_name(number), TUPLES)
            return Task(number, lambda: tasks.RangeToDraw(number, key, content(number)))

        try:
            for _, runs in self._workers.run(job, [task(number) for number in range(ranges)]):
                self._runs[output] += runs
            _accept(staging, self._runs[output])
        except BaseException:
            self._clear()
            raise

    def _stage(self, outputs: Sequence[Output]) -> Path:
        """Make the folder in which tasks write the rows of these outputs."""
        self._staging = StagingFolder(self._workers.staging(outputs[0].path.parent))
        self._runs = {output: [] for output in outputs}
        return self._staging.path

    def sort(self, output: Output) -> int:
        try:
            runs = self._runs.pop(output)
            pieces = merge_sorted([Run(run) for run in runs], writer.CHUNK)
            writer.write_sorted(
                output.path, output.attributes, pieces, compression=output.compression
            )
        except BaseException:
            self._clear()
            raise
        if not self._runs:
            self._clear()
        return sum(len(run) for run in runs)

    def _read(
        self, job: Job, columns: Sequence[str], content: Callable[[TablePiece], Any]
    ) -> Iterator[tuple[Task, Any]]:
        """Begin a pass over these attributes; yield the tasks of all units with their answers."""
        self.rows.begin_pass(columns)
        yield from self._answers(job, columns, content)

    def _answers(
        self, job: Job, columns: Sequence[str], content: Callable[[TablePiece], Any]
    ) -> Iterator[tuple[Task, Any]]:
        """Yield the tasks of all units with their answers, and tell progress and remarks."""
        read = 0
        for task, answer in self._workers.run(job, self._tasks(columns, content)):
            *found, seen = answer
            read += seen.rows
            self.rows.note_outside(seen.outside_columns, seen.outside_counts)
            self._fingerprints.check(task.number, seen.fingerprint)
            if self.rows.progress is not None:
                self.rows.progress(read)
            yield task, found[0] if len(found) == 1 else tuple(found)

    def _tasks(
        self, columns: Sequence[str], content: Callable[[TablePiece], Any]
    ) -> Iterable[Task]:
        def task(unit: TablePiece) -> Task:
            return Task(unit.number, lambda: content(unit))

        units = self.rows.source.units()
        if units is None:
            return map(task, self._blocks(self.rows.source_columns(columns)))
        return [task(unit) for unit in units]

    def _blocks(self, columns: list[str]) -> Iterator[TablePiece]:
        """Yield the blocks of a source that only the driver can read."""
        source, first = self.rows.source, 0
        for number, parts in groupby(source.unit_batches(columns), key=itemgetter(0)):
            batches = [batch for _, batch in parts]
            yield tasks.Block(source, columns, number, first, batches)
            first += sum(batch.num_rows for batch in batches)

    def _key(self, unit: int, purpose: str) -> bytes:
        return self._noise.unit_key(str(unit), purpose)

    def _in_driver(self, names: Sequence[str], unit: PrivacyUnit) -> bool:
        """Return whether rows are counted in this process: by person, or by the source itself."""
        if unit.column is not None:
            return not self._divides_people()
        return self.rows.weighted(names) is not None

    def _divides_people(self) -> bool:
        """Return whether the first rows of each person are found by tasks: units of the table in
        its own order, of which there are several.
        """
        source = self.rows.source
        divided = self._workers.divides_people and source.ordered() is source
        return divided and len(source.units() or ()) > 1

    def _limited(self, unit: PrivacyUnit) -> Callable[[TablePiece], Any]:
        """Return the function that makes the content of a task from its unit: with the rows that
        are too many of a person, if there is a limit.
        """
        if unit.column is None:
            return lambda each: each
        wanted = unit.column, unit.rows
        if wanted not in self._surplus:
            self._surplus[wanted] = self._find_surplus(*wanted)
        surplus, key = self._surplus[wanted], self._noise.unit_key(*_SHUFFLE)

        def content(each: TablePiece) -> LimitedUnit:
            print_ = self._key(each.number, FINGERPRINT)
            return LimitedUnit(each, *wanted, surplus[each.number], key, print_)

        return content

    def _find_surplus(self, person: str, most: int) -> dict[int, list[Section]]:
        """Return where it is written which rows of each unit are too many of a person."""
        self.rows.limited(person, most)  # raises an error if the column cannot tell persons apart
        folder = Path(tempfile.mkdtemp(prefix="people-", dir=self._workers.staging()))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        key = self._noise.unit_key(*_SHUFFLE)

        def content(unit: TablePiece) -> UnitOfPeople:
            return UnitOfPeople(unit, key, self._key(unit.number, FINGERPRINT))

        parts = min(len(self.rows.source.units() or ()), MOST_PARTS)
        job = IdentifiersJob(person, most, parts, folder)
        written = {task.number: found for task, found in self._answers(job, [person], content)}
        units = sorted(written)

        def task(part: int) -> Task:
            sections = [written[unit][part] for unit in units]
            return Task(part, lambda: PartOfPeople(part, sections, key))

        found: dict[int, list[Section]] = {unit: [] for unit in units}
        for _, sections in self._workers.run(SurplusJob(most, folder), map(task, range(parts))):
            for unit, section in zip(units, sections, strict=True):
                found[unit].append(section)
        return found

    def _local(self) -> LocalEngine:
        return LocalEngine(self.rows, self._noise)

    def _clear(self) -> None:
        """Remove the staging folder."""
        if self._staging is not None:
            self._staging.remove()
        self._staging = None


def _accept(staging: Path, runs: Iterable[StoredRun]) -> None:
    """Accept one attempt at every task. What other ones have completed must be the same."""
    accepted = {_without_attempt(run.path): run.path for run in runs}
    for other in staging.glob("*.run"):
        path = accepted.get(_without_attempt(other), other)
        if other == path:
            continue
        if other.read_bytes() != path.read_bytes():
            raise ScumbleError(
                "Two attempts at the same part of the table drew different noise, which "
                "must not happen; nothing was published."
            )
        other.unlink()


def _without_attempt(path: Path) -> str:
    """Return the name of a file of rows without that of the attempt."""
    return path.name.partition("-")[2]
