"""The engine of a Spark cluster: `PublishOptions(engine=sc.Spark(session))`.

Units of work are the elements of an RDD, one or a few in a partition, and a task of Spark does with
each what a worker process would do. It reads its unit itself; only the task and its answer pass
through Spark. The keys of units are in these elements: they travel over the channel of the job,
which must be encrypted, and reach no closure, configuration or log.
"""

from __future__ import annotations

import pickle
import queue
import secrets
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from scumble._version import __version__
from scumble.model.errors import ParameterError, ScumbleError, SourceError, setting
from scumble.private.engines import spark_task
from scumble.private.engines.spark_task import packed
from scumble.private.engines.staging import StagingFolder
from scumble.private.engines.worker import TaskFailure
from scumble.private.engines.workers import ATTEMPTS, Job, Task
from scumble.private.tables import source
from scumble.private.tables.files import ParquetFiles
from scumble.private.tables.frames import is_spark
from scumble.private.tables.source import Source, TablePiece, check_distinct

# Tasks are sent in waves, each of which is one job of Spark.
_FIRST_WAVE = 16  # tasks at most, while nobody knows how long an answer is
_MOST_TASKS = 1 << 10  # of a wave
_EACH = 16  # tasks of a wave for each core: a wave costs 0.25 s of processor time in all
_SENT_BYTES = 1 << 25  # of all tasks of a wave; Java holds several copies of each
_ANSWER_BYTES = 1 << 28  # ... of their answers, if they are as long as those before
_PARTITIONS = 4  # of a wave for each core: each costs 0.05 s of processor time in all
_PROBES = 64  # the largest number of tasks that look at the cluster before anything is read


class Spark:
    """A Spark cluster that reads and perturbs rows.

    `session` is the `SparkSession` of pyspark. `staging` is a folder that all machines see under
    the same path; without it, the system's folder for temporary files serves if there is one
    machine. `insecure_cluster` allows a cluster that sends and writes without encryption.
    """

    def __init__(
        self,
        session: Any,
        *,
        staging: str | Path | None = None,
        insecure_cluster: bool = False,
    ) -> None:
        home = type(session).__module__
        if not home.startswith("pyspark.sql.") or home.startswith("pyspark.sql.connect."):
            allowed = "a SparkSession of pyspark that is not a client of Spark Connect"
            raise ParameterError.of("Spark", "session", allowed, type(session).__name__)
        if staging is not None and not Path(staging).is_dir():
            raise ParameterError.of("Spark", "staging", "a folder that exists", str(staging))
        self.session = session
        self.staging = None if staging is None else Path(staging).absolute()
        self.insecure_cluster = insecure_cluster

    def __repr__(self) -> str:
        return f"Spark({self.session.sparkContext.master!r})"

    def opened(self) -> SparkExecutor:
        """Return a context in which the cluster does tasks; refuse one that is not encrypted."""
        if self.session.sparkContext._jsc is None:
            raise ParameterError.of(
                "Spark", "session", "a session that is running", "a stopped one"
            )
        missing = [] if self.insecure_cluster else _missing(self.session.sparkContext)
        if missing:
            raise ParameterError(
                "Keys and exact counts would leave this process unencrypted: the session must have "
                f"{' and '.join(missing)}. Set this where the cluster is configured, or say "
                f"{setting('insecure_cluster', True)} if nobody else can reach its network and "
                "disks."
            )
        return SparkExecutor(self.session.sparkContext, StagingFolder(self.staging))


def _missing(context: Any) -> list[str]:
    """Return the settings that a session lacks for its channels and files to be encrypted."""
    conf = context.getConf()

    def on(name: str) -> bool:
        return str(conf.get(name, "false")).lower() == "true"

    one_process = context.master == "local" or context.master.startswith("local[")
    # Spark derives the key of the channel from the secret, and does nothing without one.
    channel = on("spark.network.crypto.enabled") and on("spark.authenticate")
    found = []
    if not one_process and not channel and not on("spark.ssl.rpc.enabled"):
        found.append("spark.network.crypto.enabled=true (with spark.authenticate=true)")
    if not on("spark.io.encryption.enabled"):
        found.append("spark.io.encryption.enabled=true")
    if on("spark.eventLog.enabled"):
        found.append("spark.eventLog.enabled=false")
    return found


