"""Waiting for Spark: for an answer that comes, and not for one that never will.

Java that runs out of memory can lose one thread of Spark and go on without it. Then a job never
ends, and a call of Java does not return. So Spark is called in a thread of its own, while the
thread that publishes looks for signs of life: tasks touch a file in the staging folder when they
begin, while they read, and when they end. While a DataFrame is written, which is Spark's own work,
Java is asked for a sign.
"""

from __future__ import annotations

import os
import queue
import secrets
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from scumble.model.errors import ScumbleError

_Answer = TypeVar("_Answer")
_Box = queue.SimpleQueue[tuple[Any, BaseException | None]]

PATIENCE = 600  # seconds without a sign of life; Spark itself notices a lost machine within 120
BEAT_SECONDS = 5  # between the signs of one task
_LOOK_SECONDS = 0.2  # how long a signal may wait
_CANCEL_SECONDS = 10  # that Java may take to cancel tasks
_BEAT = "beat"  # the name of the file
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


def answer_of(context: Any, sign: Sign, call: Callable[[], _Answer]) -> _Answer:
    """Return what `call` returns, which may use the context.

    If it raises an error of Spark, which may quote values and keys, or if there is no sign of life
    for too long, ScumbleError has one sentence. The tasks of this call are cancelled then, and
    after any other exception, such as that of Ctrl-C.
    """
    running = _Call(context, call)
    try:
        with sign:
            running.start()
            answer, error = _awaited(running.box, sign)
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
        self._tag = f"scumble-{secrets.token_hex(8)}"
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
            self._context.addJobTag(self._tag)  # of this thread, which ends with the call
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
                self._context.cancelJobsWithTag(self._tag)
            if self._ended.wait(_LOOK_SECONDS):
                return


def _awaited(box: _Box, sign: Sign) -> tuple[Any, BaseException | None]:
    """Return what the thread puts into the box: an answer or an error. It is `_SilenceError` if
    there are no signs of life for too long.
    """
    seen, since = -1, time.monotonic()
    while True:
        with suppress(queue.Empty):
            return box.get(timeout=_LOOK_SECONDS)
        now = sign.last()
        if now not in (seen, None):
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            return None, _SilenceError(sign.silent)


class Sign(Protocol):
    """Signs of life, inside of the `with` block."""

    silent: str  # what there was none of, in words

    def last(self) -> int | None:
        """Return a number that changes with every sign; None if it is not known."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exception: object) -> None: ...


class TaskSigns:
    """The signs that tasks leave in the staging folder."""

    silent = "no task has begun, read on or ended"

    def __init__(self, staging: Path) -> None:
        self._file = staging / _BEAT

    def last(self) -> int | None:
        with suppress(OSError):  # a shared folder may be out of reach for a moment
            return self._file.stat().st_mtime_ns
        return None

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


class JavaSigns:
    """Java answers a question, whatever tasks do: those of a plan leave no signs."""

    silent = "the Java process of the session has not answered"

    def __init__(self, context: Any) -> None:
        self._context = context
        self._answers = 0
        self._ended = threading.Event()

    def last(self) -> int:
        return self._answers

    def __enter__(self) -> None:
        threading.Thread(target=self._ask, daemon=True).start()

    def __exit__(self, *exception: object) -> None:
        self._ended.set()

    def _ask(self) -> None:
        with suppress(Exception):  # then there are no more answers
            while not self._ended.wait(min(BEAT_SECONDS, PATIENCE / 3)):
                self._context._jsc.sc().isStopped()
                self._answers += 1


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
