"""Waiting for Spark: for an answer that comes, and not for one that never will.

Java that runs out of memory can lose one thread of Spark and go on without it. Then a job never
ends, and a call of Java does not return. So Spark is called in a thread of its own, while the
thread that publishes looks for signs of life: tasks touch a file in the staging folder when they
begin, while they read, and when they end. Another thread asks Java how far the tasks are: those
that wait for a free core of a busy cluster are waited for, and so are those that compute a
DataFrame, which leave no signs. A message of the logger "scumble.spark" then says what is waited
for.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scumble.model.errors import ScumbleError

_Answer = TypeVar("_Answer")
_Box = queue.SimpleQueue[tuple[Any, BaseException | None]]

PATIENCE = 600  # seconds without a sign of life; Spark itself notices a lost machine within 120
NOTICE_SECONDS = 60  # without progress before the first message; the next ones double the time
BEAT_SECONDS = 5  # between the signs of one task
_LOOK_SECONDS = 0.2  # how long a signal may wait
_CANCEL_SECONDS = 10  # that Java may take to cancel tasks
_BEAT = "beat"  # the name of the file
_LOG = logging.getLogger("scumble.spark")
_LOST = "a worker ended several times at one part of the table, perhaps for lack of memory"
_STOPPED = "its session was stopped, or its master cannot be reached"
_GONE = (
    "the Java process of the session ended, perhaps for lack of memory; a larger "
    "spark.driver.memory may help"
)
_SILENT = (
    "{} for {} minutes, perhaps because the Java process of the session lost a message for lack of "
    "memory; a larger spark.driver.memory may help"
)
_WAITING = "Still waiting for Spark: %s for %s. Ctrl-C ends this, and publishes nothing."
# What a message of Spark contains, and what is told.
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


def begin_beats(staging: Path) -> None:
    """Make the file that tasks touch."""
    (staging / _BEAT).touch()


def beat(staging: Path) -> None:
    """Leave a sign of life. A task that nobody waits for any more finds no file."""
    with suppress(OSError):
        os.utime(staging / _BEAT)


def answer_of(context: Any, signs: Signs, call: Callable[[], _Answer]) -> _Answer:
    """Return what `call` returns, which may use the context.

    If it raises an error of Spark, which may quote values and keys, or if there is no sign of life
    for too long, ScumbleError has one sentence. The tasks of this call are cancelled then, and
    after any other exception, such as that of Ctrl-C.
    """
    running = _Call(context, call)
    try:
        with signs.asked(context, running.tag):
            running.start()
            answer, error = _awaited(running.box, signs)
    except BaseException:
        running.cancel()
        raise
    if error is None:
        found: _Answer = answer
        return found
    running.cancel()
    # Raised outside of any except clause, so that no exception keeps the error of Spark.
    raise _told(error, context)


class _Call:
    """A call in a thread of its own. The jobs of Spark that it begins have a tag."""

    def __init__(self, context: Any, call: Callable[[], Any]) -> None:
        self.box: _Box = queue.SimpleQueue()
        self._context, self._call = context, call
        self.tag = f"scumble-{secrets.token_hex(8)}"
        self._begun, self._left, self._ended = (threading.Event() for _ in range(3))

    def start(self) -> None:
        """Begin the call; its thread has the properties that Spark keeps for this one."""
        from pyspark import InheritableThread

        InheritableThread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        self._begun.set()
        if self._left.is_set():
            return
        try:
            self._context.addJobTag(self.tag)  # of this thread, which ends with the call
            self.box.put((self._call(), None))
        except BaseException as error:
            self.box.put((None, error))
        finally:
            self._ended.set()

    def cancel(self) -> None:
        """Cancel the jobs, if Java still answers."""
        self._left.set()
        if self._begun.is_set():
            thread = threading.Thread(target=self._cancel, daemon=True)
            thread.start()
            thread.join(_CANCEL_SECONDS)

    def _cancel(self) -> None:
        """Cancel until the call has ended: it may be about to begin a job."""
        while True:
            with suppress(Exception):  # Spark itself may have ended
                self._context.cancelJobsWithTag(self.tag)
            if self._ended.wait(_LOOK_SECONDS):
                return


def _awaited(box: _Box, signs: Signs) -> tuple[Any, BaseException | None]:
    """Return what the thread puts into the box: an answer or an error. It is `_SilenceError` if
    there are no signs of life for too long.
    """
    life, progress, notice = _Unchanged(), _Unchanged(), float(NOTICE_SECONDS)
    while True:
        with suppress(queue.Empty):
            return box.get(timeout=_LOOK_SECONDS)
        if life.seconds(signs.life()) > PATIENCE:
            return None, _SilenceError(signs.silent)
        waited = progress.seconds(signs.progress())
        if waited < NOTICE_SECONDS:
            notice = NOTICE_SECONDS
        elif waited >= notice:
            _LOG.warning(_WAITING, signs.waiting(), _span(waited))
            notice *= 2


def _span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


class _Unchanged:
    """How long a value has been the same."""

    def __init__(self) -> None:
        self._value: object = None
        self._since = time.monotonic()

    def seconds(self, value: object) -> float:
        """Return for how many seconds `value` was given at every call."""
        if value != self._value:
            self._value, self._since = value, time.monotonic()
        return time.monotonic() - self._since


@dataclass(frozen=True)
class _Status:
    """What Java tells about the jobs of a call.

    `ended` changes with every task and job that ends. `running` is the number of tasks that run.
    `queued` says in words why, if all tasks wait for a free core; it is empty otherwise.
    """

    ended: tuple[int, int] = (0, 0)
    running: int = 0
    queued: str = ""


def _status(context: Any, tag: str) -> _Status:
    """Ask Java about the jobs with a tag; it may answer, and yet be unable to tell."""
    with suppress(Exception):
        return _told_status(context, tag)
    return _Status()


def _told_status(context: Any, tag: str) -> _Status:
    """Return what Java tells.

    Executors that do nothing although tasks wait are no queue: then Spark has lost a message.
    """
    tracker = context._jsc.sc().statusTracker()
    jobs = [job for number in _jobs(tracker, tag) for job in _some(tracker.getJobInfo(number))]
    jobs = [job for job in jobs if job.status().toString() == "RUNNING"]
    numbers = [stage for job in jobs for stage in job.stageIds()]
    stages = [stage for number in numbers for stage in _some(tracker.getStageInfo(number))]
    ended = sum(each.numCompletedTasks() + each.numFailedTasks() for each in stages)
    running = sum(each.numActiveTasks() for each in stages)
    busy = [each.numRunningTasks() for each in tracker.getExecutorInfos()]
    # The driver is in the list, and does tasks only if there is nothing else.
    local = context.master.startswith("local") and not context.master.startswith("local-cluster")
    queued = ""
    if jobs and not running and len(busy) == 1 and not local:
        queued = "the session has had no executor"
    elif jobs and not running and any(busy):
        queued = "the executors of the session have done only other tasks"
    return _Status((len(jobs), ended), running, queued)


def _jobs(tracker: Any, tag: str) -> Any:
    """Return the numbers of the jobs with a tag; of all jobs if Spark cannot tell them apart."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError):
        return tracker.getJobIdsForTag(tag)
    return tracker.getActiveJobIds()