class SparkExecutor:
    """Does tasks on a cluster until the end of the `with` block. See `workers.Executor`.

    Tests use one attribute: `order` rearranges the tasks of a job before they are handed out.
    """

    divides_people = True

    def __init__(self, context: Any, staging: StagingFolder) -> None:
        self._context = context
        self._staging = staging
        self._jobs = 0
        self._parallelism = 1
        self._stack = ExitStack()
        self.order: Callable[[list[Task]], list[Task]] | None = None

    def __enter__(self) -> SparkExecutor:
        """Look whether the workers have what they need, before anything is read or charged."""
        self._stack.enter_context(self._staging)
        try:
            self._parallelism = self._cores()
            number = min(self._parallelism, _PROBES)
            list(self.run(spark_task.Probe(), [Task(each, lambda: None) for each in range(number)]))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def source(self, table: Any, columns: Iterable[str]) -> Any:
        """Return a Spark DataFrame as a source with these columns, and any other table as it is."""
        if not is_spark(table) or not hasattr(table, "mapInArrow"):
            return table
        return SparkFrame(table, columns, self._staging)

    def staging(self, folder: Path | None = None) -> Path:
        """Return the folder that all machines see."""
        return self._staging.path

    def run(self, job: Job, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield every task with its answer. Spark gets the tasks in waves, one after the other, so
        that neither they nor the answers take much memory.
        """
        self._jobs += 1
        given = tasks if self.order is None else self.order(list(tasks))
        run = _Run(job, given, self._staging.path, f"notes{self._jobs}")
        known = getattr(job, "answer_bytes", None)
        most = min(self._parallelism, _FIRST_WAVE) if known is None else self._wave(known)
        while wave := run.wave(most):
            answers = self._answers([(task.number, sent) for task, sent in wave.values()])
            for number, answer in answers:
                task, _ = wave[number]
                kind, found = pickle.loads(answer)  # noqa: S301 (from a task of this release)
                if kind == "done":
                    task.notes = run.noted(task)
                    yield task, found
                else:
                    run.failed(task, found)
            size = sum(len(answer) for _, answer in answers)
            most = self._wave(size / len(wave))
        run.end()

    def _wave(self, answer: float) -> int:
        """Return how many tasks with answers of this many bytes are sent together."""
        fitting = int(_ANSWER_BYTES / max(1, answer))
        return max(1, min(_MOST_TASKS, _EACH * self._parallelism, fitting))

    def _answers(self, orders: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Let Spark do some tasks: of many, a few in one partition, which is a task of Spark."""
        partitions = min(len(orders), _PARTITIONS * self._parallelism)

        def answers() -> list[tuple[int, bytes]]:
            sent = self._context.parallelize(orders, partitions)
            found = list(sent.mapPartitions(spark_task.work).collect())
            self._parallelism = self._cores()  # there may be more executors by now
            return found

        return call_spark(self._context, answers)

    def _cores(self) -> int:
        return max(1, int(self._context.defaultParallelism))


class _Run:
    """The tasks of one job: those to send, and the errors."""

    def __init__(self, job: Job, tasks: Iterable[Task], staging: Path, notes: str) -> None:
        self._job, self._tasks = job, iter(tasks)
        self._staging, self._notes = staging, staging / notes
        self._notes.mkdir()
        self._again: deque[Task] = deque()
        self._failures: dict[int, BaseException] = {}

    def wave(self, most: int) -> dict[int, tuple[Task, bytes]]:
        """Return the next tasks as they are sent, by their numbers.

        After an error only the tasks before it are of use: they may have errors of their own.
        """
        found: dict[int, tuple[Task, bytes]] = {}
        size = 0
        while len(found) < most and size < _SENT_BYTES:
            task = self._again.popleft() if self._again else next(self._tasks, None)
            if task is None:
                break
            if not self._failures or task.number < min(self._failures):
                found[task.number] = task, self._sent(task)
                size += len(found[task.number][1])
        return found

    def _sent(self, task: Task) -> bytes:
        try:
            work = pickle.dumps((self._job, task.content()), protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError):
            raise ParameterError(spark_task.UNSENT) from None
        notes = self._notes / str(task.number)
        order = spark_task.Order(__version__, str(self._staging), str(notes), *packed(work))
        return pickle.dumps(tuple(order), protocol=5)

    def noted(self, task: Task) -> list[Any]:
        """Return what all attempts at a task have noted."""
        return spark_task.noted(self._notes / str(task.number))

    def failed(self, task: Task, failure: TaskFailure) -> None:
        """Try a task again, or keep its error."""
        task.attempt += 1
        if failure.again and task.attempt < ATTEMPTS:
            self._again.append(task)
        else:
            self._failures[task.number] = failure.error()

    def end(self) -> None:
        """Raise the error of the first task that has one."""
        if self._failures:
            raise self._failures[min(self._failures)]


# --- a DataFrame of Spark -------------------------------------------------------------------------
#
# A Spark DataFrame as a source: it is computed once, into private files that are the units.
#
# The plan of a DataFrame can give its rows in another order whenever it is run, and noise is drawn
# for rows in an order. So Spark writes the rows to Parquet files in the staging folder first.


class SparkFrame(Source):
    """The rows of a DataFrame. Of its columns, those of `wanted` are written."""

    description = "The Spark DataFrame"

    def __init__(self, frame: Any, wanted: Iterable[str], staging: StagingFolder) -> None:
        self.columns = check_distinct(self.description, frame.columns)
        self._frame, self._wanted, self._staging = frame, set(wanted), staging

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the files."""
        self.require(columns)
        return self._files.batches(columns)

    def unit_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of the files."""
        self.require(columns)
        return self._files.unit_batches(columns)

    def units(self) -> list[TablePiece] | None:
        """Return the units of the files: each has at most the rows of one unit."""
        return self._files.units()

    @cached_property
    def _files(self) -> ParquetFiles:
        """Run the plan, and write its rows."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        folder = self._staging.path / "rows"
        names = [name for name in self.columns if name in self._wanted]
        chosen = self._frame.select(*("`" + name.replace("`", "``") + "`" for name in names))
        written = chosen.write.option("maxRecordsPerFile", source.UNIT_ROWS)
        context = self._frame.sparkSession.sparkContext

        def write() -> bool:
            try:
                written.parquet(folder.as_uri())
            except (PySparkException, Py4JJavaError):  # may quote values, and is not kept
                if java_ended(context):
                    raise
                return False
            return True

        if not call_spark(context, write):
            raise SourceError(
                f"{self.description} cannot be computed. The message of Spark may quote values: "
                "frame.count() shows it."
            )
        return ParquetFiles(self.description, sorted(folder.glob("*.parquet")))


# --- calls of Spark that end ----------------------------------------------------------------------
#
# Calls of Spark that end: with an answer, or with one sentence.
#
# Java that runs out of memory can lose one thread of Spark and go on without it. Then a job never
# ends, and a call of Java does not return. So Spark is called in a thread of its own, and another
# one asks Java how many tasks of the session have begun and ended. If that stays the same for too
# long, or Java does not answer, the call is given up.

_Answer = TypeVar("_Answer")

PATIENCE = 1800  # seconds in which no task of the session begins or ends
_ASK_SECONDS = 5  # between two questions to Java
_WAKE_SECONDS = 0.2  # how long a signal may wait
_CANCEL_SECONDS = 10  # that Java may take to cancel tasks
_LOST = "a worker ended several times at one part of the table, perhaps for lack of memory"
_STOPPED = "its session was stopped, or its master cannot be reached"
_GONE = (
    "the Java process of the session ended, perhaps for lack of memory; a larger "
    "spark.driver.memory may help"
)
_SILENT = (
    "no task began or ended for {} minutes, because no core was free, a task hangs, or the Java "
    "process of the session lost a message for lack of memory"
)
# What a message of Spark contains, and the reason that is given.
_REASONS = (
    (
        "No module named 'scumble",
        "its workers have no scumble; install the same version for the Python of PYSPARK_PYTHON",
    ),
    ("VERSION_MISMATCH", "its workers have another Python; PYSPARK_PYTHON names the one to use"),
    ("SparkContext was shut down", _STOPPED),
    ("stopped SparkContext", _STOPPED),
    ("Python worker exited unexpectedly", _LOST),
    ("ExecutorLostFailure", _LOST),
    ("maxResultSize", "counts of so many cells need a larger spark.driver.maxResultSize"),
    ("OutOfMemoryError", _GONE),
)


class _SilenceError(Exception):
    """No task began or ended for too long."""


def call_spark(context: Any, call: Callable[[], _Answer]) -> _Answer:
    """Return what `call` returns, which may use the context.

    If it raises an error of Spark, which may quote values and keys, or if no task of the session
    begins or ends for too long, ScumbleError has one sentence. The jobs of this call are cancelled
    then, and after any other exception, such as that of Ctrl-C.
    """
    from pyspark import InheritableThread

    box: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    tag = f"scumble-{secrets.token_hex(8)}"

    def work() -> None:
        try:
            context.addJobTag(tag)  # of this thread, which ends with the call
            box.put((call(), None))
        except BaseException as error:
            box.put((None, error))

    thread = InheritableThread(target=work, daemon=True)  # with the properties of this one
    try:
        thread.start()
        answer, error = _await_answer(box, context)
    except BaseException:
        _cancel(context, tag, thread)
        raise
    if error is None:
        found: _Answer = answer
        return found
    _cancel(context, tag, thread)
    # Raised outside of any except clause, so that no exception keeps the error of Spark.
    raise _explain(error, context)


def _await_answer(
    box: queue.SimpleQueue[tuple[Any, BaseException | None]], context: Any
) -> tuple[Any, BaseException | None]:
    """Return what the thread puts into the box, or `_SilenceError` if nothing moves for too long.

    Java is asked by another thread, since it may never answer.
    """
    changed, ended = [time.monotonic()], threading.Event()

    def watch() -> None:
        last = None
        while not ended.wait(min(_ASK_SECONDS, PATIENCE / 3)):
            with suppress(Exception):  # a question that fails tells nothing
                if (stages := _stages(context)) != last:
                    last, changed[0] = stages, time.monotonic()

    threading.Thread(target=watch, daemon=True).start()
    try:
        while time.monotonic() - changed[0] <= PATIENCE:
            with suppress(queue.Empty):
                return box.get(timeout=_WAKE_SECONDS)
        return None, _SilenceError()
    finally:
        ended.set()


def _stages(context: Any) -> list[Any]:
    """Return the active stages of the session, with the numbers of their tasks."""
    tracker = context.statusTracker()
    return [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]


def _cancel(context: Any, tag: str, call: threading.Thread) -> None:
    """Cancel the jobs of a call until it has ended: it may be about to begin one."""

    def cancel() -> None:
        while call.is_alive():
            with suppress(Exception):  # Spark itself may have ended
                context.cancelJobsWithTag(tag)
            call.join(_WAKE_SECONDS)

    thread = threading.Thread(target=cancel, daemon=True)  # Java may never answer
    thread.start()
    thread.join(_CANCEL_SECONDS)


def _explain(error: BaseException, context: Any) -> BaseException:
    """Return the exception with a sentence for an error of Spark, and any other as it is."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, (PySparkException, Py4JError, OSError, EOFError, _SilenceError)):
        return error
    text = str(error)
    reason = next((given for sign, given in _REASONS if sign in text), "see the logs of Spark")
    if isinstance(error, _SilenceError):
        reason = _SILENT.format(round(PATIENCE / 60, 1))
    if java_ended(context):
        reason = _GONE
    return ScumbleError(f"The Spark cluster could not do its work: {reason}.")


def java_ended(context: Any) -> bool:
    """Return whether the Java process that this process started is gone."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)  # its connections close a little before it ends
    return process.poll() is not None
