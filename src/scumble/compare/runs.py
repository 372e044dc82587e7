"""The runs of a comparison, in this process or in worker processes.

Each worker is a fresh interpreter: a forked one would lack the threads of its libraries. The
private table is sent to each worker once, through a pipe and not through a file. Workers end with
this process, however it ends.
"""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.compare import databases
from scumble.compare.exposure import ReleaseExposure, database_exposure, release_exposure
from scumble.compare.questions import ComparedQuestions, Floats, Places
from scumble.compare.settings import Choice
from scumble.compare.truth import Codes, TrueTable
from scumble.model.errors import Dialect, ParameterError, ScumbleError, using_dialect
from scumble.model.long_work import portion
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.private.engines.interrupts import interrupts_blocked
from scumble.private.mechanism import mechanisms
from scumble.private.mechanism_metadata import PRIOR
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable
from scumble.public.release import Release


@dataclass(frozen=True)
class Run:
    """One release of a setting: its answers, the distances of its tables from the true ones, its
    exposure, and of some intervals the share that held the truth and the mean half-width.
    """

    method: str
    words: str
    repeat: int
    values: list[float]
    distances: list[float]
    success: float
    basis: str
    posterior: float | None
    whole: bool
    delta: float
    coverage: float | None
    intervals: int
    half: float | None = None  # unknown in results of earlier versions
    worst: float | None = None  # the chance against the unluckiest person


@dataclass(frozen=True)
class RunTask:
    """A run to be made, and its number in the comparison."""

    number: int
    choice: Choice
    repeat: int


@dataclass(frozen=True, eq=False)
class Material:
    """All that a process needs to make runs, in a form that can be sent through a pipe."""

    schema: Schema
    codes: Mapping[str, Codes]
    rows: int
    queries: tuple[Query, ...]
    truth: Floats
    seed: int

    @classmethod
    def of(cls, table: TrueTable, queries: Sequence[Query], seed: int) -> Material:
        codes = {each.name: table.codes(each.name) for each in table.schema.published}
        truth: npt.NDArray[np.float64] = np.concatenate([*table.answers(queries), np.empty(0)])
        return cls(table.schema, codes, table.rows, tuple(queries), truth, seed)


_PUBLISHING = 0.3  # part of a run that publishing takes, about; the rest is answering