def _some(option: Any) -> list[Any]:
    """Return the value of an option of Scala, if it has one."""
    return [option.get()] if option.isDefined() else []


class Signs(ABC):
    """Signs of life of a call, and of its progress. Java is asked by a thread of its own, since it
    may never answer.
    """

    silent: str  # what there was none of, in words

    def __init__(self) -> None:
        self._answers = self._queued = 0
        self._status = _Status()

    @contextmanager
    def asked(self, context: Any, tag: str) -> Iterator[None]:
        """Ask Java about the jobs with a tag inside of the block."""
        ended = threading.Event()

        def ask() -> None:
            with suppress(Exception):  # then there are no more answers
                while not ended.wait(min(BEAT_SECONDS, PATIENCE / 3)):
                    context._jsc.sc().isStopped()
                    self._status = _status(context, tag)
                    self._queued += bool(self._status.queued)
                    self._answers += 1

        threading.Thread(target=ask, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    @abstractmethod
    def life(self) -> object:
        """Return a value that changes with every sign of life."""

    @abstractmethod
    def progress(self) -> object:
        """Return a value that changes as tasks go on."""

    def waiting(self) -> str:
        """Return in words what is waited for."""
        return self._status.queued or self.silent


class TaskSigns(Signs):
    """The signs that tasks leave in the staging folder; and Java says that all of them are still to
    begin.
    """

    silent = "no task has begun, read on or ended"

    def __init__(self, staging: Path) -> None:
        super().__init__()
        self._file, self._beat = staging / _BEAT, -1

    def life(self) -> object:
        return self.progress(), self._queued

    def progress(self) -> object:
        with suppress(OSError):  # a shared folder may be out of reach for a moment
            self._beat = self._file.stat().st_mtime_ns
        return self._beat


class JavaSigns(Signs):
    """Java answers a question, whatever tasks do: those of a plan leave no signs."""

    silent = "the Java process of the session has not answered"

    def life(self) -> object:
        return self._answers

    def progress(self) -> object:
        return self._status.ended

    def waiting(self) -> str:
        running = self._status.running
        return self._status.queued or f"no task of the DataFrame has ended ({running} running)"


class _SilenceError(Exception):
    """There was no sign of life for too long."""


def _told(error: BaseException, context: Any) -> BaseException:
    """Return the exception with a sentence for an error of Spark, and any other as it is."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, (PySparkException, Py4JError, OSError, EOFError, _SilenceError)):
        return error
    text = str(error)
    reason = next((told for sign, told in _REASONS if sign in text), "see the logs of Spark")
    if isinstance(error, _SilenceError):
        reason = _SILENT.format(text, round(PATIENCE / 60, 1))
    if java_ended(context):
        reason = _GONE
    return ScumbleError(f"The Spark cluster could not do its work: {reason}.")


def java_ended(context: Any) -> bool:
    """Whether the Java process that this process started is gone."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)  # its connections close a little before it ends
    return process.poll() is not None
