"""Waiting for Spark: for an answer that comes, and not for one that never will.

Java that runs out of memory can lose one thread of Spark and go on without it. Then a job never
ends, and a call of Java does not return. So Spark is called in a thread of its own, while the
thread that publishes looks for signs of life: tasks touch a file in the staging folder when they
begin, while they read, and when they end.
"""

from __future__ import annotations

import os
import queue
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from scumble.model.errors import ScumbleError

_Answer = TypeVar("_Answer")

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
    "no task has begun, read on or ended for {} minutes, perhaps because the Java process of the "
    "session lost a message for lack of memory; a larger spark.driver.memory may help"
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


def answer_of(context: Any, staging: Path, call: Callable[[], _Answer]) -> _Answer:
    """Return what `call` returns, which may use the context.

    If it raises an error of Spark, which may quote values and keys, or if there is no sign of life
    for too long, ScumbleError has one sentence. The tasks of this call are cancelled then, and
    after any other exception, such as that of Ctrl-C.
    """
    tag = f"scumble-{secrets.token_hex(8)}"

    def tagged() -> _Answer:
        context.addJobTag(tag)  # of this thread, which ends with the call
        return call()

    try:
        with _failures_told(context):
            found: _Answer = _awaited(_started(tagged), staging / _BEAT)
            return found
    except BaseException:
        _cancel(context, tag)
        raise


def _started(call: Callable[[], _Answer]) -> queue.SimpleQueue[tuple[Any, BaseException | None]]:
    """Begin a call in another thread, which has the properties that Spark keeps for this one."""
    from pyspark import InheritableThread

    box: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            box.put((call(), None))
        except BaseException as error:
            box.put((None, error))

    InheritableThread(target=work, daemon=True).start()
    return box


def _awaited(box: queue.SimpleQueue[tuple[Any, BaseException | None]], sign: Path) -> Any:
    """Return or raise what the thread puts into the box, as long as there are signs of life."""
    seen, since = sign.stat().st_mtime_ns, time.monotonic()
    while True:
        with suppress(queue.Empty):
            answer, error = box.get(timeout=_LOOK_SECONDS)
            if error is not None:
                raise error
            return answer
        now = sign.stat().st_mtime_ns
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            raise _SilenceError


class _SilenceError(Exception):
    """There was no sign of life for too long."""


def _cancel(context: Any, tag: str) -> None:
    """Cancel tasks, if Java still answers."""

    def cancel() -> None:
        with suppress(Exception):  # Spark itself may have ended
            context.cancelJobsWithTag(tag)

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    thread.join(_CANCEL_SECONDS)


@contextmanager
def _failures_told(context: Any) -> Iterator[None]:
    """Turn the errors of Spark into sentences."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
        return
    except (PySparkException, Py4JError, OSError, EOFError) as error:
        text = str(error)
        reason = next((told for sign, told in _REASONS if sign in text), "see the logs of Spark")
    except _SilenceError:
        reason = _SILENT.format(round(PATIENCE / 60, 1))
    # Raised outside of the except clause, so that the context of the exception is not kept either.
    if java_ended(context):
        reason = _GONE
    raise ScumbleError(f"The Spark cluster could not do its work: {reason}.")


def java_ended(context: Any) -> bool:
    """Whether the Java process that this process started is gone."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)  # its connections close a little before it ends
    return process.poll() is not None