class Runner:
    """Makes runs in this process."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.table = TrueTable(material.schema, material.codes, material.rows)
        self.asked = ComparedQuestions(material.schema, material.queries)
        self.truth = material.truth

    @cached_property
    def kept(self) -> Places:
        """The answers that can be compared."""
        return self.asked.kept(self.truth)

    @cached_property
    def _rows(self) -> pa.Table:
        """The table to publish, in memory, for all runs."""
        schema = self.material.schema
        return pa.table({a.name: a.decode(self.table.codes(a.name)) for a in schema.published})

    def run(self, choice: Choice, repeat: int) -> Run:
        """Publish once and measure; raise an error if the setting is impossible.

        The seed of a release depends on the setting and the repeat only, so that every process
        makes the same release. Nobody else ever sees it.
        """
        seed = _seed(self.material.seed, choice, repeat)
        if choice.method in databases.METHODS:
            return self._asked(choice, repeat, seed)
        _check_columns(choice)
        with portion(0, _PUBLISHING):
            release = publish(
                self._rows,
                self.material.schema,
                choice.mechanism,
                options=PublishOptions(seed=seed),
            )
        with portion(_PUBLISHING, 1):
            place = release_exposure(release, self.table, PRIOR)
            if choice.of_rows:
                values = self._counted_in_rows(release, seed)
                return self._run(choice, repeat, values, place, release.guarantees)
            given = release.answer_many(self.material.queries)
            return self._run_of_answers(choice, repeat, given, place, release.guarantees)

    def _asked(self, choice: Choice, repeat: int, seed: int) -> Run:
        """Ask a database all questions, and measure."""
        material, given = self.material, choice.parameters
        found = databases.ask(self._rows, material.schema, material.queries, given, seed)
        place = database_exposure(found.guarantee, given["attributes"], self.table, PRIOR)
        return self._run_of_answers(choice, repeat, found.answers, place, [found.guarantee])

    def _run_of_answers(
        self,
        choice: Choice,
        repeat: int,
        given: Sequence[Estimate | Estimates | EstimateTable],
        place: ReleaseExposure,
        guarantees: Sequence[Guarantee],
    ) -> Run:
        found = self.asked.answers(given)
        values = self.asked.values(found)
        intervals = self.asked.intervals(found, self.truth, self.kept, repeat)
        return self._run(choice, repeat, values, place, guarantees, intervals)

    def _run(
        self,
        choice: Choice,
        repeat: int,
        values: Floats,
        place: ReleaseExposure,
        guarantees: Sequence[Guarantee],
        intervals: tuple[float | None, float | None, int] = (None, None, 0),
    ) -> Run:
        share, half, measured = intervals
        return Run(
            method=choice.method,
            words=choice.words,
            repeat=repeat,
            values=self.asked.rounded(values, self.truth, self.kept),
            distances=self.asked.distances(values, self.truth),
            success=place.success,
            basis=place.basis,
            posterior=place.posterior,
            whole=place.whole,
            delta=max((g.parameters.get("delta", 0.0) for g in guarantees), default=0.0),
            coverage=share,
            intervals=measured,
            half=half,
            worst=place.worst,
        )

    def _counted_in_rows(self, release: Release, seed: int) -> Floats:
        """Return the answers of as many synthetic rows as the release says there are."""
        drawn = release.synthetic.rows(seed=seed)
        schema = self.material.schema.select(drawn.column_names)
        codes = {name: schema[name].encode(drawn[name])[0] for name in schema.names}
        found = TrueTable(schema, codes, drawn.num_rows).answers(self.material.queries)
        return np.asarray(np.nan_to_num(np.concatenate([*found, np.empty(0)])))


def _check_columns(choice: Choice) -> None:
    """Refuse questions about more columns than a summary can measure."""
    kind, names = mechanisms()[choice.published], choice.parameters.get("attributes", ())
    most = getattr(kind, "most_attributes", len(names))
    if len(names) > most:
        takes = {1: "one column", 2: "two columns", 4: "four columns"}.get(most, f"{most} columns")
        raise ParameterError(
            f"It takes at most {takes}; the questions name {len(names)}: "
            f"{', '.join(names)}. Ask about fewer with --queries."
        )


def _seed(seed: int, choice: Choice, repeat: int) -> int:
    """Return a seed that depends on no other run. It is different for every run, but for that of a
    release and of its synthetic rows: these are drawn from the same release.
    """
    words = f"{seed}, {choice.published}, {choice.words}, {repeat}"
    return int.from_bytes(sha256(words.encode()).digest()[:8], "big")


RunOrReason = Run | str  # a run, or the reason why there can be none


@dataclass(frozen=True)
class RunFailure:
    """An unexpected error of a worker, and its traceback."""

    kind: str
    where: str


def usable_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def try_run(runner: Runner, task: RunTask) -> RunOrReason:
    """Return a run, or the reason why it is impossible.

    Reasons name parameters as in Python: the command line of a comparison has no options for them.
    """
    try:
        with using_dialect(Dialect()):
            return runner.run(task.choice, task.repeat)
    except ScumbleError as error:
        return str(error)
    except MemoryError:
        return "There is not enough memory for it."


class RunWorkers:
    """A context in which `jobs` worker processes are alive."""

    def __init__(self, jobs: int, material: Material) -> None:
        self._jobs = jobs
        self._material = material
        self._processes: dict[Connection, BaseProcess] = {}
        # The temporary folders of workers are here, and are removed with it.
        self._folder = tempfile.TemporaryDirectory(prefix="scumble-")

    def __enter__(self) -> RunWorkers:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def made(self, tasks: Iterator[RunTask]) -> Iterator[tuple[RunTask, RunOrReason]]:
        """Yield runs in the order in which they finish; free workers take the next task."""
        busy: dict[Connection, RunTask] = {}
        for pipe in self._processes:
            self._hand(pipe, tasks, busy)
        while busy:
            ready = connection.wait(list(busy))
            for pipe in [each for each in busy if each in ready]:
                task = busy.pop(pipe)
                found = self._received(pipe)
                self._hand(pipe, tasks, busy)
                yield task, found

    def _start(self) -> None:
        context = get_context("spawn")
        with interrupts_blocked():
            for _ in range(self._jobs):
                here, there = context.Pipe()
                process = context.Process(
                    target=_worker_main, args=(there, self._folder.name), daemon=True
                )
                process.start()
                there.close()
                self._processes[here] = process
        for pipe in self._processes:
            with _worker_errors():
                pipe.send(self._material)

    def _hand(
        self, pipe: Connection, tasks: Iterator[RunTask], busy: dict[Connection, RunTask]
    ) -> None:
        task = next(tasks, None)
        if task is not None:
            with _worker_errors():
                pipe.send(task)
            busy[pipe] = task

    def _received(self, pipe: Connection) -> RunOrReason:
        with _worker_errors():
            found = pipe.recv()
        if isinstance(found, RunFailure):
            error = RuntimeError(found.kind)
            error.add_note(found.where)  # for --debug
            raise error
        return cast(RunOrReason, found)

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
        for pipe, process in self._processes.items():
            process.join()
            pipe.close()
        self._folder.cleanup()


@contextmanager
def _worker_errors() -> Iterator[None]:
    """Turn a broken pipe to a worker into an error for the user."""
    try:
        yield
    except (EOFError, OSError):
        raise ScumbleError(
            "A process that makes releases was ended from outside, perhaps for want of memory; try "
            "fewer --jobs."
        ) from None


def _worker_main(pipe: Connection, folder: str) -> None:
    """Run a worker: receive the material, then tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder
    try:
        runner = Runner(pipe.recv())
        while True:
            task = pipe.recv()
            found: RunOrReason | RunFailure
            try:
                found = try_run(runner, task)
            except Exception as error:
                found = RunFailure(type(error).__name__, traceback.format_exc())
            pipe.send(found)
    except (EOFError, OSError):
        return  # the parent is gone
