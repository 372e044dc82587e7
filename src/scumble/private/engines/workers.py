"""Worker processes: tasks are handed out, repeated if a worker dies, and answered in any order.

This process, the driver, works too, and hands out tasks in between. Where a job allows it, a second
thread of the driver takes the place of the first worker. Workers are started with a fresh
interpreter, not forked, and only when enough work is left to pay for their start: of a large table
that is known before its first unit. A script that publishes needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from scumble.model.errors import ScumbleError
from scumble.private.engines.staging import StagingFolder
from scumble.private.engines.worker import (
    BOOT,
    TaskFailure,
    keep_freed_memory,
    may_try_again,
    receive,
    send,
)

ATTEMPTS = 3
# Seconds of work for each process that must be left when one more is started. A start takes 0.3 s
# of processor time; this keeps the price below a fifth.
WORTH = 1.0
_WAKE_SECONDS = 0.2  # how long a signal may wait


class Job(Protocol):
    """What is done with every task. It is pickled once for each worker.

    `seconds` is what a task takes at least, as far as that is known before the first one is done.
    `answer_bytes` is about the size of the longest answer, for jobs that know it beforehand.
    `releases_lock` is true for jobs that spend their time in numpy, Arrow and compiled loops, and
    of which two tasks may run in two threads.
    """

    def run(self, content: Any, note: Callable[[Any], None]) -> Any:
        """Return the answer to a task.

        `note` tells the driver something before that. None tells nothing: a job says so a few times
        a second, so that the driver can look after the workers while it does a task itself.
        """
        ...


@dataclass
class Task:
    """A piece of work. `content()` is what the job gets at each attempt."""

    number: int
    content: Callable[[], Any]
    attempt: int = 0
    notes: list[Any] = field(default_factory=list)


class Executor(Protocol):
    """Where tasks are done: processes of this machine, or a cluster."""

    divides_people: bool  # whether tasks find the first rows of each person

    def staging(self, folder: Path | None = None) -> Path:
        """Return a folder that all processes see, for files that jobs leave there for each other.

        `folder` is that of the unsaved release, if there are files for it.
        """
        ...

    def run(self, job: Job, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield every task with its answer, as they come.

        A task whose process died, or that could not read or write, is tried again. Any other error
        ends the job: of several, that of the first task is raised, as in one process.
        """
        ...


