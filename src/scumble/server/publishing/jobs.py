"""Long work in the background: it has a progress, and can be cancelled.

Most of it runs in a process of its own, so that questions are answered meanwhile, and a cancelled
job leaves nothing behind.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from scumble.model.errors import ScumbleError, set_dialect
from scumble.server.problems import Problem, ServerDialect, trace

State = Literal["waiting", "running", "done", "failed", "cancelled"]
log = logging.getLogger("scumble.server")
_RUN = "from scumble.server.publishing.tasks import main; main()"
_KEPT = 200  # jobs that are remembered after their end
_PATIENCE = 10.0  # seconds that a process gets to clean up
TOO_LARGE = (
    "The work needs more than {:,.0f} MB of memory (limits.job_memory). Use fewer columns or rows, "
    "or let the server use more."
)
_ENDED = "The work ended before its result was there: its process was killed, or ran out of memory."
_LATE = "The work took longer than {:,.0f} seconds (limits.job_seconds), and was stopped."
_BUG = "The server failed. The failure is in its log, under the number of this job."


class CancelledError(Exception):
    """Somebody cancelled the job."""


@dataclass
class Job:
    """One piece of work: what it is about, how far it is, and its result or its problem."""

    number: str
    kind: str
    about: str
    makes: str = ""  # the name of the data set that it makes, if it does
    uses: str = ""  # the source that it reads, if that is not what it is about
    memory: float | None = None  # MB that its process may use
    state: State = "waiting"
    words: str = ""
    done: int = 0
    total: int | None = None
    result: Any = None
    problem: str = ""
    begun: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    late: bool = False  # it was cancelled because it took too long
    process: subprocess.Popen[str] | None = None

    @property
    def running(self) -> bool:
        return self.state in ("waiting", "running")

    def report(self, done: int, total: int | None = None) -> None:
        """Note how far the work is; raises `CancelledError` if it is not wanted any more."""
        self.done, self.total = done, self.total if total is None else total
        if self.cancelled:
            raise CancelledError

    def public(self) -> dict[str, Any]:
        """Return what its owner sees, as JSON values."""
        names = ("kind", "about", "state", "words", "done", "total", "result", "problem")
        return {"job": self.number, **{name: getattr(self, name) for name in names}}


class Jobs:
    """The jobs of a server; `at_once` of them run, the others wait.

    The process of a job may use `memory` MB, and a job may take so many `seconds`.
    """

    def __init__(
        self, at_once: int, memory: float | None = None, seconds: float = threading.TIMEOUT_MAX
    ) -> None:
        self._memory, self._seconds = memory, seconds
        self._threads = ThreadPoolExecutor(at_once, "job", set_dialect, (ServerDialect(),))
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def start(
        self, kind: str, about: str, work: Callable[[Job], Any], makes: str = "", uses: str = ""
    ) -> Job:
        """Begin work in the background; `work` is called with its job, in a thread."""
        job = Job(secrets.token_hex(6), kind, about, makes, uses, self._memory)
        with self._lock:
            self._jobs[job.number] = job
            ended = [number for number, each in self._jobs.items() if not each.running]
            for number in ended[: max(0, len(self._jobs) - _KEPT)]:
                del self._jobs[number]
        self._threads.submit(self._run, job, work)
        return job

    def get(self, number: str) -> Job:
        """Return a job; raises `Problem` 404 if there is none."""
        job = self._jobs.get(number)
        if job is None:
            raise Problem(404, "There is no such job.")
        return job

    def of(self, about: str) -> Job | None:
        """Return the latest job about something, if there is one."""
        found = [each for each in self.all() if each.about == about]
        return found[-1] if found else None

    def all(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def cancel(self, number: str) -> Job:
        """Cancel a job; one that has ended stays as it is."""
        job = self.get(number)
        if job.running:
            job.cancelled = True
            _end(job)
        return job

    def close(self) -> None:
        """Cancel everything, and wait until it has ended."""
        for job in self.all():
            if job.running:
                self.cancel(job.number)
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, work: Callable[[Job], Any]) -> None:
        if job.cancelled:
            job.state = "cancelled"
            return
        job.state = "running"
        timer = threading.Timer(self._seconds, self._give_up, (job,))
        timer.daemon = True
        timer.start()
        try:
            result, state, problem = work(job), "done", ""
        except CancelledError as error:
            result, state, problem = None, "cancelled", str(error)
            if job.late:
                sentence = _LATE.format(self._seconds)
                state, problem = "failed", f"{sentence} {problem}".strip()
        except (ScumbleError, Problem) as error:
            sentence = error.detail if isinstance(error, Problem) else str(error)
            result, state, problem = None, "failed", sentence
        except Exception as error:
            log.error("job=%s failed: %s", job.number, trace(error))
            result, state, problem = None, "failed", _BUG
        finally:
            timer.cancel()
        job.result, job.problem = result, problem
        job.state = state  # type: ignore[assignment]  # one of the three above
        seconds = time.monotonic() - job.begun
        log.info("job=%s kind=%r state=%s s=%.1f", job.number, job.kind, state, seconds)

    def _give_up(self, job: Job) -> None:
        job.late = True
        self.cancel(job.number)


def in_process(job: Job, task: str, arguments: Mapping[str, Any]) -> Any:
    """Run a task of `tasks.py` in a process of its own, and return its result.

    The process ends when its input does: it does not outlive a server that is killed.
    Raises `CancelledError` if the job was cancelled before the result was there.
    """
    command = [sys.executable, "-P", "-c", _RUN]
    process = subprocess.Popen(  # noqa: S603  # the interpreter that runs, with our own text
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    job.process = process
    with process:
        assert process.stdin is not None  # noqa: S101  # they are pipes
        assert process.stdout is not None  # noqa: S101
        if job.cancelled:
            _end(job)
        last: dict[str, Any] = {}
        given = {"task": task, "arguments": dict(arguments), "memory": job.memory}
        try:
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
        except BrokenPipeError:  # it was cancelled, or died
            with suppress(BrokenPipeError):
                process.stdin.close()
        for line in process.stdout:
            if not line.endswith("\n"):  # it was killed while it wrote
                break
            last = json.loads(line)
            if "done" in last and not job.cancelled:
                with suppress(CancelledError):  # what it still does is waited for
                    job.report(int(last["done"]), last.get("total"))
    if job.cancelled and "result" not in last:
        raise CancelledError
    return _outcome(job, last)


def _outcome(job: Job, last: Mapping[str, Any]) -> Any:
    if "result" in last:
        return last["result"]
    if "error" in last:
        raise ScumbleError(str(last["error"]))
    if "bug" in last:
        log.error("job=%s failed: %s", job.number, last["bug"])
        raise ScumbleError(_BUG)
    # A C++ library aborts if one of its threads gets no memory.
    aborted = job.process is not None and job.process.returncode == -signal.SIGABRT
    if aborted and job.memory is not None:
        raise ScumbleError(TOO_LARGE.format(job.memory))
    raise ScumbleError(_ENDED)


def _end(job: Job) -> None:
    """End the process of a job, if it has one: first politely, later for certain."""
    process = job.process
    if process is None or process.poll() is not None:
        return
    _signal(process, signal.SIGTERM)
    timer = threading.Timer(_PATIENCE, _signal, (process, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def _signal(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal to a process and all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it may end meanwhile
            os.killpg(process.pid, number)