class _Worker:
    """One process, and a thread that puts its answers into the common inbox.

    `tasks` are those that it was given, the one that it works on first.
    """

    def __init__(self, inbox: queue.SimpleQueue[Any]) -> None:
        self.process = subprocess.Popen(  # noqa: S603 (this interpreter, and a fixed text)
            [sys.executable, "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a library may quote private values there
            start_new_session=True,  # Ctrl-C is the driver's
            # Tasks use no linear algebra, whose threads would wait for work in a loop at first.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._input: Any = self.process.stdin
        self._output: Any = self.process.stdout
        self.tasks: deque[Task] = deque()
        self.job: object = None
        self._inbox = inbox
        self._send([os.getcwd() if path == "" else path for path in sys.path])
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, task: Task, job: Job) -> None:
        if self.job is not job:
            self._send(("job", job))
            self.job = job
        self.tasks.append(task)
        self._send(("task", task.content()))

    def _send(self, message: object) -> None:
        with suppress(OSError):  # if it has died, its thread says so
            send(self._input, message)

    def _listen(self) -> None:
        with suppress(OSError, ValueError, EOFError):
            while (message := receive(self._output)) is not None:
                self._inbox.put((self, message))
        self._inbox.put((self, ("dead", None)))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self._input.close()
        with suppress(OSError):
            self._output.close()


class Workers:
    """The driver and at most `jobs - 1` workers, until the end of the `with` block. The first of
    them is a thread of the driver while a job runs that allows it.

    Tests use three attributes: `order` rearranges the tasks of a job before they are handed out;
    without `takes_part` all tasks are done by up to `jobs` workers; with `divides_people` they find
    the first rows of each person, which took 2 to 3.5 times the processor time of one process.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.order: Callable[[list[Task]], list[Task]] | None = None
        self.takes_part = True
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.running: list[_Worker | ThreadWorker] = []
        self.divides_people = False
        self._staging = StagingFolder()

    def __enter__(self) -> Workers:
        keep_freed_memory()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(self.running)
        self._staging.__exit__(kind, error, trace)

    def processes(self) -> list[int]:
        """Return the numbers of the worker processes that are running."""
        return [each.process.pid for each in self.running if isinstance(each, _Worker)]

    def start(self) -> None:
        """Start one more worker."""
        self.running.append(_Worker(self.inbox))

    def start_thread(self) -> None:
        """Start a second thread of the driver."""
        self.running.append(ThreadWorker(self.inbox))

    def stop(self, workers: Iterable[_Worker | ThreadWorker]) -> None:
        """End these workers, such as those whose answers nobody waits for any more."""
        for worker in list(workers):
            self.running.remove(worker)
            worker.stop()

    def staging(self, folder: Path | None = None) -> Path:
        """Return the folder of the unsaved release, or a private one."""
        return self._staging.path if folder is None else folder

    def run(self, job: Job, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield every task with its answer (see `Executor`)."""
        given = tasks if self.order is None else self.order(list(tasks))
        return _Run(self, job, given).answers()


class _Run:
    """The tasks of one job: those to hand out, the answers to yield, and the errors."""

    def __init__(self, workers: Workers, job: Job, tasks: Iterable[Task]) -> None:
        self._workers, self._job = workers, job
        self._waiting = iter(tasks)
        self._unread = len(tasks) if isinstance(tasks, Sized) else None
        self._ahead: deque[Task] = deque()  # taken from `_waiting`, or to be tried again
        self._done: deque[tuple[Task, Any]] = deque()
        self._failures: dict[int, BaseException] = {}
        self._seconds, self._own = 0.0, 0  # that own tasks have taken

    def answers(self) -> Iterator[tuple[Task, Any]]:
        try:
            while True:
                self._hand_out()
                if self._workers.takes_part and (own := self._next()):
                    self._do(own)
                    self._look(0)
                elif any(worker.tasks for worker in self._workers.running):
                    self._look(_WAKE_SECONDS)
                elif not self._done:
                    break
                while self._done:
                    yield self._done.popleft()
        finally:
            running = self._workers.running
            self._workers.stop(
                each for each in running if each.tasks or isinstance(each, ThreadWorker)
            )
        if self._failures:
            raise self._failures[min(self._failures)]

    def _next(self) -> Task | None:
        """Return the next task, if there is one that can still be of use.

        After an error only the tasks before it are: they may have errors of their own.
        """
        self._fill(1)
        if self._failures:
            first = min(self._failures)
            self._ahead = deque(task for task in self._ahead if task.number < first)
        return self._ahead.popleft() if self._ahead else None

    def _fill(self, number: int) -> None:
        """Have at least this number of tasks ready, if there are as many."""
        taken = list(islice(self._waiting, max(0, number - len(self._ahead))))
        self._ahead.extend(taken)
        if self._unread is not None:
            self._unread -= len(taken)

    def _hand_out(self) -> None:
        """Start a worker if that pays, and give a task to all workers that have none.

        Those that have one get the next one ahead, unless so few are left that it would wait there
        while another process has nothing to do.
        """
        running, most = self._workers.running, self._workers.jobs - self._workers.takes_part
        if len(running) < most and self._thread_pays():
            self._workers.start_thread()
        while len(running) < most and self._pays():
            self._workers.start()
        for worker in [each for each in running if not each.tasks]:
            if task := self._next():
                worker.give(task, self._job)
        for worker in [each for each in running if len(each.tasks) == 1]:
            if self._left() > len(running) + 1 and (task := self._next()):
                worker.give(task, self._job)

    def _thread_pays(self) -> bool:
        """Return whether a second thread of this process has something to do."""
        if not (self._workers.takes_part and getattr(self._job, "releases_lock", False)):
            return False
        if any(isinstance(each, ThreadWorker) for each in self._workers.running):
            return False
        self._fill(2)
        return not self._failures and len(self._ahead) > 1

    def _left(self) -> int:
        """Return how many tasks are known to be left."""
        return len(self._ahead) + (self._unread or 0)

    def _pays(self) -> bool:
        """Return whether enough work is left for one more worker: at the speed of this process so
        far, or before that by what the job says of itself, and as much as was done if the number of
        tasks is not known.
        """
        idle = sum(not worker.tasks for worker in self._workers.running)
        self._fill(idle + 1)
        if self._failures or len(self._ahead) <= idle:
            return False
        if not self._workers.takes_part:
            return True
        left = self._seconds
        if self._unread is not None:
            first = getattr(self._job, "seconds", 0.0)
            left = (self._seconds / self._own if self._own else first) * self._left()
        return left > WORTH * (len(self._workers.running) + 2)

    def _do(self, task: Task) -> None:
        """Do a task in this process."""

        def note(told: Any) -> None:
            if told is not None:
                task.notes.append(told)
            self._look(0)
            self._hand_out()

        begin = time.perf_counter()
        try:
            answer = self._job.run(task.content(), note)
        except Exception as error:
            self._failed(task, error, again=may_try_again(error))
        else:
            self._done.append((task, answer))
        self._seconds += time.perf_counter() - begin
        self._own += 1

    def _look(self, seconds: float) -> None:
        """Read the messages of the workers; wait for the first one if there is none."""
        with suppress(queue.Empty):
            self._hear(*self._workers.inbox.get(timeout=seconds))
            while True:
                self._hear(*self._workers.inbox.get_nowait())

    def _hear(self, worker: _Worker | ThreadWorker, message: tuple[str, Any]) -> None:
        kind, content = message
        if worker not in self._workers.running:
            return
        if kind == "dead":
            self._workers.stop([worker])
            self._ahead.extendleft(reversed(list(worker.tasks)[1:]))
        if not worker.tasks:
            return
        if kind == "note":
            worker.tasks[0].notes.append(content)
            return
        task = worker.tasks.popleft()
        if kind == "done":
            self._done.append((task, content))
        elif kind == "dead":
            self._failed(task, _LOST, again=True)
        else:
            self._failed(task, content.error(), again=content.again)

    def _failed(self, task: Task, error: BaseException, *, again: bool) -> None:
        """Try a task again, or keep its error."""
        task.attempt += 1
        if again and task.attempt < ATTEMPTS:
            self._ahead.appendleft(task)
        else:
            self._failures[task.number] = error


_LOST = ScumbleError(
    "A worker process ended three times at the same part of the table, perhaps for lack of memory. "
    "Use fewer jobs."
)


# --- a second thread of the driver ----------------------------------------------------------------
#
# A second thread of the driver that does tasks, as a worker process does.
#
# It starts at once and has everything in memory that the driver has. It is for jobs that spend
# their time in numpy, Arrow and compiled loops, which release the lock of the interpreter; a job
# says so by `releases_lock`.


class ThreadWorker:
    """A thread that puts its answers into the common inbox.

    `tasks` are those that it was given, the one that it works on first.
    """

    def __init__(self, inbox: queue.SimpleQueue[Any]) -> None:
        self.tasks: deque[Task] = deque()
        self._inbox = inbox
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def give(self, task: Task, job: Job) -> None:
        self.tasks.append(task)
        self._given.put((job, task.content()))

    def stop(self) -> None:
        """End the thread: between two pieces of a unit, if it is working."""
        self._stopped = True
        self._given.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._given.get()) is not None:
            job, content = given
            try:
                found = job.run(content, self._note)
            except _StoppedError:
                return
            except BaseException as error:
                self._inbox.put((self, ("failure", TaskFailure.of(error))))
            else:
                self._inbox.put((self, ("done", found)))

    def _note(self, told: object) -> None:
        if self._stopped:
            raise _StoppedError
        if told is not None:
            self._inbox.put((self, ("note", told)))


class _StoppedError(BaseException):
    """Ends a task whose answer nobody waits for. No task handles it."""
